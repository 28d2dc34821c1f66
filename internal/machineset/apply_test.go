package machineset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
)

func TestDelete_Errors(t *testing.T) {
	machines := schema.GroupResource{Resource: "machines"}
	for _, c := range []struct {
		name   string
		err    error
		again  time.Duration
		result string
		// replicas are those after the pass.
		replicas  int32
		condition string
	}{
		{"it was changed", apierrors.NewConflict(machines, "a", errors.New("modified")), controller.RetryConflict, "conflict", 3, "False ScalingDown"},
		{"it is gone already", apierrors.NewNotFound(machines, "a"), 0, "gone", 2, "True Resized"},
		{"it is refused", denied(""), minDenied, "denied", 3, "False DeleteError"},
		{"unknown outcome, once", broken(""), minBackoff, "error", 3, "False ScalingDown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{}, pool(3)...)
			s.settle()
			s.resize(2)
			s.fail = only("delete", func(string) error { return c.err })
			if result := s.reconciles("delete Machine/a, status MachineSet/web"); result.RequeueAfter != c.again {
				t.Errorf("again in %s", result.RequeueAfter)
			}
			s.expect(c.replicas, c.replicas, c.replicas, "Resized="+c.condition)
			if got := s.metric("drover_machineset_deletes_total", c.result); got != 1 {
				t.Errorf("%v deletions", got)
			}
			if s.fail = nil; c.result == "gone" {
				return
			}
			s.clock.SetTime(start.Add(time.Minute))
			s.settle()
			s.expect(2, 2, 2, "Resized=True Resized")
			if fmt.Sprint(s.living()) != "[b c]" {
				t.Errorf("left are %v", s.living())
			}
		})
	}
}

// A thousand denied deletions say no more than one.
func TestDelete_StopsAfterDenial(t *testing.T) {
	s := newFixture(t, Options{}, pool(20)...)
	s.settle()
	s.resize(0)
	s.fail = only("delete", denied)
	s.reconciles("delete Machine/a, status MachineSet/web")
	if reasons, last := s.drainEvents(); reasons != "ReconcileError" || !strings.Contains(last, "Machine a: ") {
		t.Errorf("events %s, %q", reasons, last)
	}
	for range 3 {
		s.reconciles("")
	}
	s.clock.SetTime(start.Add(minDenied))
	if result := s.reconciles("delete Machine/a"); result.RequeueAfter != 2*minDenied {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	s.fail = nil
	s.clock.SetTime(start.Add(time.Minute))
	s.settle()
	s.expect(0, 0, 0, "Resized=True Resized")
	// The next failure begins with a short back-off again.
	if s.state().deleting.failures != 0 {
		t.Error("the failure is not over")
	}
}

// A deletion that was not answered may have been carried out. A Machine that is marked now must not be deleted as well.
func TestDelete_UnansweredRequests(t *testing.T) {
	s := newFixture(t, Options{}, pool(3)...)
	s.settle()
	s.resize(2)
	s.freeze()
	s.lose = only("delete", func(string) error { return apierrors.NewTimeoutError("no answer", 1) })
	s.reconciles("delete Machine/a, status MachineSet/web")
	s.lose = nil
	s.clock.SetTime(start.Add(time.Minute))
	s.cached.Reader = split{s.client, s.cached.Reader}
	edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{machineapi.DeleteAnnotation: ""} })
	if result := s.reconciles(""); result.RequeueAfter != controller.CatchUp {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	s.thaw()
	s.settle()
	if fmt.Sprint(s.living()) != "[b c]" {
		t.Errorf("left are %v", s.living())
	}
}

// The Machine API does not delete what another API has the authority over, nor another Machine instead.
func TestDelete_MachinesOfOtherAPI(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	edit(s, s.machine("b"), func(m *machinev1beta1.Machine) {
		m.Annotations = map[string]string{machineapi.DeleteAnnotation: ""}
		m.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityClusterAPI
	})
	s.resize(1)
	s.reconciles("status MachineSet/web")
	s.expect(2, 2, 2, "Resized=False MachinesNotAuthoritative")
	if reasons, last := s.drainEvents(); reasons != "ReconcileError" || !strings.HasSuffix(last, "authority over them: b") {
		t.Errorf("events %s, %q", reasons, last)
	}
	s.reconciles("")
	edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityMachineAPI })
	s.reconciles("delete Machine/b, status MachineSet/web")
}

func TestReplace(t *testing.T) {
	fails := func(m *machinev1beta1.Machine) {
		m.Status.Phase, m.Status.NodeRef = new(machinev1beta1.PhaseFailed), nil
	}
	objects := pool(3)
	s := newFixture(t, Options{}, objects...)
	s.settle()
	for _, name := range []string{"a", "b"} {
		edit(s, s.machine(name), fails)
	}
	s.reconciles("status MachineSet/web")
	s.expect(3, 1, 1, "MachinesReady=False MachinesFailed")
	s.reconciles("")
	s.options.ReplaceFailed = true
	s.restart(nil)
	s.drainEvents()
	// One at a time: the next one when it is known whether that was any good.
	s.reconciles("create Machine, delete Machine/a, status MachineSet/web")
	s.expect(3, 1, 1)
	if got := s.machine("web-00001").Annotations[plan.AttemptAnnotation]; got != "1" {
		t.Errorf("attempt %q", got)
	}
	if reasons, last := s.drainEvents(); reasons != "SuccessfulDelete ReplacedFailedMachine SuccessfulCreate" || !strings.Contains(last, "web-00001") {
		t.Errorf("events %s, %q", reasons, last)
	}
	if result := s.reconciles(""); result.RequeueAfter != time.Hour {
		t.Errorf("waits %s for the replacement", result.RequeueAfter)
	}
	// It fails as well, after ten seconds.
	s.clock.SetTime(start.Add(10 * time.Second))
	edit(s, s.machine("web-00001"), fails)
	if result := s.reconciles("status MachineSet/web"); result.RequeueAfter != 110*time.Second {
		t.Errorf("waits %s", result.RequeueAfter)
	}
	// A new process knows as much.
	s.restart(nil)
	if result := s.reconciles(""); result.RequeueAfter != 110*time.Second {
		t.Errorf("waits %s", result.RequeueAfter)
	}
	s.clock.SetTime(start.Add(2 * time.Minute))
	s.reconciles("create Machine, delete Machine/b, status MachineSet/web")
	if got := s.machine("web-00002").Annotations[plan.AttemptAnnotation]; got != "2" {
		t.Errorf("attempt %q", got)
	}
	// This one works, and so the other one may be tried.
	edit(s, s.machine("web-00002"), func(m *machinev1beta1.Machine) { m.Status.NodeRef = machineOf("c").Status.NodeRef })
	s.reconciles("create Machine, delete Machine/web-00001, status MachineSet/web")
	s.expect(3, 2, 2)
}

// Between deletion and creation a replacement may fail; it keeps its number.
func TestReplace_CreationFails(t *testing.T) {
	failed := machineOf("a", func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseFailed) })
	s := newFixture(t, Options{ReplaceFailed: true}, setOf(1), failed)
	s.fail = only("create", denied)
	s.reconciles("create Machine, delete Machine/a, patch MachineSet/web")
	s.reconciles("status MachineSet/web")
	s.expect(0, 0, 0, "MachinesCreated=False CreateError")
	s.fail = nil
	s.clock.SetTime(start.Add(minDenied))
	s.reconciles("create Machine, patch MachineSet/web")
	s.reconciles("status MachineSet/web")
	machine := s.machine(s.living()[0])
	if got := machine.Annotations[plan.AttemptAnnotation]; got != "1" {
		t.Errorf("attempt %q", got)
	}
	if got := machine.Annotations[machineapi.CreatedForAnnotation]; got != "deleted/"+string(failed.UID) {
		t.Errorf("created for %q", got)
	}
	// And only this one.
	s.resize(2)
	s.settle()
	if got := s.machine(s.living()[1]).Annotations[plan.AttemptAnnotation]; got != "" {
		t.Errorf("attempt %q", got)
	}
}

func TestReplace_DeletionFails(t *testing.T) {
	failed := machineOf("a", func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseFailed) })
	s := newFixture(t, Options{ReplaceFailed: true}, setOf(1), failed)
	s.fail = only("delete", func(string) error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, "a", errors.New("modified"))
	})
	s.reconciles("delete Machine/a, status MachineSet/web")
	if reasons, _ := s.drainEvents(); reasons != "" || s.creates != 0 {
		t.Errorf("events %s, %d created", reasons, s.creates)
	}
}

// A reconciliation is bounded; the status reports progress.
func TestScale_ManyMachines(t *testing.T) {
	s := newFixture(t, Options{Parallel: 7}, setOf(plan.Burst+3))
	result, _, err := s.try("web")
	if err != nil || result.RequeueAfter != 0 || s.creates != plan.Burst {
		t.Errorf("error %v, again in %s, %d created", err, result.RequeueAfter, s.creates)
	}
	s.expect(plan.Burst, 0, 0, "Resized=False ScalingUp")
	s.reconciles("create Machine, create Machine, create Machine, status MachineSet/web")
	s.expect(plan.Burst+3, 0, 0, "Resized=True Resized")
}

// The cluster-autoscaler marks a Machine and then takes one off the replicas: the second may be heard of first.
func TestDelete_CacheWithoutMark(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.settle()
		s.freezeMachines()
		edit(s, s.machine("c"), func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{machineapi.DeleteAnnotation: "yes"} })
		s.resize(2)
		s.waits()
		s.thaw()
		s.settle()
		if got := fmt.Sprint(s.living()); got != "[a b]" {
			s.t.Errorf("left are %s", got)
		}
		// All of them go, whatever is marked: nothing has to be asked.
		s.freezeMachines()
		edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{machineapi.DeleteAnnotation: "yes"} })
		s.resize(0)
		s.reconciles("delete Machine/a, delete Machine/b, status MachineSet/web")
	}, func() []client.Object { return pool(3) })
}

// A user deletes a Machine and takes one off the replicas: the second may be heard of first. No other Machine goes.
func TestDelete_CacheWithoutDeletion(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		edit(s, s.machine("c"), func(m *machinev1beta1.Machine) { m.Finalizers = []string{machinev1beta1.MachineFinalizer} })
		s.settle()
		s.freezeMachines()
		c := s.machine("c")
		if err := s.client.Delete(t.Context(), c, client.Preconditions{UID: &c.UID, ResourceVersion: &c.ResourceVersion}); err != nil {
			s.t.Fatal(err)
		}
		s.resize(2)
		s.waits()
		s.thaw()
		s.settle()
		if got := fmt.Sprint(s.living()); got != "[a b]" {
			s.t.Errorf("left are %s", got)
		}
	}, func() []client.Object { return pool(3) })
}

// The replicas are decreased and increased again, which the cache does not show yet: no Machine goes.
func TestDelete_CacheWithOldReplicas(t *testing.T) {
	both(t, func(s *fixture, _ bool) {
		s.settle()
		s.resize(1)
		s.freeze()
		s.resize(3)
		for range 3 {
			if _, _, err := s.try("web"); err != nil {
				s.t.Error(err)
			}
		}
		s.thaw()
		s.settle()
		if got := fmt.Sprint(s.living()); got != "[a b c]" {
			s.t.Errorf("left are %s", got)
		}
	}, func() []client.Object { return pool(3) })
}

// A user scales back while Drover creates or deletes Machines: what is left of the plan is not carried out.
func TestScale_StopsWhenTheMachineSetChanges(t *testing.T) {
	s := newFixture(t, Options{Parallel: 1}, setOf(10))
	carried := 0
	s.carried = func() {
		if carried++; carried == 3 {
			s.resize(2)
		}
	}
	if _, _, err := s.try("web"); err != nil || s.creates != 3 {
		t.Errorf("error %v, %d created", err, s.creates)
	}
	s.carried = nil
	s.settle()
	s.expect(2, 0, 0, "Resized=True Resized")

	s.resize(8)
	s.settle()
	s.resize(1)
	carried = 0
	s.carried = func() {
		if carried++; carried == 2 {
			s.resize(8)
		}
	}
	if _, _, err := s.try("web"); err != nil || carried > 3 {
		t.Errorf("error %v, %d requests", err, carried)
	}
	if left := len(s.living()); left != 6 {
		t.Errorf("%d Machines are left", left)
	}
}
