package quorum

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/nodestate"
)

func TestGuard_MissingNode(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machinev1beta1.Machine)
		want   bool
	}{
		"worker":                         {func(*machinev1beta1.Machine) {}, false},
		"control plane by its role":      {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{labelRole: "master"} }, true},
		"another role":                   {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{labelRole: "worker"} }, false},
		"control plane by its labels":    {func(m *machinev1beta1.Machine) { m.Spec.Labels = map[string]string{nodestate.LabelControlPlane: ""} }, true},
		"control plane by the old label": {func(m *machinev1beta1.Machine) { m.Spec.Labels = map[string]string{nodestate.LabelMaster: ""} }, true},
		"never had a Node": {func(m *machinev1beta1.Machine) {
			m.Labels, m.Status.NodeRef = map[string]string{labelRole: "master"}, nil
		}, false},
	} {
		machine := &machinev1beta1.Machine{Status: machinev1beta1.MachineStatus{NodeRef: &corev1.ObjectReference{Name: "n"}}}
		c.change(machine)
		node := (&Guard{}).MissingNode(machine)
		if (node != nil) != c.want || node != nil && (node.Name != "n" || !nodestate.IsControlPlane(node.Labels)) {
			t.Errorf("%s: %v", name, node)
		}
	}
}

// On OpenShift the PodDisruptionBudget of etcd's guard pods does not show a node that is cordoned and not drained yet.
func TestMachineGuard_CordonedNode(t *testing.T) {
	cordoned := controlPlane("b", nodestate.LabelMaster)
	cordoned.Spec.Unschedulable = true
	allowed := budget(1, nil)
	objects := []client.Object{controlPlane("a", nodestate.LabelMaster), cordoned, controlPlane("c", nodestate.LabelMaster), &allowed}
	for name, answer := range map[string]error{"OpenShift": nil, "plain": absent} {
		guard := New(reader(interceptor.Funcs{}, objects...), &served{answers: []error{answer}})
		denial, err := MachineGuard{guard}.Check(t.Context(), controlPlane("a", nodestate.LabelMaster))
		if err != nil || !strings.Contains(denial, "cordoned: b") {
			t.Errorf("%s: a Machine: %q, %v", name, denial, err)
		}
		denial, err = guard.Check(t.Context(), controlPlane("a", nodestate.LabelMaster))
		if err != nil || (denial == "") != (answer == nil) {
			t.Errorf("%s: a NodeMaintenance: %q, %v", name, denial, err)
		}
		if denial, err := (MachineGuard{guard}).Check(t.Context(), cordoned); err != nil || denial != "" {
			t.Errorf("%s: the cordoned node itself: %q, %v", name, denial, err)
		}
	}
}
