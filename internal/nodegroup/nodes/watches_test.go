package nodes

import (
	"slices"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/watch"
)

// notingQueue notes the names of what is enqueued.
type notingQueue struct {
	priorityqueue.PriorityQueue[reconcile.Request]
	names []string
}

func (q *notingQueue) AddWithOpts(_ priorityqueue.AddOpts, items ...reconcile.Request) {
	for _, item := range items {
		q.names = append(q.names, item.Name)
	}
}

// TestBudgetEvents: a Node whose taint is held back is looked at again when a PodDisruptionBudget of its Pods' namespaces may allow more than before,
// and not for anything else that changes in one.
func TestBudgetEvents(t *testing.T) {
	before := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "b", Generation: 1},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 2, DesiredHealthy: 2, CurrentHealthy: 2},
	}
	for name, c := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   []string
	}{
		"the user has changed it":       {func(b *policyv1.PodDisruptionBudget) { b.Generation++ }, []string{"held", "unknown"}},
		"Kubernetes has counted again":  {func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 1 }, []string{"held", "unknown"}},
		"it allows an eviction":         {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, []string{"held", "unknown"}},
		"a Pod is ready that was not":   {func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy = 1 }, nil},
		"a label":                       {func(b *policyv1.PodDisruptionBudget) { b.Labels = map[string]string{"a": "b"} }, nil},
		"one of a namespace beside it":  {func(b *policyv1.PodDisruptionBudget) { b.Namespace, b.Generation = "other", 2 }, []string{"other", "unknown"}},
		"one that no held Pod concerns": {func(b *policyv1.PodDisruptionBudget) { b.Namespace, b.Generation = "none", 2 }, []string{"unknown"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, queue := &Reconciler{}, &notingQueue{}
			r.heldIn.Store("held", sets.New("apps"))
			r.heldIn.Store("other", sets.New("other"))
			// Which Pods would have to leave is not known yet.
			r.heldIn.Store("unknown", sets.Set[string](nil))
			after := before.DeepCopy()
			c.change(after)
			r.budgetUpdated(t.Context(), watch.NewQueue(queue), before, after)
			slices.Sort(queue.names)
			if !slices.Equal(queue.names, c.want) {
				t.Errorf("looked at again: %v, want %v", queue.names, c.want)
			}
		})
	}
}
