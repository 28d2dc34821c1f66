package healthcheck

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
)

// A Node of the control plane that somebody deletes takes its member of etcd not with it: its Machine does.
func TestAControlPlaneMachineWhoseNodeIsGone(t *testing.T) {
	g := &guard{denial: "a control-plane node is in maintenance"}
	member := func(m *machinev1beta1.Machine) { m.Labels["control-plane"] = "yes" }
	s := newStage(t, Options{Guard: g}, checkOf("c"), machineOf("m0", "n-m0", member), machineOf("m1", "n-m1", member))
	if result := s.pass("c", statusC); result.RequeueAfter != retryQuorum {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 0 0", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := strings.Join(g.asked, ","); got != "once-of-m0,once-of-m1" {
		t.Errorf("the guard was asked about %s", got)
	}
	g.denial = ""
	s.pass("c", "delete Machine/m0, "+statusC)
	// One at a time, also of those that have no Node.
	s.pass("c", statusC)
	if got := s.message("c", ConditionProgressing); got != "Machine m1: Machine m0 of control-plane node once-of-m0 is being deleted" {
		t.Errorf("%s", got)
	}
}

// A node that somebody works on is not handed over to be switched off.
func TestRemediationOutsideWaitsForTheLease(t *testing.T) {
	for name, c := range map[string]struct {
		check   func(*machinev1beta1.MachineHealthCheck)
		objects []client.Object
		begins  string
	}{
		"by annotation": {func(c *machinev1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{AnnotationStrategy: StrategyBareMetal}
		}, nil, "patch Machine/m0"},
		"by template": {byTemplateOf("reboot"), []client.Object{templateOf("reboot")}, createM0},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(crew("uw", c.check), append(c.objects, leaseOf("n-m0", "node-maintenance"))...)
			s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, objects...)
			if result := s.pass("c", statusC); result.RequeueAfter != retryLease {
				t.Errorf("looks again in %s", result.RequeueAfter)
			}
			s.expect("c", "2 1 1", "RemediationProgressing=False/LeaseHeldByOther")
			if err := s.client.Delete(t.Context(), leaseOf("n-m0", "")); err != nil {
				t.Fatal(err)
			}
			if _, writes, err := s.try("c"); err != nil || !strings.HasPrefix(writes, c.begins) {
				t.Errorf("wrote %s, error %v", writes, err)
			}
		})
	}
}
