package healthcheck

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/paused"
)

// TestPaused has Drover's own annotation on the MachineHealthCheck and on the Machine.
func TestPaused(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		annotations := map[string]string{paused.Annotation: value}
		remediated := "delete Machine/m0, " + statusC
		t.Run("MachineHealthCheck="+value, func(t *testing.T) {
			check := checkOf("c")
			check.Annotations = annotations
			s := newStage(t, Options{}, check, machineOf("m0", "n0"), unready("n0", time.Hour), machineOf("m1", "n1"), nodeOf("n1"))
			if !want {
				s.pass("c", remediated)
				return
			}
			s.pass("c", statusC)
			if got := s.message("c", ConditionPaused); got != "it has the annotation "+paused.Annotation {
				t.Errorf("%s", got)
			}
		})
		t.Run("Machine="+value, func(t *testing.T) {
			machine := machineOf("m0", "n0", func(m *machinev1beta1.Machine) { m.Annotations = annotations })
			s := newStage(t, Options{}, checkOf("c"), machine, unready("n0", time.Hour), machineOf("m1", "n1"), nodeOf("n1"))
			if !want {
				s.pass("c", remediated)
				return
			}
			s.pass("c", statusC)
			s.expect("c", "2 1 1", "RemediationProgressing=False/MachinePaused")
		})
	}
}
