package cluster

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/kwok"
)

// The place that the Nodes of a pool report, and the labels with the same place on their Machines.
const (
	instanceType, region, zone = "kwok.fake", "sandbox", "zone-a"

	instanceTypeLabel = "machine.openshift.io/instance-type"
	regionLabel       = "machine.openshift.io/region"
	zoneLabel         = "machine.openshift.io/zone"
	// instanceStateAnnotation of a Machine says what its provider says of the instance.
	instanceStateAnnotation = "machine.openshift.io/instance-state"
)

// machineName is the name of a Machine and of its Node.
func (o *PoolOptions) machineName(index int) string { return o.Name + "-" + strconv.Itoa(index) }

// providerSpec is the provider kwok's template for Nodes: the pool's first Nodes, and the Nodes that Drover creates when the pool grows.
func (o *PoolOptions) providerSpec() (*runtime.RawExtension, error) {
	labels := map[string]string{"node-role.kubernetes.io/worker": "", PoolLabel: o.Name, PoolNamespaceLabel: o.Namespace}
	maps.Copy(labels, o.NodeLabels)
	text, err := json.Marshal(kwok.ProviderSpec{
		TypeMeta: metav1.TypeMeta{APIVersion: kwok.GroupVersion.String(), Kind: kwok.Provider().Kinds[0].Kind},
		Labels:   labels, Annotations: o.NodeAnnotations, Taints: o.NodeTaints,
		InstanceType: instanceType, Region: region, Zone: zone,
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: rendering the providerSpec of the pool %s: %w", o.Name, err)
	}
	return &runtime.RawExtension{Raw: text}, nil
}

func (o *PoolOptions) machineSet(replicas int32, providerSpec *runtime.RawExtension) *machinev1beta1.MachineSet {
	return builder.MachineSet(o.Namespace, o.Name, replicas, func(set *machinev1beta1.MachineSet) {
		set.Labels[PoolLabel] = o.Name
		set.Spec.Template.Spec = machinev1beta1.MachineSpec{
			ObjectMeta:   machinev1beta1.ObjectMeta{Labels: o.Labels, Annotations: o.Annotations},
			Taints:       o.Taints,
			ProviderSpec: machinev1beta1.ProviderSpec{Value: providerSpec},
		}
	})
}

// machine is the Machine that the machineset controller would make from the template, but for its name and its finalizer, and with what the
// machine controller records of its instance. The finalizer is Drover's to add: without Drover nothing would remove it.
func (o *PoolOptions) machine(set *machinev1beta1.MachineSet, index int) *machinev1beta1.Machine {
	return builder.Machine(o.Namespace, o.machineName(index), builder.WithOwner(set), func(machine *machinev1beta1.Machine) {
		maps.Copy(machine.Labels, map[string]string{instanceTypeLabel: instanceType, regionLabel: region, zoneLabel: zone})
		machine.Annotations[instanceStateAnnotation] = string(provider.Running)
		machine.Spec = *set.Spec.Template.Spec.DeepCopy()
		machine.Spec.ProviderID = new(kwok.ProviderID(machine))
	})
}

// machineStatus is what the machine controller and nodelink report of a machine that runs.
func machineStatus(instance *provider.Instance, node *corev1.Node) machinev1beta1.MachineStatus {
	phase, now := machinev1beta1.PhaseRunning, metav1.Now()
	return machinev1beta1.MachineStatus{
		Phase:          &phase,
		NodeRef:        &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID},
		Addresses:      instance.Addresses,
		ProviderStatus: instance.Status,
		LastUpdated:    &now,
	}
}

// link puts on a Node what nodelink adds to it.
func (o *PoolOptions) link(set *machinev1beta1.MachineSet, node *corev1.Node) {
	node.Annotations[MachineAnnotation] = o.Namespace + "/" + node.Name
	if o.CopyToNodes {
		maps.Copy(node.Labels, set.Spec.Template.Spec.Labels)
		node.Spec.Taints = append(node.Spec.Taints, set.Spec.Template.Spec.Taints...)
	}
}

// pod is a Pod that is bound to a Node from the start.
func (o *PoolOptions) pod(node string, index int) *corev1.Pod {
	return builder.Pod(o.PodNamespace(), node+"-"+strconv.Itoa(index), node, func(pod *corev1.Pod) {
		pod.Labels = map[string]string{PoolLabel: o.Name, PoolNamespaceLabel: o.Namespace}
		pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}
	})
}
