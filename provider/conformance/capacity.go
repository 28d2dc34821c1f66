package conformance

import (
	"errors"
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/provider"
)

// setOf returns a MachineSet without Machines whose template is a Machine.
func setOf(machine *machinev1beta1.Machine) *machinev1beta1.MachineSet {
	return &machinev1beta1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: machine.Namespace, Name: "set-of-" + machine.Name, UID: "uid-of-set"},
		Spec:       machinev1beta1.MachineSetSpec{Template: machinev1beta1.MachineTemplateSpec{Spec: machine.Spec}},
	}
}

func capacity(t *testing.T, s Subject) {
	sizes, ok := s.Actuator.(provider.CapacityProvider)
	if !ok {
		t.Skip("the provider knows no capacities")
	}
	if s.Sized == nil || s.Capacity == nil {
		t.Fatal("the provider's test has no Machine whose capacity is known")
	}
	set := setOf(s.Sized(t))
	before := set.DeepCopy()
	for range 2 {
		got, err := sizes.Capacity(t.Context(), set)
		if err != nil {
			t.Fatalf("Capacity: %v", err)
		}
		if !equality.Semantic.DeepEqual(got, s.Capacity) {
			t.Errorf("Capacity is\n%+v\nwant\n%+v", got, s.Capacity)
		}
		if problem := problemOf(got); problem != "" {
			t.Error(problem)
		}
	}
	if left, right := fmt.Sprintf("%+v", before), fmt.Sprintf("%+v", set); left != right {
		t.Errorf("the MachineSet was\n%s\nand is\n%s", left, right)
	}
	if s.Invalid == nil {
		return
	}
	// An instance that can never be has no capacity.
	_, err := sizes.Capacity(t.Context(), setOf(s.Invalid(t, "invalid")))
	var typed *provider.Error
	if !errors.As(err, &typed) || typed.Reason != machinev1beta1.InvalidConfigurationMachineError {
		t.Errorf("Capacity of an invalid template: %v (%T), want an error made by provider.InvalidConfiguration", err, err)
	}
}

// problemOf returns why cluster-autoscaler cannot use a capacity; empty if it can.
func problemOf(capacity *provider.Capacity) string {
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if quantity := capacity.Resources[name]; quantity.Sign() <= 0 {
			return fmt.Sprintf("without %s cluster-autoscaler cannot scale from zero", name)
		}
	}
	if _, found := capacity.Labels[corev1.LabelHostname]; found {
		return "the label " + corev1.LabelHostname + " is that of one Node"
	}
	if capacity.GPU.Count < 0 || capacity.GPU.Count > 0 && capacity.GPU.Type == "" {
		return fmt.Sprintf("GPU: %d of type %q", capacity.GPU.Count, capacity.GPU.Type)
	}
	return ""
}
