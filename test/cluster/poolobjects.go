package cluster

import (
	"fmt"
	"hash/fnv"
	"maps"
	"strconv"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	instanceType = "kwok.fake"
	zoneCount    = 3
)

// machineName is the name of a Machine and of its Node.
func (o *PoolOptions) machineName(index int) string { return o.Name + "-" + strconv.Itoa(index) }

func (o *PoolOptions) providerID(index int) string {
	return "kwok://" + o.Name + "/" + o.machineName(index)
}

// address is an address for the node of an index, outside the range of the Services.
func (o *PoolOptions) address(index int) string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(o.Name))
	return fmt.Sprintf("10.%d.%d.%d", 128+hash.Sum32()%128, index>>8, index&255)
}

func (o *PoolOptions) addresses(index int) []corev1.NodeAddress {
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: o.address(index)},
		{Type: corev1.NodeHostName, Address: o.machineName(index)},
	}
}

func zone(index int) string { return "zone-" + string(rune('a'+index%zoneCount)) }

func (o *PoolOptions) machineSet(replicas int32) *machinev1beta1.MachineSet {
	membership := map[string]string{MachineSetLabel: o.Name}
	return &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: map[string]string{PoolLabel: o.Name}},
		Spec: machinev1beta1.MachineSetSpec{
			Replicas: &replicas,
			Selector: metav1.LabelSelector{MatchLabels: membership},
			Template: machinev1beta1.MachineTemplateSpec{
				ObjectMeta: machinev1beta1.ObjectMeta{Labels: membership},
				Spec: machinev1beta1.MachineSpec{
					ObjectMeta: machinev1beta1.ObjectMeta{Labels: o.Labels, Annotations: o.Annotations},
					Taints:     o.Taints,
				},
			},
		},
	}
}

// machine is the Machine that the machineset controller would make from the template, but for its name, and with the
// provider ID that the machine controller adds.
func (o *PoolOptions) machine(set *machinev1beta1.MachineSet, index int) *machinev1beta1.Machine {
	template := set.Spec.Template.DeepCopy()
	providerID := o.providerID(index)
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.Namespace, Name: o.machineName(index), Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{
				*metav1.NewControllerRef(set, machinev1beta1.GroupVersion.WithKind("MachineSet")),
			},
		},
		Spec: template.Spec,
	}
	machine.Spec.ProviderID = &providerID
	return machine
}

// machineStatus is what the machine controller and nodelink report of a machine that runs.
func (o *PoolOptions) machineStatus(index int, node *corev1.Node) machinev1beta1.MachineStatus {
	phase, now := machinev1beta1.PhaseRunning, metav1.Now()
	return machinev1beta1.MachineStatus{
		Phase:       &phase,
		NodeRef:     &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID},
		Addresses:   o.addresses(index),
		LastUpdated: &now,
	}
}

// node is a Node as its kubelet registers it, already ready, with what the cloud and nodelink add.
func (o *PoolOptions) node(set *machinev1beta1.MachineSet, index int) *corev1.Node {
	name := o.machineName(index)
	labels := map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
		// Without these two kube-controller-manager would add them, in two requests per node.
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
		corev1.LabelInstanceTypeStable: instanceType, corev1.LabelTopologyZone: zone(index),
		corev1.LabelTopologyRegion: "sandbox", "node-role.kubernetes.io/worker": "", PoolLabel: o.Name, PoolNamespaceLabel: o.Namespace,
	}
	taints := append([]corev1.Taint{}, o.NodeTaints...)
	if o.CopyToNodes {
		maps.Copy(labels, set.Spec.Template.Spec.Labels)
		taints = append(taints, set.Spec.Template.Spec.Taints...)
	}
	maps.Copy(labels, o.NodeLabels)
	annotations := map[string]string{
		"kwok.x-k8s.io/node": "fake", MachineAnnotation: o.Namespace + "/" + name,
	}
	maps.Copy(annotations, o.NodeAnnotations)
	capacity := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourcePods: resource.MustParse("250"), corev1.ResourceEphemeralStorage: resource.MustParse("120Gi"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: o.providerID(index), Taints: taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Addresses: o.addresses(index), Conditions: readyConditions(),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.1", OperatingSystem: "linux", Architecture: "amd64",
				ContainerRuntimeVersion: "kwok://0", OSImage: "kwok", KernelVersion: "kwok",
			},
		},
	}
}

func readyConditions() []corev1.NodeCondition {
	now := metav1.Now()
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "played by the sandbox",
			LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
	}
}

// pod is a Pod that is bound to a Node from the start.
func (o *PoolOptions) pod(node string, index int) *corev1.Pod {
	token := false
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: o.PodNamespace(), Name: node + "-" + strconv.Itoa(index),
			Labels: map[string]string{PoolLabel: o.Name, PoolNamespaceLabel: o.Namespace},
		},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &token,
			Containers:  []corev1.Container{{Name: "workload", Image: "sandbox.invalid/workload"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}},
		},
	}
}
