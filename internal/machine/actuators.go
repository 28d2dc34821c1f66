package machine

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"

	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/provider"
)

// Actuators are the actuators of all providers, by the kinds that they serve.
type Actuators struct {
	kinds map[schema.GroupKind]provider.Actuator
	// runners are the actuators that work in the background.
	runners []provider.Runner
}

// NewActuators returns the actuators of providers, each with the options of its name.
func NewActuators(
	environment provider.Environment, options map[string]map[string]string, providers ...provider.Provider,
) (*Actuators, error) {
	a := &Actuators{kinds: map[schema.GroupKind]provider.Actuator{}}
	for _, p := range providers {
		environment.Options = options[p.Name]
		actuator, err := p.New(environment)
		if err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.Name, err)
		}
		if runner, ok := actuator.(provider.Runner); ok {
			a.runners = append(a.runners, runner)
		}
		for _, kind := range p.Kinds {
			if a.kinds[kind] != nil {
				return nil, fmt.Errorf("provider %s: another provider already serves %s", p.Name, kind)
			}
			a.kinds[kind] = actuator
		}
	}
	return a, nil
}

// Capacity returns the actuator that knows what the Nodes of a MachineSet will have; nil if that which serves its Machines does not.
func (a *Actuators) Capacity(set *machinev1beta1.MachineSet) (provider.CapacityProvider, error) {
	actuator, err := a.serving(&set.Spec.Template.Spec)
	if err != nil {
		return nil, err
	}
	known, _ := actuator.(provider.CapacityProvider)
	return known, nil
}

// of returns the actuator that serves a Machine.
func (a *Actuators) of(machine *machinev1beta1.Machine) (provider.Actuator, error) {
	return a.serving(&machine.Spec)
}

// serving returns the actuator that serves Machines with a spec.
func (a *Actuators) serving(spec *machinev1beta1.MachineSpec) (provider.Actuator, error) {
	value := spec.ProviderSpec.Value
	if value == nil || len(value.Raw) == 0 {
		return nil, plan.ErrNoSpec
	}
	var kind metav1.TypeMeta
	// Admission policies distinguish "kind" from "Kind": what they do not see must not count here.
	if err := kjson.UnmarshalCaseSensitivePreserveInts(value.Raw, &kind); err != nil {
		return nil, fmt.Errorf("spec.providerSpec.value: %w", err)
	}
	served := kind.GroupVersionKind().GroupKind()
	if actuator := a.kinds[served]; actuator != nil {
		return actuator, nil
	}
	return nil, fmt.Errorf("spec.providerSpec.value: no provider that --providers enables serves %s; enabled: %s", served, cmp.Or(a.names(), "none"))
}

func (a *Actuators) names() string {
	var names []string
	for kind := range a.kinds {
		names = append(names, kind.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
