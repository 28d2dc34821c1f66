package nodelease_test

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/nodelease"
)

// TestSource_HolderChanges: a controller that waits for a lease reconciles when the lease gets another holder or none, and not with each renewal.
func TestSource_HolderChanges(t *testing.T) {
	lease := func(name, holder string, renewed int64) *coordinationv1.Lease {
		at := metav1.NewMicroTime(metav1.Unix(renewed, 0).Time)
		out := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: name}}
		out.Spec.RenewTime = &at
		if holder != "" {
			out.Spec.HolderIdentity = &holder
		}
		return out
	}
	for name, c := range map[string]struct {
		before, after *coordinationv1.Lease // a nil lease after is a deletion
		want          string
	}{
		"renewed":                      {lease("node-worker-1", "own", 1), lease("node-worker-1", "own", 2), ""},
		"taken over":                   {lease("node-worker-1", "own", 1), lease("node-worker-1", "other", 2), "worker-1"},
		"released and kept":            {lease("node-worker-1", "own", 1), lease("node-worker-1", "", 1), "worker-1"},
		"deleted":                      {lease("node-worker-1", "own", 1), nil, "worker-1"},
		"not of a node, taken over":    {lease("drover-leader", "own", 1), lease("drover-leader", "other", 2), ""},
		"not of a node, deleted":       {lease("drover-leader", "own", 1), nil, ""},
		"of a node with such a prefix": {lease("node-node-1", "own", 1), nil, "node-1"},
	} {
		t.Run(name, func(t *testing.T) {
			informers := &informertest.FakeInformers{}
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer queue.ShutDown()
			source := nodelease.Source(informers, func(_ context.Context, node string) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
			})
			if err := source.Start(t.Context(), queue); err != nil {
				t.Fatal(err)
			}
			informer, err := informers.FakeInformerFor(t.Context(), &coordinationv1.Lease{})
			if err != nil {
				t.Fatal(err)
			}
			if c.after == nil {
				informer.Delete(c.before)
			} else {
				informer.Update(c.before, c.after)
			}
			got := ""
			if queue.Len() > 0 {
				item, _ := queue.Get()
				got = item.Name
			}
			if got != c.want || queue.Len() != 0 {
				t.Errorf("node %q is reconciled, want %q; %d more", got, c.want, queue.Len())
			}
		})
	}
}
