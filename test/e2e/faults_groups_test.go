package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// dedicatedNodes is how many Nodes get the taint, one after another.
const dedicatedNodes = 3

// dedication is a NodeGroup that gives its Nodes a label and a taint that one Pod on each does not tolerate, in waves.
type dedication struct {
	*harness.Site

	nodes       []string
	disturbance harness.Disturbance
	operator    *harness.Operator
	crashed     bool
}

// dedicate dedicates Nodes under a disturbance: Pods are evicted before the taint is set, within a budget of one Node. It returns what is left.
func dedicate(t *testing.T, d harness.Disturbance) string {
	t.Helper()
	g := &dedication{Site: harness.NewWorld(t, env).Site(), disturbance: d}
	g.nodes = g.AddNodes(dedicatedNodes)
	for i, node := range g.nodes {
		g.Pod(fmt.Sprintf("app-%d", i), harness.Pods{Node: node, Ends: "200ms", Grace: 1})
	}
	createGroup(g.World, g.group())
	places := g.WatchBudget(g.Name, 1, g.Name+"-n")
	g.operator = harness.Start(t, env, d.Operator(1, harness.Options{Args: []string{"--metadata-workers=1"}}))
	g.settled()
	d.Wait()
	g.settled()
	places.Finish()
	if err := g.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(g.remains(), g.Name, "site")
}

// createGroup creates a NodeGroup, and removes it when the test ends.
func createGroup(w *harness.World, group *v1alpha1.NodeGroup) {
	w.Helper()
	w.CreateWithCleanup(group)
	w.Cleanup(func() {
		// Without an operator the finalizer stays. Cleanups run in reverse order: this one comes before the deletion.
		ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
		defer cancel()
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := w.Client.Patch(ctx, group.DeepCopy(), patch); client.IgnoreNotFound(err) != nil {
			w.Errorf("removing the finalizer of NodeGroup %s: %v", group.Name, err)
		}
	})
}

func (g *dedication) group() *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{harness.SiteLabel: g.Name}}
	group.Spec.Metadata = &v1alpha1.Metadata{
		Labels: map[string]v1alpha1.LabelValue{"example.com/team": "blue"},
		Taints: []v1alpha1.Taint{{Key: "example.com/dedicated", Effect: corev1.TaintEffectNoExecute}},
	}
	group.Spec.Rollout = &v1alpha1.Rollout{MaxInFlight: new(intstr.FromInt32(1))}
	group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	return group
}

// settled waits until the group is synced and no place is taken, and starts another operator when the first one has died.
func (g *dedication) settled() {
	g.Helper()
	g.EventuallyFree("the Nodes are dedicated, and no place is taken", func() error {
		select {
		case <-g.operator.Ended():
			if g.crashed {
				g.Fatalf("the second operator ended; its log:\n%s", g.operator.Log())
			}
			g.crashed = true
			g.operator = harness.Start(g.TB, env, g.disturbance.Operator(2, harness.Options{}))
		default:
		}
		group := &v1alpha1.NodeGroup{}
		if err := g.Client.Get(g.Context(), types.NamespacedName{Name: g.Name}, group); err != nil {
			return err
		}
		ready := meta.FindStatusCondition(group.Status.Conditions, v1alpha1.ConditionReady)
		if ready == nil || ready.Status != metav1.ConditionTrue || ready.ObservedGeneration != group.Generation || len(group.Status.Reservations) > 0 {
			return fmt.Errorf("the group says %s", harness.JSON(group.Status))
		}
		return nil
	})
}

// remains renders what the Nodes are like afterwards, and which Pods there are.
func (g *dedication) remains() string {
	g.Helper()
	var text strings.Builder
	for _, name := range g.nodes {
		node := g.Node(name)
		fmt.Fprintf(&text, "%s: team %s, taints %v, cordoned %t; lease held by %q\n", name, node.Labels["example.com/team"], harness.Taints(node),
			node.Spec.Unschedulable, g.Holder(name))
	}
	pods := &corev1.PodList{}
	if err := g.Client.List(g.Context(), pods, client.InNamespace(g.Name)); err != nil {
		g.Fatal(err)
	}
	fmt.Fprintf(&text, "%d Pods\n", len(pods.Items))
	return text.String()
}
