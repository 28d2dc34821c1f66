package machines

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// withBudget allows one unavailable Node.
func withBudget(spec *v1alpha1.NodeGroupSpec) *v1alpha1.Disruption {
	spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	return spec.Disruption
}

// update changes the spec of the group.
func (r *replacement) update(change func(*v1alpha1.NodeGroupSpec)) {
	r.Helper()
	harness.Update(r.World, func(string) *v1alpha1.NodeGroup { return r.group() }, r.Name, func(group *v1alpha1.NodeGroup) { change(&group.Spec) })
}

// TestReplacement_Budget: a budget of one Node has Machines go one after another, however many may be replaced at once, and each has its place first.
func TestReplacement_Budget(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ surge, least int }{
		"surge":        {2, 4},
		"delete-first": {0, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w := besideOthers(t)
			p := w.MakePool("within-"+name, 4, nil)
			old := p.Runs(4)
			r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
				withBudget(spec)
				spec.Replacement.MaxSurge, spec.Replacement.MaxInFlight = new(intstr.FromInt(c.surge)), new(intstr.FromInt(4))
			})
			r.eventuallyReplaced(4)
			seen, budget, begin := followRack(p), w.WatchBudget(p.Name, 1, p.Name+"-"), w.AuditMark()
			r.setTemplate(newImage)
			r.eventuallyReplaced(4)
			r.eventuallyFree()
			least, _, gone := seen.serving(old)
			if want := byAge(old); least < c.least || !slices.Equal(gone, want) {
				t.Errorf("at least %d Nodes were Ready, and Machines went in the order %v, not %v", least, gone, want)
			}
			reserved, serving := budget.Finish()
			if reserved != 1 || serving < c.least {
				t.Errorf("%d Nodes were reserved at once, and at least %d served", reserved, serving)
			}
			r.expectNoConflict(begin)
		})
	}
}

// expectNoConflict checks that what Drover writes of the group, its reservations and the rest of its status, does not get in its own way.
func (r *replacement) expectNoConflict(since cluster.AuditMark) {
	r.Helper()
	written := 0
	for _, event := range r.AllWrites(since) {
		if event.Resource != "nodegroups" || event.Name != r.Name {
			continue
		}
		if event.Code == http.StatusConflict {
			r.Errorf("a conflict: %+v", event)
		}
		written++
	}
	// An admission for each Machine. On a busy machine the rest of the status may be as before when all of them are over.
	if written < 4 {
		r.Errorf("the status was written %d times", written)
	}
}

// eventuallyFree waits until no place of the budget is taken.
func (r *replacement) eventuallyFree() {
	r.Helper()
	r.Eventually("no place of the budget is taken", func() error {
		if status := r.group().Status; len(status.Reservations) > 0 || status.Unavailable > 0 {
			return fmt.Errorf("the group says %s", harness.JSON(status))
		}
		return nil
	})
}

// TestReplacement_Window: no Machine goes while no window is open, the group says until when, and the Machines go when the window is removed.
func TestReplacement_Window(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("window", 2, nil)
	old := p.Runs(2)
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) { closeWindow(withBudget(spec)) })
	r.setTemplate(newImage)
	r.eventuallyBlocked("WindowClosed")
	r.expectUntouched(old)
	group := r.group()
	blocked := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionBlocked)
	if next := group.Status.Window; next == nil || next.Open || !strings.Contains(blocked.Message, next.NextChange.UTC().Format(time.RFC3339)) {
		t.Errorf("the window is %s, and the group is blocked because %q", harness.JSON(next), blocked.Message)
	}
	r.update(func(spec *v1alpha1.NodeGroupSpec) { spec.Disruption.Windows = nil })
	r.eventuallyReplaced(2)
	r.eventuallyBlocked("NotBlocked")
}

// closeWindow sets a window that is not open for hours.
func closeWindow(disruption *v1alpha1.Disruption) {
	disruption.Windows = []v1alpha1.Window{{
		Schedule: fmt.Sprintf("0 %d * * *", (time.Now().UTC().Hour()+12)%24), Duration: metav1.Duration{Duration: time.Hour},
	}}
}

// expectUntouched checks that Machines are what they were before the template changed.
func (r *replacement) expectUntouched(old []machinev1beta1.Machine) {
	r.Helper()
	if now := r.Runs(len(old)); !slices.EqualFunc(now, old, func(a, b machinev1beta1.Machine) bool { return a.UID == b.UID }) {
		r.Errorf("the Machines are %s", harness.JSON(now))
	}
	for _, machine := range r.Machines() {
		if _, marked := machine.Annotations[machineapi.ReplacingAnnotation]; marked {
			r.Errorf("Machine %s is marked", machine.Name)
		}
	}
}

// TestReplacement_WindowOpens: Machines go by themselves when a freeze is over.
func TestReplacement_WindowOpens(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("opens", 2, nil)
	old := p.Runs(2)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	freezeUntilEnd := func(spec *v1alpha1.NodeGroupSpec) {
		spec.Disruption.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(end.Add(-24 * time.Hour)), To: metav1.NewTime(end), Reason: "the harvest"}}
	}
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
		withBudget(spec)
		freezeUntilEnd(spec)
	})
	seen := followRack(p)
	r.setTemplate(newImage)
	r.eventuallyBlocked("Frozen")
	end = time.Now().Add(10 * time.Second).Truncate(time.Second)
	r.update(freezeUntilEnd)
	r.eventuallyReplaced(2)
	for _, machine := range p.Machines() {
		if machine.CreationTimestamp.Time.Before(end) {
			t.Errorf("Machine %s was created at %s, and the freeze ended at %s", machine.Name, machine.CreationTimestamp, end)
		}
	}
	if least, _, gone := seen.serving(old); least < 2 || len(gone) != 2 {
		t.Errorf("at least %d Nodes were Ready, and these Machines went: %v", least, gone)
	}
}

// TestReplacement_WindowCloses: a window that closes in the middle lets what has begun come to its end, and no other Machine go.
func TestReplacement_WindowCloses(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("closes", 3, nil)
	old := p.Runs(3)
	r := replaceWithin(p, func(spec *v1alpha1.NodeGroupSpec) {
		withBudget(spec)
		spec.Replacement.MaxSurge = new(intstr.FromInt(0))
	})
	first := byAge(old)[0]
	// Its Machine stays for as long as the hook does.
	w.Merge(w.Machine(first), `{"spec":{"lifecycleHooks":{"preTerminate":[{"name":"backup","owner":"test"}]}}}`)
	r.setTemplate(newImage)
	r.Eventually("the first Machine is being deleted", func() error {
		if machine := w.Machine(first); machine.DeletionTimestamp == nil {
			return fmt.Errorf("it is not; the group says %s", harness.JSON(r.group().Status))
		}
		return nil
	})
	r.update(func(spec *v1alpha1.NodeGroupSpec) { closeWindow(spec.Disruption) })
	r.eventuallyBlocked("WindowClosed")
	w.Merge(w.Machine(first), `{"spec":{"lifecycleHooks":null}}`)
	p.Gone(first)
	r.Eventually("it has been replaced, and no other Machine", func() error {
		if current, outdated := r.current(); current != 1 || outdated != 2 {
			return fmt.Errorf("%d Machines are current and %d outdated; the group says %s", current, outdated, harness.JSON(r.group().Status))
		}
		_, err := p.Running(3)
		return err
	})
	r.eventuallyFree()
	r.eventuallyBlocked("WindowClosed")
	if current, outdated := r.current(); current != 1 || outdated != 2 {
		t.Errorf("%d Machines are current and %d outdated", current, outdated)
	}
	r.update(func(spec *v1alpha1.NodeGroupSpec) { spec.Disruption.Windows = nil })
	r.eventuallyReplaced(3)
}
