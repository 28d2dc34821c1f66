package metadata

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/watch"
)

// A pass that comes before the machine controllers run names no Machine on its Node, and nothing else would bring another one.
func TestMachinesAreLookedAtAgainWhenTheyAreToBeNamed(t *testing.T) {
	link, changed := false, make(chan struct{}, 1)
	s, _, _, node := one(t, Options{Link: func() bool { return link }, LinkChanged: changed})
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.must(t, "m1", "")
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		told := make(chan struct{}, 1)
		s.relink = told
		go s.followLink(ctx, watch.NewQueue(queue))
		synctest.Wait()
		if queue.Len() != 0 {
			t.Errorf("%d Machines are looked at before anything changed", queue.Len())
		}
		told <- struct{}{}
		synctest.Wait()
		if queue.Len() != 1 {
			t.Errorf("%d Machines are looked at", queue.Len())
		}
	})
	link = true
	s.must(t, "m1", "Node/n1")
	edit(t, s, node, func(*corev1.Node) {})
	if got := node.Annotations[plan.AnnotationMachine]; got != "machines/m1" {
		t.Errorf("the Node names %q", got)
	}
	s.must(t, "m1", "")
}
