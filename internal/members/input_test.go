package members

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// TestPlanNode_OnPurpose: the roll-out knows which Nodes become NotReady on purpose, and which are not initialized.
func TestPlanNode_OnPurpose(t *testing.T) {
	disruption := &v1alpha1.Disruption{UnavailableTaints: []string{"example.com/leaving"}}
	group := Parse(&v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Disruption: disruption}})
	tainted := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: key, Effect: corev1.TaintEffectNoSchedule}} }
	}
	for name, test := range map[string]struct {
		change           func(*corev1.Node)
		leaving, joining bool
	}{
		"not Ready":         {func(*corev1.Node) {}, false, false},
		"cordoned":          {func(n *corev1.Node) { n.Spec.Unschedulable = true }, false, false},
		"being deleted":     {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{} }, true, false},
		"Karpenter":         {tainted("karpenter.sh/disrupted"), true, false},
		"of the group":      {tainted("example.com/leaving"), true, false},
		"another taint":     {tainted("example.com/gpu"), false, false},
		"kured restarts it": {func(n *corev1.Node) { n.Annotations = map[string]string{"weave.works/kured-reboot-in-progress": ""} }, true, false},
		"not initialized":   {tainted("node.cloudprovider.kubernetes.io/uninitialized"), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			assignment := &Assignment{Node: &corev1.Node{}}
			test.change(assignment.Node)
			got := assignment.planNode(group, metadataplan.GroupDecision{})
			if got.Leaving != test.leaving || got.Joining != test.joining {
				t.Errorf("leaving %v, joining %v", got.Leaving, got.Joining)
			}
		})
	}
}

// TestPlanInput_DeletedNode: a group that is being deleted does not wait for a Node that is being deleted, which is not written any more.
func TestPlanInput_DeletedNode(t *testing.T) {
	group := Parse(&v1alpha1.NodeGroup{})
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		ownership.AnnotationGroupRecord: `{"labels":["team"],"pool":"g"}`,
	}}}
	input := func(of *Group) *plan.Input {
		return PlanInput(group, []Assignment{{Node: node, Group: of, Recorded: group}}, time.Time{}, func(*Assignment) metadataplan.GroupDecision {
			return metadataplan.GroupDecision{}
		})
	}
	if in := input(group); len(in.Nodes) != 1 || in.Nodes[0].Owned.Empty() || len(input(nil).Released) != 1 {
		t.Fatalf("%+v", in)
	}
	node.DeletionTimestamp = &metav1.Time{}
	if in := input(group); len(in.Nodes) != 1 || !in.Nodes[0].Owned.Empty() || len(input(nil).Released) != 0 {
		t.Errorf("%+v", in)
	}
}

// TestPlanInput_WithoutMachines: where Machines are not read, a group that selects by MachineSets does not release the Nodes that it has had.
func TestPlanInput_WithoutMachines(t *testing.T) {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g", Finalizers: []string{v1alpha1.Finalizer}}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "ours"}
	group.Spec.Metadata = &v1alpha1.Metadata{OnRelease: v1alpha1.ReleaseRemove}
	group.Spec.Rollout = &v1alpha1.Rollout{ReleaseDelay: &metav1.Duration{}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Annotations: map[string]string{
		ownership.AnnotationGroupRecord: `{"labels":["team"],"pool":"g"}`,
	}}}
	finder := NewFinder(newFinderOf(t, group, node).cache, func() bool { return false })
	groups, err := finder.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := finder.Nodes(t.Context(), groups, "g")
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d Nodes, error %v", len(nodes), err)
	}
	decision := plan.Decide(PlanInput(groups[0], nodes, time.Time{}.Add(time.Hour), func(a *Assignment) metadataplan.GroupDecision {
		return metadataplan.DecideGroup(a.Input(ownership.Protected{}, time.Time{}))
	}))
	if ready := decision.Conditions[0]; decision.Releasing.Len() > 0 || decision.Released || ready.Reason != plan.ReasonInvalidSelector {
		t.Errorf("it releases %v, and is %+v", decision.Releasing, ready)
	}
}

// TestInput_WithoutMachines: where Machines are not read, a group does not take away the taint that it has set for the MachineSet of a Node.
func TestInput_WithoutMachines(t *testing.T) {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "g", Generation: 1}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"node-restriction.kubernetes.io/pool": "a"}}
	group.Status.OwnedKeys = []string{"taint/old:NoExecute", "taint/out:NoExecute"}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Labels: map[string]string{"node-restriction.kubernetes.io/pool": "a"}, Annotations: map[string]string{
			ownership.AnnotationGroupRecord: `{"taints":["old:NoExecute","out:NoExecute"],"pool":"g"}`,
			ownership.AnnotationRecord:      `{"taints":["out:NoExecute"],"pool":"web"}`,
		},
	}}
	for _, key := range []string{"old", "out"} {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoExecute})
	}
	finder := NewFinder(newFinderOf(t, group, node).cache, func() bool { return false })
	groups, err := finder.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	assignment, err := finder.Assign(t.Context(), groups, node)
	if err != nil || assignment.Group == nil {
		t.Fatalf("group %v, error %v", assignment.Group, err)
	}
	decision := metadataplan.DecideGroup(assignment.Input(ownership.Protected{}, time.Time{}))
	if removed := decision.Change.Results[ownership.Taint].Remove; len(removed) != 1 || removed[0] != "old:NoExecute" {
		t.Errorf("it removes %v", removed)
	}
}
