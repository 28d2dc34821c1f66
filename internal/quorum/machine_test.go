package quorum

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

func TestStandIn(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machinev1beta1.Machine)
		want   bool
	}{
		"a worker":      {func(*machinev1beta1.Machine) {}, false},
		"by its role":   {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{labelRole: "master"} }, true},
		"another role":  {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{labelRole: "worker"} }, false},
		"by its labels": {func(m *machinev1beta1.Machine) { m.Spec.Labels = map[string]string{LabelControlPlane: ""} }, true},
		"the old label": {func(m *machinev1beta1.Machine) { m.Spec.Labels = map[string]string{LabelMaster: ""} }, true},
		"never a Node": {func(m *machinev1beta1.Machine) {
			m.Labels, m.Status.NodeRef = map[string]string{labelRole: "master"}, nil
		}, false},
	} {
		machine := &machinev1beta1.Machine{Status: machinev1beta1.MachineStatus{NodeRef: &corev1.ObjectReference{Name: "n"}}}
		c.change(machine)
		node := (&Guard{}).StandIn(machine)
		if (node != nil) != c.want || node != nil && (node.Name != "n" || !IsControlPlane(node)) {
			t.Errorf("%s: %v", name, node)
		}
	}
}
