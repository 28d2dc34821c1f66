package healthcheck

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/paused"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// Drover's own annotation is on the MachineHealthCheck and on the Machine.
func TestReconcile_PausedByDroverAnnotation(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		annotations := map[string]string{paused.Annotation: value}
		remediated := "delete Machine/m0, " + statusC
		t.Run("MachineHealthCheck="+value, func(t *testing.T) {
			check := newCheck("c")
			check.Annotations = annotations
			s := newFixture(t, Options{}, check, newMachine("m0", "n0"), newUnreadyNode("n0", time.Hour), newMachine("m1", "n1"), newNode("n1"))
			if !want {
				s.mustReconcile("c", remediated)
				return
			}
			s.mustReconcile("c", statusC)
			if got := s.conditionMessage("c", plan.ConditionPaused); got != "it has the annotation "+paused.Annotation {
				t.Errorf("%s", got)
			}
		})
		t.Run("Machine="+value, func(t *testing.T) {
			machine := newMachine("m0", "n0", func(m *machinev1beta1.Machine) { m.Annotations = annotations })
			s := newFixture(t, Options{}, newCheck("c"), machine, newUnreadyNode("n0", time.Hour), newMachine("m1", "n1"), newNode("n1"))
			if !want {
				s.mustReconcile("c", remediated)
				return
			}
			s.mustReconcile("c", statusC)
			s.expectStatus("c", "2 1 1", "RemediationProgressing=False/MachinePaused")
		})
	}
}
