package kwok

import (
	"fmt"
	"hash/fnv"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationInstance on a Node holds the UID of the Machine whose instance it is: one of the same name that was made for another Machine
// is none of its.
const AnnotationInstance = "kwok.provider.drover.dev/instance"

// annotationFake is what kwok looks for.
const annotationFake = "kwok.x-k8s.io/node"

// AnnotationReady with the value "false" makes the sandbox's kwok turn the Node NotReady.
const AnnotationReady = "sandbox.drover.io/ready"

// ProviderID is the providerID of a Machine's instance.
func ProviderID(machine *machinev1beta1.Machine) string {
	return "kwok://" + machine.Namespace + "/" + machine.Name
}

// addresses are made up of the Machine's UID, outside of the usual ranges of Services.
func addresses(machine *machinev1beta1.Machine) []corev1.NodeAddress {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(machine.UID))
	sum := hash.Sum32()
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.%d.%d.%d", 128+sum>>16&127, sum>>8&255, sum&255)},
		{Type: corev1.NodeHostName, Address: machine.Name},
	}
}

func defaultCapacity() corev1.ResourceList {
	return corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("16"), corev1.ResourceMemory: resource.MustParse("64Gi"),
		corev1.ResourceEphemeralStorage: resource.MustParse("120Gi"), corev1.ResourcePods: resource.MustParse("250"),
	}
}

// nodeOf is the Node as its kubelet would register it, ready from the start.
func nodeOf(machine *machinev1beta1.Machine, spec *ProviderSpec, now metav1.Time) *corev1.Node {
	labels := map[string]string{
		corev1.LabelHostname: machine.Name,
		// Without these two kube-controller-manager would add them, in two requests for each Node.
		"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64",
	}
	maps.Copy(labels, spec.labels())
	annotations := map[string]string{annotationFake: "fake", AnnotationInstance: string(machine.UID)}
	maps.Copy(annotations, spec.Annotations)
	capacity := spec.capacity()
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: machine.Name, Labels: labels, Annotations: annotations},
		Spec:       corev1.NodeSpec{ProviderID: ProviderID(machine), Taints: spec.Taints},
		Status: corev1.NodeStatus{
			Capacity: capacity, Allocatable: capacity, Addresses: addresses(machine), Conditions: conditions(now),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion: "v1.37.1", OperatingSystem: "linux", Architecture: "amd64", ContainerRuntimeVersion: "kwok://0",
				OSImage: "kwok", KernelVersion: "kwok",
			},
		},
	}
}

func conditions(now metav1.Time) []corev1.NodeCondition {
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: kind, Status: status, Reason: reason, Message: "played by kwok", LastHeartbeatTime: now, LastTransitionTime: now,
		}
	}
	return []corev1.NodeCondition{
		condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady"),
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID"),
	}
}
