package healthcheck

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/nodelease"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// The process may end between any two writes; the next one reaches the same state.
func TestRestart_BetweenWrites(t *testing.T) {
	crash := errors.New("the process ends")
	for _, at := range []string{"create Lease", "delete Machine", "status MachineHealthCheck"} {
		t.Run(at, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uuw")...)
			s.Fail[at] = crash
			if _, _, err := s.reconcile("c"); err == nil {
				t.Fatal("the write was not made")
			}
			delete(s.Fail, at)
			s.emitted()
			s.restart()
			s.reconcileUntilQuiet("c")
			s.expectStatus("c", "3 1 1", "RemediationAllowed=True", nothingToDo)
			if got := s.deletedMachines("m0", "m1", "m2"); got != "m0 m1" {
				t.Errorf("deleted %s", got)
			}
			if s.leaseHolder("n-m0") != holder || s.leaseHolder("n-m1") != holder || s.leaseHolder("n-m2") != "" {
				t.Error("the leases are not those of the Machines that are being deleted")
			}
			s.restart()
			s.mustReconcile("c", "")
		})
	}
}

// After a restart nothing is reported again.
func TestRestart_NoEvents(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"over the limit": newObjects("uuw", older, limit("1")),
		"no controller":  {newCheck("c", older), newMachine("m0", "n0", unowned), newUnreadyNode("n0", time.Hour)},
		"degraded":       newObjects("sw", older),
		"overlapping":    append(newObjects("w", older), newCheck("z")),
		"lease":          append(newObjects("uw", older), newLease("n-m0", "node-maintenance")),
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, objects...)
			s.reconcileUntilQuiet("c")
			s.emitted()
			s.advance(time.Second)
			s.restart()
			s.mustReconcile("c", "")
			if got := s.emitted(); got != "" {
				t.Errorf("emitted %s", got)
			}
			s.advance(restrictedInterval)
			if _, _, err := s.reconcile("c"); err != nil {
				t.Error(err)
			}
			if got := s.emitted(); (got == "Warning RemediationRestricted") != (name == "over the limit") {
				t.Errorf("emitted %s", got)
			}
		})
	}
}

// After a restart the controller finds failed replacements by the Machines that are being deleted.
func TestRestart_Backoff(t *testing.T) {
	deleting := newMachine("m0", "", func(m *machinev1beta1.Machine) {
		m.CreationTimestamp = metav1.NewTime(start.Add(-11 * time.Minute))
		m.DeletionTimestamp = &metav1.Time{Time: start.Add(-10 * time.Second)}
	})
	failed := newMachine("m1", "", func(m *machinev1beta1.Machine) {
		m.Status.Phase, m.CreationTimestamp = new("Failed"), metav1.NewTime(start.Add(-10*time.Second))
	})
	s := newFixture(t, Options{}, newCheck("c"), deleting, failed)
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != 50*time.Second {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "2 0 0", "RemediationProgressing=False/BackingOff")
	if got := s.conditionMessage("c", plan.ConditionProgressing); !strings.Contains(got, "until 2026-07-01T12:00:50Z") {
		t.Errorf("%s", got)
	}
	s.advance(50 * time.Second)
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
	if got := s.Reconciler.failures.values[owner]; got.Rounds != 2 {
		t.Errorf("%+v", got)
	}
}

// The startup timeout begins when the Machine is provisioned, however long Drover was down.
func TestReconcile_MachineNotProvisioned(t *testing.T) {
	machine := newMachine("m0", "", func(m *machinev1beta1.Machine) { m.Status.Phase = nil })
	s := newFixture(t, Options{}, newCheck("c"), machine)
	if result := s.mustReconcile("c", statusC); result.RequeueAfter != 0 {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.advance(time.Minute)
	s.mustReconcile("c", "")
	s.advance(time.Second)
	edit(s, machine, func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseProvisioning) })
	if result := s.mustReconcile("c", ""); result.RequeueAfter != 10*time.Minute {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	if got := s.emitted(); got != "" {
		t.Errorf("a start is reported: %s", got)
	}
	s.advance(10 * time.Minute)
	s.mustReconcile("c", "delete Machine/m0")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal MachineDeleted" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_MachineHealthCheckGone(t *testing.T) {
	for name, gone := range map[string]func(s *fixture){
		"deleted": func(s *fixture) {
			if err := s.client.Delete(s.t.Context(), newCheck("c")); err != nil {
				s.t.Fatal(err)
			}
		},
		"being deleted": func(s *fixture) {
			edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Finalizers = []string{"x/y"} })
			if err := s.client.Delete(s.t.Context(), newCheck("c")); err != nil {
				s.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, newObjects("uwww", limit("0"))...)
			s.mustReconcile("c", statusC)
			s.mustReconcile("c", "")
			series := []string{
				"mapi_machinehealthcheck_nodes_covered", "mapi_machinehealthcheck_short_circuit", "mapi_machinehealthcheck_remediation_success_total",
			}
			for _, name := range series {
				if s.metric(name, "c", namespace) == -1 {
					t.Errorf("%s is missing", name)
				}
			}
			gone(s)
			s.mustReconcile("c", "")
			for _, name := range series {
				if s.metric(name, "c", namespace) != -1 {
					t.Errorf("%s still exists", name)
				}
			}
			if s.states.Len() != 0 || s.versions.Len() != 0 {
				t.Errorf("%d states remain", s.states.Len())
			}
		})
	}
}

// One of the same name is another object: everything is reported again.
func TestReconcile_CreatedAgain(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("uw", limit("0"))...)
	s.mustReconcile("c", statusC)
	s.emitted()
	if err := s.client.Delete(t.Context(), newCheck("c")); err != nil {
		t.Fatal(err)
	}
	again := newCheck("c", limit("0"))
	again.UID = "another"
	if err := s.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile("c", statusC)
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Warning RemediationRestricted" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_MachineNotSelectedAnyMore(t *testing.T) {
	s := newFixture(t, Options{}, newObjects("sw")...)
	s.mustReconcile("c", statusC)
	if s.states.Len() != 1 {
		t.Fatalf("%d states", s.states.Len())
	}
	edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Labels = nil })
	s.mustReconcile("c", statusC)
	key := types.NamespacedName{Namespace: namespace, Name: "c"}
	if machines := s.states.Get(key, "uid-of-c").machines; len(machines) != 0 {
		t.Errorf("states of Machines remain: %v", machines)
	}
	s.metrics.reset()
	if s.metric("mapi_machinehealthcheck_nodes_covered", "c", namespace) != -1 {
		t.Error("series still exist when the controller has stopped")
	}
}

func TestReconcile_CacheFails(t *testing.T) {
	for _, what := range []string{"get MachineHealthCheck", "list MachineList", "list MachineHealthCheckList", "get Node"} {
		s := newFixture(t, Options{}, newObjects("uw")...)
		s.Fail[what] = errors.New("no answer")
		if _, writes, err := s.reconcile("c"); err == nil || writes != "" {
			t.Errorf("%s: wrote %s, error %v", what, writes, err)
		}
	}
}

// If a read fails between two remediations, the status follows the decision before that read.
func TestRemediate_CacheFailsBetween(t *testing.T) {
	s := newFixture(t, Options{MaxUnseenStarts: 2}, newObjects("uuw")...)
	s.cache.Reader = &failingCache{Reader: s.client, after: 1}
	if _, writes, err := s.reconcile("c"); err == nil || writes != "delete Machine/m0, "+statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.resumeCache()
	s.reconcileUntilQuiet("c")
	s.expectStatus("c", "3 1 1", nothingToDo)
}
