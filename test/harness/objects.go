package harness

import (
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
)

// NewMachineSet returns a MachineSet of the usual namespace whose Machines the provider kwok plays.
func NewMachineSet(name string, replicas int32, options ...func(*machinev1beta1.MachineSet)) *machinev1beta1.MachineSet {
	set := builder.MachineSet(cluster.MachineNamespace, name, replicas)
	set.Spec.Template.Spec.ProviderSpec = KwokProviderSpec(nil)
	for _, option := range options {
		option(set)
	}
	return set
}

// NewMachine returns a Machine of the usual namespace, without a MachineSet, that the provider kwok plays.
func NewMachine(name string, options ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	machine := builder.Machine(cluster.MachineNamespace, name, builder.WithProviderSpec(KwokProviderSpec(nil)))
	for _, option := range options {
		option(machine)
	}
	return machine
}

// WithKwok has kwok play the kubelet of a Node.
func WithKwok(node *corev1.Node) { node.Annotations[kwokAnnotation] = "fake" }

// kwokAnnotation is on the Nodes whose kubelets kwok plays.
const kwokAnnotation = "kwok.x-k8s.io/node"

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
	return builder.RawProviderSpec(string(text))
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
