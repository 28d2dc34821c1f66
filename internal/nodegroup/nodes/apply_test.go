package nodes

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/watch"
)

// The guard of a Node goes on, or ends, only after its own write: with the event of any other one there is nothing to do.
func TestApply_OwnWriteIsFollowedWhileTaintsAreGuarded(t *testing.T) {
	for name, test := range map[string]struct {
		guarded []string
		want    int
	}{
		"no guarded taint": {nil, 0},
		"guarded taint":    {[]string{"example.com/batch:NoExecute"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			before := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0"}}
			r := newReconciler(t, before)
			after := before.DeepCopy()
			get(t, r.Writer, before)
			rc := &reconciliation{
				Reconciler: r, observation: &observation{Assignment: members.Assignment{Node: before}}, state: &nodeState{},
				key: client.ObjectKeyFromObject(before), now: r.Clock.Now(),
			}
			decision := metadataplan.GroupDecision{Guarded: test.guarded, Change: metadataplan.Change{
				Write: true, Results: map[ownership.Kind]ownership.Result{ownership.Label: {Set: map[string]string{"tier": "batch"}}},
			}}
			if out := rc.apply(t.Context(), &decision, controller.Requeue{}); out.class != status.OK || !out.wrote {
				t.Fatalf("the write ended with %s %v", out.class, out.err)
			}
			get(t, r.Writer, after)
			queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			t.Cleanup(queue.ShutDown)
			r.nodeUpdated(t.Context(), watch.NewQueue(queue), before, after)
			if queue.Len() != test.want {
				t.Errorf("%d requests after the write, want %d", queue.Len(), test.want)
			}
		})
	}
}

func newReconciler(t *testing.T, objects ...client.Object) *Reconciler {
	t.Helper()
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	return NewReconciler(Dependencies{
		Writer: fake.NewClientBuilder().WithObjects(objects...).Build(), Recorder: record.NewFakeRecorder(10), Metrics: metrics,
	}, Options{Limiter: pace.NewLimiter(0, 0)})
}

func get(t *testing.T, c client.Reader, node *corev1.Node) {
	t.Helper()
	if err := c.Get(t.Context(), types.NamespacedName{Name: node.Name}, node); err != nil {
		t.Fatal(err)
	}
}
