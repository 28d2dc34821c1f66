package nodegroup

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/rollout"
)

// loses returns a Node that loses labels.
func loses(name string, keys ...string) rollout.Node {
	labels := map[string]string{"kept": "yes"}
	for _, key := range keys {
		labels[key] = "a"
	}
	owned := ownership.KeysOf(labels)
	return rollout.Node{
		Name: name, Labels: labels, Owned: ownership.Section{}.With(ownership.Label, owned),
		Metadata: metadataplan.GroupDecision{Change: metadataplan.Change{
			Write: true, Results: map[ownership.Kind]ownership.Result{ownership.Label: {Remove: keys}},
		}},
	}
}

// TestObservePods_OtherLabelsAreLost: what was looked up for a roll-out says nothing about the labels of Nodes that leave the group meanwhile.
func TestObservePods_OtherLabelsAreLost(t *testing.T) {
	scheme := apitest.Scheme(t, corev1.AddToScheme)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db"}}
	pod.Spec.NodeName, pod.Spec.NodeSelector = "n1", map[string]string{"disk": "a"}
	builder, lists := fake.NewClientBuilder().WithScheme(scheme).WithObjects(pod), 0
	apitest.IndexPods(builder)
	api := builder.WithInterceptorFuncs(interceptor.Funcs{
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			if _, ok := list.(*corev1.PersistentVolumeList); ok {
				// There are none.
				lists++
				return nil
			}
			return next.List(ctx, list, options...)
		},
	}).Build()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", Generation: 1}}
	group.Spec.Metadata = &v1alpha1.Metadata{OnRelease: v1alpha1.ReleaseRemove}
	rc := &reconciliation{Reconciler: &Reconciler{Dependencies: Dependencies{API: pages.NewReader(api)}}, state: &groupState{}, now: time.Now()}
	for _, step := range []struct {
		name            string
		after           time.Duration
		nodes, released []rollout.Node
		looks           bool
		waits           string
	}{
		{"the roll-out begins", 0, []rollout.Node{loses("n0", "rack"), loses("n1", "rack")}, nil, true, ""},
		{"it goes on", time.Second, []rollout.Node{loses("n1", "rack")}, nil, false, ""},
		{"a Node leaves the group", time.Second, []rollout.Node{}, []rollout.Node{loses("n1", "disk", "rack")}, true, "Pod shop/db"},
		{"it is left", time.Second, nil, []rollout.Node{loses("n1", "disk", "rack")}, false, "Pod shop/db"},
		{"another Node leaves it", time.Second, nil, []rollout.Node{loses("n1", "disk", "rack"), loses("n2", "disk")}, true, "Pod shop/db"},
		{"five minutes later", recheckUses, nil, []rollout.Node{loses("n1", "disk")}, true, "Pod shop/db"},
		{"nothing is lost", time.Second, nil, nil, false, ""},
	} {
		lists, rc.now = 0, rc.now.Add(step.after)
		in := &plan.Input{
			Group: group, Declaration: metadataplan.GroupDeclarationOf(group), Nodes: step.nodes, Released: step.released, Now: rc.now,
		}
		var requeue controller.Requeue
		if err := rc.observePods(t.Context(), in, &requeue); err != nil {
			t.Fatal(err)
		}
		d := plan.Decide(in)
		waits := d.UnconfirmedReleases
		if stopped := d.Phase == v1alpha1.PhaseStopped; stopped != (waits != "") {
			t.Errorf("%s: the phase is %s", step.name, d.Phase)
		}
		if looks := lists > 0; looks != step.looks || !strings.Contains(waits, step.waits) || (waits == "") != (step.waits == "") {
			t.Errorf("%s: looks %t, waits for %q", step.name, looks, waits)
		}
	}
}
