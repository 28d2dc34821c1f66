package machine

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/provider"
)

// Actuators knows which provider serves which Machines.
type Actuators struct {
	kinds map[schema.GroupKind]provider.Actuator
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
		for _, kind := range p.Kinds {
			if a.kinds[kind] != nil {
				return nil, fmt.Errorf("provider %s: another one serves %s already", p.Name, kind)
			}
			a.kinds[kind] = actuator
		}
	}
	return a, nil
}

// errNoSpec tells that a Machine says nothing about its instance.
var errNoSpec = errors.New("spec.providerSpec.value: it is missing; it says what instance the Machine is to be")

// providerError is an error of a provider. It does not unwrap: a 404 or 409 in it is of the provider's own objects, and says nothing of the
// Machine. What the provider says with its typed errors is read before it is wrapped.
type providerError struct {
	machine types.NamespacedName
	err     error
}

func (e *providerError) Error() string {
	return fmt.Sprintf("the provider of Machine %s: %v", e.machine, e.err)
}

// of returns the actuator that serves a Machine.
func (a *Actuators) of(machine *machinev1beta1.Machine) (provider.Actuator, error) {
	value := machine.Spec.ProviderSpec.Value
	if value == nil || len(value.Raw) == 0 {
		return nil, errNoSpec
	}
	var kind metav1.TypeMeta
	if err := json.Unmarshal(value.Raw, &kind); err != nil {
		return nil, fmt.Errorf("spec.providerSpec.value: %w", err)
	}
	served := kind.GroupVersionKind().GroupKind()
	if actuator := a.kinds[served]; actuator != nil {
		return actuator, nil
	}
	return nil, fmt.Errorf("spec.providerSpec.value: no provider that --providers turns on serves %s; on are %s", served, cmp.Or(a.names(), "none"))
}

func (a *Actuators) names() string {
	var names []string
	for kind := range a.kinds {
		names = append(names, kind.String())
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
