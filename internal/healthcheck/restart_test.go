package healthcheck

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"
)

// Between any two writes the process may end; the next one comes to the same.
func TestARestartInTheMiddle(t *testing.T) {
	crash := errors.New("the process ends here")
	for _, at := range []string{"create Lease", "delete Machine", "status MachineHealthCheck"} {
		t.Run(at, func(t *testing.T) {
			s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, crew("uuw")...)
			s.fail[at] = crash
			if _, _, err := s.try("c"); err == nil {
				t.Fatal("it did not get there")
			}
			delete(s.fail, at)
			s.told()
			s.restart()
			s.rest("c")
			s.expect("c", "3 1 1", "RemediationAllowed=True", rested)
			if got := s.deleted("m0", "m1", "m2"); got != "m0 m1" {
				t.Errorf("deleted %s", got)
			}
			if s.leaseOf("n-m0") != holder || s.leaseOf("n-m1") != holder || s.leaseOf("n-m2") != "" {
				t.Error("the leases are not those of the Machines that go")
			}
			s.restart()
			s.pass("c", "")
		})
	}
}

// After a restart nothing is news that was there before.
func TestARestartIsSilent(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"over the limit": crew("uuw", older, limit("1")),
		"no controller":  {checkOf("c", older), machineOf("m0", "n0", unowned), unready("n0", time.Hour)},
		"suspect":        crew("sw", older),
		"overlapping":    append(crew("w", older), checkOf("z")),
		"lease":          append(crew("uw", older), leaseOf("n-m0", "node-maintenance")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{Leases: &nodelease.Leases{Holder: holder}}, objects...)
			s.rest("c")
			s.told()
			s.later(time.Second)
			s.restart()
			s.pass("c", "")
			if got := s.told(); got != "" {
				t.Errorf("told %s", got)
			}
			s.later(remindEvery)
			if _, _, err := s.try("c"); err != nil {
				t.Error(err)
			}
			if got := s.told(); (got == "Warning RemediationRestricted") != (name == "over the limit") {
				t.Errorf("told %s", got)
			}
		})
	}
}

// The process that comes next knows from the Machines on their way out that replacements fail.
func TestBackOffAfterARestart(t *testing.T) {
	leaving := machineOf("m0", "", func(m *machinev1beta1.Machine) {
		m.CreationTimestamp = metav1.NewTime(start.Add(-11 * time.Minute))
		m.DeletionTimestamp = &metav1.Time{Time: start.Add(-10 * time.Second)}
	})
	failed := machineOf("m1", "", func(m *machinev1beta1.Machine) {
		m.Status.Phase, m.CreationTimestamp = new("Failed"), metav1.NewTime(start.Add(-10*time.Second))
	})
	s := newStage(t, Options{}, checkOf("c"), leaving, failed)
	if result := s.pass("c", statusC); result.RequeueAfter != 50*time.Second {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("c", "2 0 0", "RemediationProgressing=False/BackingOff")
	if got := s.message("c", ConditionProgressing); !strings.Contains(got, "until 2026-07-01T12:00:50Z") {
		t.Errorf("%s", got)
	}
	s.later(50 * time.Second)
	s.pass("c", "delete Machine/m1, "+statusC)
	if got := s.owners.rounds[set]; got.failures != 2 {
		t.Errorf("%+v", got)
	}
}

// A new pool that nobody has begun to make while Drover was down gets its time.
func TestMachinesThatNobodyHasBegun(t *testing.T) {
	machine := machineOf("m0", "", func(m *machinev1beta1.Machine) { m.Status.Phase = nil })
	s := newStage(t, Options{}, checkOf("c"), machine)
	if result := s.pass("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.later(time.Minute)
	s.pass("c", "")
	s.later(time.Second)
	edit(s, machine, func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseProvisioning) })
	if result := s.pass("c", ""); result.RequeueAfter != 10*time.Minute {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	if got := s.told(); got != "" {
		t.Errorf("a start is news: %s", got)
	}
	s.later(10 * time.Minute)
	s.pass("c", "delete Machine/m0")
	if got := s.told(); got != "Normal DetectedUnhealthy, Normal MachineDeleted" {
		t.Errorf("told %s", got)
	}
}

func TestOneThatIsGoneIsForgotten(t *testing.T) {
	for name, gone := range map[string]func(s *stage){
		"deleted": func(s *stage) {
			if err := s.client.Delete(s.t.Context(), checkOf("c")); err != nil {
				s.t.Fatal(err)
			}
		},
		"on its way out": func(s *stage) {
			edit(s, checkOf("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Finalizers = []string{"x/y"} })
			if err := s.client.Delete(s.t.Context(), checkOf("c")); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, Options{}, crew("uwww", limit("0"))...)
			s.pass("c", statusC)
			s.pass("c", "")
			series := []string{coveredDoc.Name, shortCircuitDoc.Name, remediatedDoc.Name}
			for _, name := range series {
				if s.metric(name, "c", namespace) == -1 {
					t.Errorf("%s is missing", name)
				}
			}
			gone(s)
			s.pass("c", "")
			for _, name := range series {
				if s.metric(name, "c", namespace) != -1 {
					t.Errorf("%s is left", name)
				}
			}
			if len(s.known) != 0 || s.versions.Len() != 0 {
				t.Errorf("%v is remembered", s.known)
			}
		})
	}
}

// One of the same name is another one: it is told everything anew.
func TestOneOfTheSameName(t *testing.T) {
	s := newStage(t, Options{}, crew("uw", limit("0"))...)
	s.pass("c", statusC)
	s.told()
	if err := s.client.Delete(t.Context(), checkOf("c")); err != nil {
		t.Fatal(err)
	}
	again := checkOf("c", limit("0"))
	again.UID = "another"
	if err := s.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	s.pass("c", statusC)
	if got := s.told(); got != "Normal DetectedUnhealthy, Warning RemediationRestricted" {
		t.Errorf("told %s", got)
	}
}

func TestWhatIsRememberedOfMachinesEndsWithThem(t *testing.T) {
	s := newStage(t, Options{}, crew("sw")...)
	s.pass("c", statusC)
	if len(s.known) != 1 {
		t.Fatalf("%v", s.known)
	}
	edit(s, machineOf("m0", ""), func(m *machinev1beta1.Machine) { m.Labels = nil })
	s.pass("c", statusC)
	for _, m := range s.known {
		if len(m.machines) != 0 {
			t.Errorf("%v is remembered", m.machines)
		}
	}
	s.metrics.reset()
	if s.metric(coveredDoc.Name, "c", namespace) != -1 {
		t.Error("series are left when the controller has stopped")
	}
}

func TestErrorsOfTheCache(t *testing.T) {
	for _, what := range []string{"get MachineHealthCheck", "list MachineList", "list MachineHealthCheckList", "get Node"} {
		s := newStage(t, Options{}, crew("uw")...)
		s.fail[what] = errors.New("no answer")
		if _, writes, err := s.try("c"); err == nil || writes != "" {
			t.Errorf("%s: wrote %s, error %v", what, writes, err)
		}
	}
}

// A read that fails in the middle of a pass leaves what was decided before it.
func TestAnErrorBetweenTwoRemediations(t *testing.T) {
	s := newStage(t, Options{MaxInFlight: 2}, crew("uuw")...)
	s.cache.Reader = &failing{Reader: s.client, after: 1}
	if _, writes, err := s.try("c"); err == nil || writes != "delete Machine/m0, "+statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.goOn()
	s.rest("c")
	s.expect("c", "3 1 1", rested)
}
