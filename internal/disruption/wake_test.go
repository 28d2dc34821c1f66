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
	f.begin(newRequest("n0", upgrade), "")
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	person := newRequest("n2", maintenance)
	f.begin(person, plan.ReasonBudgetExhausted)
	f.wake()
	if got := append(upgrades(), maintenances()...); got != nil {
		t.Errorf("without a place, %q are woken", got)
	}
	f.end(newRequest("n0", upgrade))
	f.wake()
	if got := maintenances(); !slices.Equal(got, []string{"n2"}) {
		t.Errorf("%q are woken", got)
	}
	if got := upgrades(); got != nil {
		t.Errorf("%q are woken, which are not next", got)
	}
	f.begin(newRequest("n1", upgrade), plan.ReasonQueued)
	f.begin(person, "")
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
}

func TestWake_NodeRecovers(t *testing.T) {
	f := newFixture(t)
	upgrades := f.woken(upgrade)
	f.replace(2, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
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
	f.begin(newRequest("n0", upgrade), plan.ReasonSuspended)
	f.begin(newRequest("n1", upgrade), plan.ReasonSuspended)
	f.members.nodes = f.members.nodes[1:]
	f.wake()
	if got := upgrades(); !slices.Equal(got, []string{"n0"}) {
		t.Errorf("%q are woken", got)
	}
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = false })
	f.begin(newRequest("n1", upgrade), "")
}

// TestWake_WithoutBudget: a suspended group that has no budget gives up the requests that are not made again, too, and remembers no Nodes.
func TestWake_WithoutBudget(t *testing.T) {
	f := newFixture(t)
	upgrades := f.woken(upgrade)
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Suspend, group.Spec.Disruption = true, nil })
	f.begin(newRequest("n0", upgrade), plan.ReasonSuspended)
	f.step(plan.Recheck + plan.Patience)
	f.wake()
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = false })
	f.wake()
	if got := upgrades(); len(got) > 0 {
		t.Errorf("%q are woken", got)
	}
	f.begin(f.leased(newRequest("n1", upgrade)), "")
	f.end(f.leased(newRequest("n1", upgrade)))
	if g := f.budgets.group(groupName); len(g.returned)+g.queue.Len() > 0 {
		t.Errorf("left are %v and %d requests", g.returned, g.queue.Len())
	}
}

// A request that is not made again does not keep others waiting.
func TestWake_RequestIsNotMadeAgain(t *testing.T) {
	f := newFixture(t)
	f.begin(newRequest("n0", upgrade), "")
	f.begin(newRequest("n1", remediation), plan.ReasonBudgetExhausted)
	f.end(newRequest("n0", upgrade))
	f.wake()
	f.begin(newRequest("n2", upgrade), plan.ReasonQueued)
	f.step(plan.Recheck)
	f.begin(newRequest("n2", upgrade), plan.ReasonQueued)
	f.step(plan.Patience)
	f.begin(newRequest("n2", upgrade), "")
	if state := f.state(); state.Waiting != 0 {
		t.Errorf("%d wait", state.Waiting)
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
			f.begin(newRequest("n0", upgrade), "")
			f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
			f.begin(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
			if err := end(f); err != nil {
				t.Fatal(err)
			}
			if got := upgrades(); !slices.Equal(got, []string{"n1", "n2"}) {
				t.Errorf("%q are woken", got)
			}
		})
	}
}

// A request keeps its place in the queue, even if its object does not say since when it waits.
func TestBegin_KeepsTurn(t *testing.T) {
	f := newFixture(t)
	f.begin(newRequest("n0", upgrade), "")
	f.begin(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	f.step(10 * time.Second)
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.begin(newRequest("n2", upgrade), plan.ReasonBudgetExhausted)
	f.end(newRequest("n0", upgrade))
	f.wake()
	f.begin(newRequest("n1", upgrade), plan.ReasonQueued)
	f.begin(newRequest("n2", upgrade), "")
}

// TestChanged_WaitingChanges: the controller of groups hears at once that a request waits, and that it does not any more, but not each time that the
// request is made again.
func TestChanged_WaitingChanges(t *testing.T) {
	f := newFixture(t)
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	source := f.budgets.Changed(func(_ context.Context, group string) []reconcile.Request {
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
	f.begin(newRequest("n0", upgrade), "")
	check("one has a place", 0)
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	check("one waits", 1)
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	check("it is made again", 0)
	f.end(newRequest("n1", upgrade))
	check("it is withdrawn", 1)
}
