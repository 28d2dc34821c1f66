package grouplayer

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/rollout/gate"
)

// TestReconcile_LeftBeforeTheCacheShowsTheWrite: a Node that no group selects any more may have the record of a group, and the cache may not show it
// yet.
func TestReconcile_LeftBeforeTheCacheShowsTheWrite(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0"}}
	scheme := apitest.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	r := newLayer(t)
	r.Cache = fake.NewClientBuilder().WithScheme(scheme).WithObjects(node).Build()
	r.Finder = members.NewFinder(r.Cache, func() bool { return false })
	get(t, r.Cache, node)
	reconciled := func(version string) (after time.Duration, pending bool) {
		r.versions.Expect("uid-n0", expectations.Write{Version: version})
		r.Gate.BeginWrite("n0")
		r.Gate.EndWrite("n0", &gate.Write{Groups: []types.UID{"mine"}, Version: version}, r.Clock.Now())
		r.Gate.BeginWrite("n0")
		result, err := r.Begin(t.Context(), r.Observe(t.Context(), "n0", node), false).End(t.Context(), "", nil)
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter, r.Gate.InFlight("mine", r.Clock.Now(), func(string, string) bool { return false })
	}
	r.guarded.Store("n0", false)
	if after, pending := reconciled("1" + node.ResourceVersion); after != controller.CatchUp || !pending {
		t.Errorf("before the cache shows the write: again after %s, in flight %t", after, pending)
	}
	if _, guarded := r.guarded.Load("n0"); guarded {
		t.Error("it is guarded still")
	}
	if after, pending := reconciled(node.ResourceVersion); after != 0 || pending {
		t.Errorf("when the cache shows the write: again after %s, in flight %t", after, pending)
	}
}
