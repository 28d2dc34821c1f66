package machineset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-io/drover/internal/controller"
)

func TestAdopt(t *testing.T) {
	other := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "note", UID: "uid-of-note"}
	plain := func(m *machinev1beta1.Machine) {
		m.OwnerReferences = []metav1.OwnerReference{{APIVersion: "old", Kind: "MachineSet", Name: "web", UID: "uid-of-web"}, other}
	}
	s := newFixture(t, Options{}, append(pool(1), machineOf("orphan", loose), machineOf("referred", plain), machineOf("stranger", loose, relabel))...)
	s.resize(3)
	s.reconciles("patch Machine/orphan, patch Machine/referred, status MachineSet/web")
	// They count from now on.
	s.expect(3, 1, 1, "Resized=True Resized")
	s.reconciles("")
	if reasons, last := s.drainEvents(); reasons != "AdoptedMachine" || !strings.Contains(last, "adopted 2 Machines: orphan, referred") {
		t.Errorf("events %s, %q", reasons, last)
	}
	for name, want := range map[string]int{"orphan": 1, "referred": 2, "stranger": 0} {
		machine := s.machine(name)
		owner := metav1.GetControllerOf(machine)
		if len(machine.OwnerReferences) != want || want > 0 && (owner == nil || owner.UID != "uid-of-web" || !*owner.BlockOwnerDeletion) {
			t.Errorf("%s: %+v", name, machine.OwnerReferences)
		}
	}
	if got := s.machine("referred").OwnerReferences[0]; got != other {
		t.Errorf("the reference to another owner is %+v", got)
	}
}

// One more than there shall be is adopted first, and then one goes by the policy.
func TestAdopt_MoreThanReplicas(t *testing.T) {
	s := newFixture(t, Options{}, append(pool(2), machineOf("orphan", loose))...)
	s.reconciles("patch Machine/orphan, status MachineSet/web")
	s.expect(3, 2, 2, "Resized=False ScalingDown")
	s.reconciles("delete Machine/orphan, status MachineSet/web")
	s.expect(2, 2, 2)
}

// machine-api-operator leaves a Machine out that it could not adopt, creates another one in its place, and deletes one later.
func TestAdopt_TransientErrors(t *testing.T) {
	machines := schema.GroupResource{Resource: "machines"}
	for _, c := range []struct {
		name  string
		err   error
		again time.Duration
		fails bool
	}{
		{"another writer was faster", apierrors.NewConflict(machines, "orphan", errors.New("modified")), controller.RetryConflict, false},
		{"it is gone", apierrors.NewNotFound(machines, "orphan"), controller.CatchUp, false},
		{"unknown outcome", broken(""), 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newFixture(t, Options{}, append(pool(1), machineOf("orphan", loose))...)
			s.resize(2)
			s.fail = only("patch", func(string) error { return c.err })
			result, writes, err := s.try("web")
			if writes != "patch Machine/orphan, status MachineSet/web" || (err != nil) != c.fails || result.RequeueAfter != c.again {
				t.Errorf("wrote %s, error %v, again in %s", writes, err, result.RequeueAfter)
			}
			s.expect(1, 1, 1)
			s.fail = nil
			s.settle()
			s.expect(2, 1, 1)
			if s.creates != 0 || len(s.deletes) != 0 {
				t.Errorf("%d created, %d deleted", s.creates, len(s.deletes))
			}
		})
	}
}

func TestAdopt_StaleCache(t *testing.T) {
	s := newFixture(t, Options{}, append(pool(1), machineOf("orphan", loose))...)
	s.resize(2)
	s.settle()
	edit(s, s.machine("orphan"), loose)
	s.freeze()
	// A user changes the labels: the MachineSet must not own what its selector does not match.
	edit(s, s.machine("orphan"), func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "other"} })
	result, writes, err := s.try("web")
	if err != nil || !strings.HasPrefix(writes, "patch Machine/orphan") || result.RequeueAfter != controller.RetryConflict {
		t.Errorf("error %v, wrote %s, again in %s", err, writes, result.RequeueAfter)
	}
	if len(s.machine("orphan").OwnerReferences) != 0 {
		t.Error("adopted")
	}
	s.thaw()
	s.settle()
	if fmt.Sprint(s.living()) != "[a orphan web-00001]" {
		t.Errorf("%v", s.living())
	}
}

// A Machine that is adopted by a set on its way out goes with it.
func TestAdopt_MachineSetBeingDeleted(t *testing.T) {
	for name, change := range map[string]func(*testing.T, *fixture){
		"it is being deleted": func(t *testing.T, s *fixture) {
			edit(s, s.set(), func(set *machinev1beta1.MachineSet) { set.Finalizers = []string{"foregroundDeletion"} })
			s.freeze()
			if err := s.client.Delete(t.Context(), s.set()); err != nil {
				t.Fatal(err)
			}
		},
		"it is gone": func(t *testing.T, s *fixture) {
			s.freeze()
			s.Reconciler.live = newBuilder(t).Build()
		},
		"it was made anew": func(t *testing.T, s *fixture) {
			s.freeze()
			anew := setOf(2)
			anew.UID = "another"
			s.Reconciler.live = newBuilder(t).WithObjects(anew).Build()
		},
		"unknown outcome": func(_ *testing.T, s *fixture) {
			s.Reconciler.live = &failing{Reader: s.client, kind: "*v1.PartialObjectMetadata", err: errors.New("no")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{}, setOf(2), machineOf("orphan", loose))
			change(t, s)
			if _, writes, _ := s.try("web"); strings.Contains(writes, "Machine/orphan") || strings.Contains(writes, "create") {
				t.Errorf("wrote %s", writes)
			}
		})
	}
}

// A refusal holds for a while; the others go on without this one.
func TestAdopt_Denied(t *testing.T) {
	s := newFixture(t, Options{}, append(pool(1), machineOf("orphan", loose))...)
	s.resize(2)
	s.fail = only("patch", denied)
	if result := s.reconciles("patch Machine/orphan, status MachineSet/web"); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect(1, 1, 1, "Resized=False OwnerReferenceError")
	if reasons, last := s.drainEvents(); reasons != "ReconcileError" || !strings.Contains(last, "Machine orphan: ") {
		t.Errorf("events %s, %q", reasons, last)
	}
	s.reconciles("create Machine, status MachineSet/web")
	s.expect(2, 1, 1, "Resized=False OwnerReferenceError")
	if result := s.reconciles(""); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.fail = nil
	s.clock.SetTime(start.Add(controller.RetryDenied))
	s.reconciles("patch Machine/orphan, status MachineSet/web")
	s.expect(3, 1, 1, "Resized=False ScalingDown")
	s.settle()
	s.expect(2, 1, 1, "Resized=True Resized")
}

func TestRelease_AdoptedAgain(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	label := func(pool string) {
		edit(s, s.machine("b"), func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": pool, "tier": "front"} })
	}
	label("other")
	s.reconciles("patch Machine/b")
	if len(s.machine("b").OwnerReferences) != 0 {
		t.Error("still owned: it would go with the set")
	}
	s.reconciles("create Machine, status MachineSet/web")
	// The budget counts it like the replacement of a deleted Machine, although the other Machine still exists.
	if got := s.createdFor(); got != "[deleted]" {
		t.Errorf("created for %s", got)
	}
	label("web")
	s.settle()
	s.expect(2, 2, 2)
	// The MachineSet deletes the Machine without a Node.
	if fmt.Sprint(s.living()) != "[a b]" {
		t.Errorf("left are %v", s.living())
	}
	if reasons, _ := s.drainEvents(); reasons != "ReleasedMachine SuccessfulCreate AdoptedMachine SuccessfulDelete" {
		t.Errorf("events %s", reasons)
	}
}

func TestRelease_Denied(t *testing.T) {
	s := newFixture(t, Options{}, pool(2)...)
	s.settle()
	for _, name := range []string{"a", "b"} {
		edit(s, s.machine(name), func(m *machinev1beta1.Machine) { m.Labels = nil })
	}
	s.fail = only("patch", denied)
	s.reconciles("patch Machine/a")
	s.reconciles("patch Machine/b")
	s.reconciles("create Machine, create Machine, status MachineSet/web")
	s.expect(2, 0, 0, "Resized=False OwnerReferenceError")
	status := s.set().Status
	for _, c := range status.Conditions {
		if c.Type == "Resized" && !strings.HasSuffix(c.Message, "quota (and 1 more)") {
			t.Error(c.Message)
		}
	}
}
