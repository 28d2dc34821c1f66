package healthcheck

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// When a user deletes a control-plane Node, its member of etcd stays until the Machine is deleted.
func TestRemediate_ControlPlaneNodeGone(t *testing.T) {
	g := &guard{denial: "a control-plane node is in maintenance"}
	member := func(m *machinev1beta1.Machine) { m.Labels["control-plane"] = "yes" }
	s := newFixture(t, Options{Guard: g}, newCheck("c"), newMachine("m0", "n-m0", member), newMachine("m1", "n-m1", member))
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != delay.Quorum {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 0 0", "RemediationProgressing=False/ControlPlaneQuorum")
	if got := strings.Join(g.checked, ","); got != "once-of-m0,once-of-m1" {
		t.Errorf("the guard has checked %s", got)
	}
	g.denial = ""
	s.mustReconcile("c", "delete Machine/m0, "+statusC)
	// One at a time, also of those without a Node.
	s.mustReconcile("c", statusC)
	if got := s.conditionMessage("c", plan.ConditionProgressing); got != "Machine m1: Machine m0 of control-plane node once-of-m0 is being deleted" {
		t.Errorf("%s", got)
	}
}

// A node that another controller works on is not remediated externally.
func TestRemediate_ExternalWaitsForLease(t *testing.T) {
	for name, c := range map[string]struct {
		check   func(*machinev1beta1.MachineHealthCheck)
		objects []client.Object
		begins  string
	}{
		"by annotation": {func(c *machinev1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{plan.StrategyAnnotation: plan.BareMetalStrategy}
		}, nil, "patch Machine/m0"},
		"by template": {byTemplateOf("reboot"), []client.Object{newTemplate("reboot")}, createM0},
	} {
		t.Run(name, func(t *testing.T) {
			objects := append(newObjects("uw", c.check), append(c.objects, newLease("n-m0", "node-maintenance"))...)
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, objects...)
			if result := s.mustReconcile("c", statusC); result.RequeueAfter != delay.Lease {
				t.Errorf("requeues after %s", result.RequeueAfter)
			}
			s.expectStatus("c", "2 1 1", "RemediationProgressing=False/LeaseHeldByOther")
			if err := s.client.Delete(t.Context(), newLease("n-m0", "")); err != nil {
				t.Fatal(err)
			}
			if _, writes, err := s.reconcile("c"); err != nil || !strings.HasPrefix(writes, c.begins) {
				t.Errorf("wrote %s, error %v", writes, err)
			}
		})
	}
}
