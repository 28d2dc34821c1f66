package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// labelPool is a label that a cloud provider sets on the Nodes of a pool.
const labelPool = "eks.amazonaws.com/nodegroup"

// dedicated is the taint that the group declares, as text.
const dedicated = "example.com/dedicated=batch:NoExecute"

// pool is a site with a node pool, and a NodeGroup that selects it.
type pool struct {
	*harness.Site

	nodes []string
}

// newPool makes a pool of so many Nodes, and one Node of another pool, on a cluster without any Machine API, such as EKS, GKE or AKS: the CRDs of
// machine.openshift.io are absent until the test ends.
func newPool(t *testing.T, count int) (p *pool, other string) {
	t.Helper()
	p = &pool{Site: alone(t)}
	t.Cleanup(func() {
		if _, err := cluster.InstallCRDs(context.WithoutCancel(t.Context()), env.Admin(), crd.Files, "."); err != nil {
			t.Errorf("installing the CRDs of the Machine API again: %v", err)
		}
	})
	crds := []string{"machines.machine.openshift.io", "machinesets.machine.openshift.io", "machinehealthchecks.machine.openshift.io"}
	if err := harness.DeleteCRDs(t.Context(), env, crds...); err != nil {
		t.Fatalf("deleting the CRDs of the Machine API: %v", err)
	}
	p.nodes = p.AddNodes(count, func(node *corev1.Node) { node.Labels[labelPool] = p.Name })
	return p, p.AddNode(func(node *corev1.Node) { node.Labels[labelPool] = "other" })
}

// declare creates a NodeGroup of the pool that declares a label.
func (p *pool) declare(change func(*v1alpha1.NodeGroupSpec)) *v1alpha1.NodeGroup {
	p.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labelPool: p.Name}}
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"example.com/team": "blue"}}
	change(&group.Spec)
	p.CreateWithCleanup(group)
	return group
}

// group reads the NodeGroup.
func (p *pool) group(name string) *v1alpha1.NodeGroup {
	p.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := p.Client.Get(p.Context(), types.NamespacedName{Name: name}, group); err != nil {
		p.Fatal(err)
	}
	return group
}

// eventuallyOnAll waits until a condition holds for each Node of the pool.
func (p *pool) eventuallyOnAll(what string, condition func(*corev1.Node) error) {
	p.Helper()
	for _, name := range p.nodes {
		p.AwaitNode(name, what, condition)
	}
}

// hasRecord reports whether a group owns something on a Node.
func hasRecord(node *corev1.Node) bool {
	return node.Annotations[ownership.AnnotationGroupRecord] != ""
}

// TestNodePool: the metadata of a group reaches Nodes that exist already in waves. For a taint with the effect NoExecute the Pods leave first, within
// their PodDisruptionBudget, one Node at a time as the budget of the group says. With onRelease Remove the group takes all of it with it.
func TestNodePool(t *testing.T) {
	p, other := newPool(t, 4)
	p.Deployment("app", harness.Pods{Replicas: 8, Ends: "200ms"})
	p.Budget("app", "app", harness.MaxUnavailable(2))
	p.ChangeNode(p.nodes[0], func(node *corev1.Node) { node.Labels["example.com/theirs"] = "kept" })
	operator := p.Operator(harness.Options{})
	if err := operator.Says(t.Context(), "capability metadata: off (the API server has no machine"); err != nil {
		t.Fatal(err)
	}

	mark := p.AuditMark()
	group := p.declare(func(spec *v1alpha1.NodeGroupSpec) {
		spec.Metadata.OnRelease = v1alpha1.ReleaseRemove
		spec.Rollout = &v1alpha1.Rollout{FirstWave: new(int32(1)), MaxInFlight: new(intstr.FromInt32(2))}
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(1))}
	})
	p.eventuallyOnAll("has the label", hasTeam)
	p.checkWaves(p.Writes(mark), 1, 2, 1)

	budget := p.WatchBudget(group.Name, 1, p.Name+"-")
	harness.Update(p.World, p.group, group.Name, func(group *v1alpha1.NodeGroup) {
		group.Spec.Metadata.Taints = []v1alpha1.Taint{{Key: "example.com/dedicated", Value: "batch", Effect: corev1.TaintEffectNoExecute}}
	})
	p.eventuallyOnAll("has the taint", func(node *corev1.Node) error { return harness.Has(node, nil, nil, dedicated) })
	for _, node := range p.nodes {
		p.Settled("app", 8, node)
		p.AwaitHolder(node, "")
	}
	p.Eventually("no place is taken", func() error {
		if s := p.group(group.Name).Status; s.Unavailable != 0 || len(s.Reservations) > 0 || s.Synced != 4 {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
	if reserved, _ := budget.Finish(); reserved != 1 {
		t.Errorf("%d Nodes were reserved at once, want 1", reserved)
	}
	p.checkEvicted()

	if err := p.Client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	p.Gone(group)
	p.eventuallyOnAll("has been released", func(node *corev1.Node) error {
		if hasTeam(node) == nil || harness.Has(node, nil, nil, dedicated) == nil || hasRecord(node) {
			return fmt.Errorf("labels %v, taints %v, annotations %v", node.Labels, harness.Taints(node), node.Annotations)
		}
		return nil
	})
	if theirs := p.Node(p.nodes[0]).Labels["example.com/theirs"]; theirs != "kept" {
		t.Errorf("a label of another writer is %q", theirs)
	}
	for _, write := range p.Writes(mark) {
		if write.Name == other {
			t.Errorf("a Node of another pool has been written: %s", write.URI)
		}
	}
}

// checkWaves checks that each Node of the pool has been written once, in waves of some sizes.
func (p *pool) checkWaves(writes []cluster.AuditEvent, sizes ...int) {
	p.Helper()
	var names []string
	for i := range writes {
		names = append(names, writes[i].Name)
	}
	if len(names) != len(p.nodes) {
		p.Fatalf("written are %v", names)
	}
	begin := 0
	for _, size := range sizes {
		got, want := slices.Sorted(slices.Values(names[begin:begin+size])), slices.Sorted(slices.Values(p.nodes[begin:begin+size]))
		if !slices.Equal(got, want) {
			p.Errorf("a wave has written %v, not %v; in all %v", got, want, names)
		}
		begin += size
	}
}

// checkEvicted checks that no Pod was left for Kubernetes to delete when the taint was set.
func (p *pool) checkEvicted() {
	p.Helper()
	if requests := checker.Verify(p.Site); harness.Codes(requests.Evictions)[201] == 0 {
		p.Errorf("no Pod has been evicted: %v", requests.Evictions)
	}
	var events corev1.EventList
	if err := p.Client.List(p.Context(), &events, client.InNamespace(p.Name), client.MatchingFields{"reason": "TaintManagerEviction"}); err != nil {
		p.Fatal(err)
	}
	for i := range events.Items {
		if message := events.Items[i].Message; strings.Contains(message, "Marking for deletion") {
			p.Errorf("Kubernetes has deleted a Pod regardless of its budget: %s", message)
		}
	}
}

// TestNodePool_Keep: with onRelease Keep, the default, the Nodes of a deleted group keep what it has declared, and Drover no longer owns it.
func TestNodePool_Keep(t *testing.T) {
	p, _ := newPool(t, 2)
	p.Operator(harness.Options{})
	group := p.declare(func(*v1alpha1.NodeGroupSpec) {})
	// The plugin works on what the cluster serves.
	for _, args := range [][]string{{"status", "--wait", "--timeout", harness.Patience.String()}, {"plan"}, {"explain", p.nodes[0]}} {
		output, code := plugin.Run(p.World, args...)
		if code != 0 || !strings.Contains(output, group.Name) || strings.Contains(output, "is unknown") {
			t.Errorf("%v: code %d: %s", args, code, output)
		}
	}
	const noLeader, rights = "no replica leads", "you may do all that the commands need"
	if output, code := plugin.Run(p.World, "check"); code != 1 || !strings.Contains(output, noLeader) || !strings.Contains(output, rights) {
		t.Errorf("check: code %d: %s", code, output)
	}
	p.eventuallyOnAll("has the label", hasTeam)
	if err := p.Client.Delete(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	p.Gone(group)
	p.eventuallyOnAll("keeps the label, without a record", func(node *corev1.Node) error {
		if hasRecord(node) {
			return fmt.Errorf("the annotations are %v", node.Annotations)
		}
		return hasTeam(node)
	})
}
