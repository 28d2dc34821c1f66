package disruption

import (
	"context"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

func (f *fixture) wake() {
	f.Helper()
	if err := f.budgets.Wake(f.Context(), groupName); err != nil {
		f.Fatal(err)
	}
}

func TestWake_PlaceReleased(t *testing.T) {
	f := newFixture(t)
	upgrades, maintenances := f.woken(upgrade), f.woken(maintenance)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	person := newRequest("n2", maintenance)
	f.reserve(person, plan.ReasonBudgetExhausted)
	f.wake()
	if got := append(upgrades(), maintenances()...); got != nil {
		t.Errorf("without a place, %q are woken", got)
	}
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	if got := maintenances(); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("%q are woken", got)
	}
	if got := upgrades(); got != nil {
		t.Errorf("%q are woken, which are not next", got)
	}
	f.reserve(newRequest("n1", upgrade), plan.ReasonQueued)
	f.reserve(person, "")
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
}

func TestWake_NodeRecovers(t *testing.T) {
	f := newFixture(t)
	upgrades := f.woken(upgrade)
	f.replace(2, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.replace(2, func(node *corev1.Node) { node.Spec.Unschedulable = false })
	f.wake()
	if got := upgrades(); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("%q are woken", got)
	}
}

// TestWake_NodeHasLeft: a request that waits for a group which its Node has left is made again, for the group that has the Node now, and keeps no
// other waiting.
func TestWake_NodeHasLeft(t *testing.T) {
	f := newFixture(t)
	upgrades := f.woken(upgrade)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = true })
	f.reserve(newRequest("n0", upgrade), plan.ReasonSuspended)
	f.reserve(newRequest("n1", upgrade), plan.ReasonSuspended)
	f.members.nodes = f.members.nodes[1:]
	f.wake()
	if got := upgrades(); !slices.Equal(got, []string{"n0"}) {
		t.Errorf("%q are woken", got)
	}
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = false })
	f.reserve(newRequest("n1", upgrade), "")
}

// A request that is not made again does not keep others waiting.
func TestWake_RequestIsNotMadeAgain(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n1", remediation), plan.ReasonBudgetExhausted)
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserve(newRequest("n2", upgrade), plan.ReasonQueued)
	f.step(2 * time.Minute)
	f.reserve(newRequest("n2", upgrade), plan.ReasonQueued)
	f.step(time.Minute)
	f.reserve(newRequest("n2", upgrade), "")
	if _, waiting, err := f.budgets.Counts(t.Context(), groupName, f.members.nodes); waiting != 0 || err != nil {
		t.Errorf("%d wait, error %v", waiting, err)
	}
}

func TestWake_GroupEnds(t *testing.T) {
	for name, end := range map[string]func(*fixture) error{
		"budget removed": func(f *fixture) error {
			f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
			return f.budgets.Wake(f.Context(), groupName)
		},
		"deleted": func(f *fixture) error {
			if err := f.client.Delete(f.Context(), f.group()); err != nil {
				return err
			}
			return f.budgets.Forget(f.Context(), groupName)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			upgrades := f.woken(upgrade)
			f.reserve(newRequest("n0", upgrade), "")
			f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
			f.reserve(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
			if err := end(f); err != nil {
				t.Fatal(err)
			}
			if got := upgrades(); !slices.Equal(got, []string{"n1", "n2"}) {
				t.Errorf("%q are woken", got)
			}
		})
	}
}

// A request keeps its place among those that wait, also where its object does not say since when it waits.
func TestReserve_KeepsTurn(t *testing.T) {
	f := newFixture(t)
	answer := f.reserve(newRequest("n0", upgrade), "")
	f.reserve(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	f.step(time.Minute)
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.reserve(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	if err := f.budgets.Release(t.Context(), groupName, *answer.Reservation); err != nil {
		t.Fatal(err)
	}
	f.reserve(newRequest("n1", upgrade), plan.ReasonQueued)
	f.reserve(newRequest("n2", upgrade), "")
}

// TestFinished_WaitingChanges: the controller of groups hears at once that a request waits, and that it does not any more, but not each time that the
// request is made again.
func TestFinished_WaitingChanges(t *testing.T) {
	f := newFixture(t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	source := f.budgets.Finished(func(_ context.Context, group string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: group}}}
	})
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	check := func(step string, want int) {
		t.Helper()
		if got := queue.Len(); got != want {
			t.Errorf("%s: %d groups are to be reconciled, want %d", step, got, want)
		}
		for queue.Len() > 0 {
			item, _ := queue.Get()
			queue.Done(item)
		}
	}
	f.reserve(newRequest("n0", upgrade), "")
	check("one has a place", 0)
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	check("one waits", 1)
	f.reserve(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	check("it is made again", 0)
	if err := f.budgets.Withdraw(t.Context(), newRequest("n1", upgrade)); err != nil {
		t.Fatal(err)
	}
	check("it is withdrawn", 1)
}
