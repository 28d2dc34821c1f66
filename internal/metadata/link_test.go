package metadata

import (
	"context"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/watch"
)

// A reconciliation before the machine controller runs does not annotate the Node with its Machine, and no event would start another one.
func TestFollowLink_EnqueuesAllMachines(t *testing.T) {
	link, changed := false, make(chan struct{}, 1)
	s, _, _, node := one(t, Options{Link: func() bool { return link }, LinkChanged: changed})
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.must(t, "m1", "")
	synctest.Test(t, func(t *testing.T) {
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		defer queue.ShutDown()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		changes := make(chan struct{}, 1)
		s.linkChanged = changes
		go s.followLink(ctx, watch.NewQueue(queue))
		synctest.Wait()
		if queue.Len() != 0 {
			t.Errorf("%d Machines are enqueued before anything changed", queue.Len())
		}
		changes <- struct{}{}
		synctest.Wait()
		if queue.Len() != 1 {
			t.Errorf("%d Machines are enqueued", queue.Len())
		}
	})
	link = true
	s.must(t, "m1", "Node/n1")
	apitest.Edit(t, s.client, node, func(*corev1.Node) {})
	if got := node.Annotations[plan.AnnotationMachine]; got != "machines/m1" {
		t.Errorf("the Node names %q", got)
	}
	s.must(t, "m1", "")
}
