package kwok

import (
	"encoding/json"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/provider"
)

// GroupVersion is the API group and version of ProviderSpec and ProviderStatus.
var GroupVersion = schema.GroupVersion{Group: "kwok.provider.drover.dev", Version: "v1alpha1"}

// ProviderSpec is spec.providerSpec.value of a Machine that kwok plays.
type ProviderSpec struct {
	metav1.TypeMeta `json:",inline"`
	// BootDelay is how long it takes from the instance to its Node; zero is none.
	BootDelay metav1.Duration `json:"bootDelay,omitzero"`
	// Capacity is the Node's; empty is 16 CPUs, 64Gi of memory, 120Gi of storage and 250 pods.
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// Labels, Annotations and Taints are what the Node registers with.
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Taints      []corev1.Taint    `json:"taints,omitempty"`
	// InstanceType, Region and Zone are what the columns of kubectl show.
	InstanceType string `json:"instanceType,omitempty"`
	Region       string `json:"region,omitempty"`
	Zone         string `json:"zone,omitempty"`
	// Failure is what goes wrong.
	Failure Failure `json:"failure,omitzero"`
}

// Failure makes a Machine fail as real ones do. The zero value is none.
type Failure struct {
	// Create is what the provider answers to Create: nothing, or one of InvalidConfiguration, InsufficientResources, CreateError.
	Create machinev1beta1.MachineStatusError `json:"create,omitempty"`
	// NeverBoots: the instance runs, and no Node ever comes.
	NeverBoots bool `json:"neverBoots,omitempty"`
	// NotReadyAfter is how long after its Node came the Node turns NotReady; zero is never.
	NotReadyAfter metav1.Duration `json:"notReadyAfter,omitzero"`
	// VanishesAfter is how long after it was made the instance is gone, its Node left behind; zero is never.
	VanishesAfter metav1.Duration `json:"vanishesAfter,omitzero"`
	// StaysFor is how long the instance takes to end after Delete.
	StaysFor metav1.Duration `json:"staysFor,omitzero"`
}

// ProviderStatus is status.providerStatus of the Machine. It is all that the provider remembers of an instance.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`
	// InstanceID names the instance.
	InstanceID string `json:"instanceId"`
	// InstanceState is how it is.
	InstanceState provider.InstanceState `json:"instanceState"`
	// Made is when it was made, to the millisecond: the boot delay counts from it.
	Made time.Time `json:"made"`
}

// The names of the two kinds.
const (
	kindSpec   = "KwokMachineProviderSpec"
	kindStatus = "KwokMachineProviderStatus"
)

// specOf reads the spec of a Machine. Unknown fields are an error: they are misspelt.
func specOf(machine *machinev1beta1.Machine) (*ProviderSpec, error) {
	spec := &ProviderSpec{}
	value := machine.Spec.ProviderSpec.Value
	if value == nil || len(value.Raw) == 0 {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value: it must be a %s of %s", kindSpec, GroupVersion)
	}
	if err := provider.DecodeSpec(value.Raw, spec); err != nil {
		return nil, err
	}
	for field, d := range map[string]time.Duration{
		"bootDelay": spec.BootDelay.Duration, "failure.notReadyAfter": spec.Failure.NotReadyAfter.Duration,
		"failure.vanishesAfter": spec.Failure.VanishesAfter.Duration, "failure.staysFor": spec.Failure.StaysFor.Duration,
	} {
		if d < 0 {
			return nil, provider.InvalidConfiguration("spec.providerSpec.value.%s: %s is negative", field, d)
		}
	}
	return spec, nil
}

// statusOf reads what was recorded of a Machine's instance; nil when nothing was.
func statusOf(machine *machinev1beta1.Machine) (*ProviderStatus, error) {
	if machine.Status.ProviderStatus == nil || len(machine.Status.ProviderStatus.Raw) == 0 {
		return nil, nil
	}
	status := &ProviderStatus{}
	if err := json.Unmarshal(machine.Status.ProviderStatus.Raw, status); err != nil {
		return nil, fmt.Errorf("status.providerStatus: %w", err)
	}
	if status.InstanceID == "" {
		return nil, nil
	}
	return status, nil
}
