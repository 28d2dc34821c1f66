package harness

import (
	"encoding/json"
	"fmt"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
)

// The builders return objects as their author writes them. Options change them before they are created.

// NewMachineSet returns a MachineSet of the usual namespace whose Machines the provider kwok plays.
func NewMachineSet(name string, replicas int32, options ...func(*machinev1beta1.MachineSet)) *machinev1beta1.MachineSet {
	labels := map[string]string{cluster.MachineSetLabel: name}
	set := &machinev1beta1.MachineSet{
		ObjectMeta: Meta(name),
		Spec: machinev1beta1.MachineSetSpec{
			Replicas: &replicas, Selector: metav1.LabelSelector{MatchLabels: labels},
			Template: machinev1beta1.MachineTemplateSpec{
				ObjectMeta: machinev1beta1.ObjectMeta{Labels: labels}, Spec: machinev1beta1.MachineSpec{ProviderSpec: KwokProviderSpec(nil)},
			},
		},
	}
	return changed(set, options)
}

// NewMachine returns a Machine of the usual namespace, without a MachineSet, that the provider kwok plays.
func NewMachine(name string, options ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: Meta(name), Spec: machinev1beta1.MachineSpec{ProviderSpec: KwokProviderSpec(nil)}}
	return changed(machine, options)
}

// NewNode returns a Node as a kubelet registers it, without a status.
func NewNode(name string, options ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{}}}
	return changed(node, options)
}

// NewBudget returns a PodDisruptionBudget for the pods that have some labels.
func NewBudget(namespace, name string, labels map[string]string, demand func(*policyv1.PodDisruptionBudgetSpec)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	budget.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	demand(&budget.Spec)
	return budget
}

func changed[T any](object T, options []func(T)) T {
	for _, option := range options {
		option(object)
	}
	return object
}

// WithNodeLabels adds labels to a Node.
func WithNodeLabels(labels map[string]string) func(*corev1.Node) {
	return func(node *corev1.Node) { maps.Copy(node.Labels, labels) }
}

// WithProviderID sets the providerID of a Node.
func WithProviderID(id string) func(*corev1.Node) {
	return func(node *corev1.Node) { node.Spec.ProviderID = id }
}

// WithKwok has kwok play the kubelet of a Node.
func WithKwok(node *corev1.Node) {
	metav1.SetMetaDataAnnotation(&node.ObjectMeta, "kwok.x-k8s.io/node", "fake")
}

// WithReady sets the condition Ready of a Node.
func WithReady(status corev1.ConditionStatus) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
	}
}

// WithProviderSpec sets the provider spec of a Machine; KwokProviderSpec returns one.
func WithProviderSpec(spec machinev1beta1.ProviderSpec) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) { machine.Spec.ProviderSpec = spec }
}

// KwokProviderSpec returns a provider spec of the provider kwok; change may be nil.
func KwokProviderSpec(change func(*kwok.ProviderSpec)) machinev1beta1.ProviderSpec {
	spec := &kwok.ProviderSpec{TypeMeta: metav1.TypeMeta{APIVersion: kwok.GroupVersion.String(), Kind: kwok.Provider().Kinds[0].Kind}}
	if change != nil {
		change(spec)
	}
	text, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("harness: rendering a provider spec: %v", err))
	}
	return machinev1beta1.ProviderSpec{Value: &runtime.RawExtension{Raw: text}}
}

// NeverBoots returns a provider spec of the provider kwok whose instance never becomes a Node.
func NeverBoots() machinev1beta1.ProviderSpec {
	return KwokProviderSpec(func(spec *kwok.ProviderSpec) { spec.Failure.NeverBoots = true })
}

// NewCanary returns a MachineConfigPool that selects the workers with a label, whatever its value.
func NewCanary(name, label string) *mcfgv1.MachineConfigPool {
	pool := openshift.NewPool(name)
	pool.Spec.NodeSelector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{openshift.NodeRoleLabel(openshift.PoolWorker): ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: label, Operator: metav1.LabelSelectorOpExists}},
	}
	return pool
}
