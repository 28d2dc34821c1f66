package nodegroup

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestMetadata_FollowsTheGroup: Nodes that exist already get what their group declares, lose what it no longer declares, and keep everything else.
func TestMetadata_FollowsTheGroup(t *testing.T) {
	f := besideOthers(t, "follow", 6)
	f.label("follow-01", "example.com/theirs", "kept")
	f.create(f.newGroup("follow", withLabel("example.com/team", "blue"), withTaint("example.com/dedicated", "batch", corev1.TaintEffectNoSchedule),
		withReleaseDelay(0)))
	group := f.eventuallyCondition("follow", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if s := group.Status; s.Nodes != 6 || s.Synced != 6 || len(s.OwnedKeys) != 2 || s.Phase != v1alpha1.PhaseIdle {
		t.Errorf("status is %s", harness.JSON(s))
	}
	for i := range 6 {
		f.eventuallyNode(fmt.Sprintf("follow-%02d", i), "has the label", hasLabel("example.com/team", "blue"))
		f.eventuallyNode(fmt.Sprintf("follow-%02d", i), "has the taint", hasTaint("example.com/dedicated", true))
	}

	// A manual edit is undone.
	f.label("follow-02", "example.com/team", "green")
	f.eventuallyNode("follow-02", "is repaired", hasLabel("example.com/team", "blue"))
	f.AwaitEvent("Node", "follow-02", "MetadataRepaired", "label example.com/team")

	// What is no longer declared goes, what was never declared stays.
	f.update("follow", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Metadata.Taints = nil
		withLabel("example.com/team", "red")(spec)
	})
	for i := range 6 {
		f.eventuallyNode(fmt.Sprintf("follow-%02d", i), "has the new label", hasLabel("example.com/team", "red"))
		f.eventuallyNode(fmt.Sprintf("follow-%02d", i), "has lost the taint", hasTaint("example.com/dedicated", false))
	}
	f.eventuallyNode("follow-01", "keeps what others have set", hasLabel("example.com/theirs", "kept"))
	f.Eventually("the removed key is no longer owned", func() error {
		if keys := f.group("follow").Status.OwnedKeys; len(keys) != 1 {
			return fmt.Errorf("owned are %v", keys)
		}
		return nil
	})

	// A Node that joins gets the label. A Node that leaves keeps the label, and Drover no longer maintains it.
	f.register("follow-new", "zone-a")
	f.eventuallyNode("follow-new", "has the label", hasLabel("example.com/team", "red"))
	f.label("follow-03", labelPool, "other")
	f.eventuallyNode("follow-03", "has no record", func(node *corev1.Node) error {
		if record := node.Annotations["drover.dev/group-owned-metadata"]; record != "" {
			return fmt.Errorf("record is %s", record)
		}
		return hasLabel("example.com/team", "red")(node)
	})
}

// TestMetadata_OneWritePerNodeAndNoneAtRest counts the requests of a roll-out.
func TestMetadata_OneWritePerNodeAndNoneAtRest(t *testing.T) {
	f := newFixture(t, "writes", 20)
	f.create(f.newGroup("writes", withLabel("example.com/team", "blue")))
	mark := f.AuditMark()
	operator := f.Operator(harness.Options{})
	f.eventuallyCondition("writes", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if writes := f.Writes(mark); len(writes) != 20 {
		t.Errorf("%d writes of Nodes for 20 Nodes: %v", len(writes), writes)
	}
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	mark = f.AuditMark()
	f.Operator(harness.Options{})
	// Another group shows that the operator works.
	f.create(f.newGroup("writes-other", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.Selector.MatchLabels[labelPool] = "writes-other"
		withLabel("example.com/team", "green")(spec)
	}))
	f.label("writes-00", labelPool, "writes-other")
	f.eventuallyNode("writes-00", "has moved to the other group", hasLabel("example.com/team", "green"))
	f.eventuallyCondition("writes-other", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	for _, write := range f.Writes(mark) {
		if write.Name != "writes-00" {
			t.Errorf("a restarted operator has written %s", write.Name)
		}
	}
}

// TestDeletion_ReleasesTheNodes: a group that is deleted keeps or removes what it declared, as onRelease says.
func TestDeletion_ReleasesTheNodes(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha1.ReleasePolicy{v1alpha1.ReleaseKeep, v1alpha1.ReleaseRemove} {
		name := map[v1alpha1.ReleasePolicy]string{v1alpha1.ReleaseKeep: "keep", v1alpha1.ReleaseRemove: "remove"}[policy]
		t.Run(name, func(t *testing.T) {
			f := besideOthers(t, name, 4)
			f.label(name+"-00", "example.com/theirs", "kept")
			f.create(f.newGroup(name, withLabel("example.com/team", "blue"), withRelease(policy)))
			group := f.eventuallyCondition(name, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
			if err := f.Client.Delete(t.Context(), group); err != nil {
				t.Fatal(err)
			}
			f.eventuallyGone(name)
			want := map[v1alpha1.ReleasePolicy]string{v1alpha1.ReleaseKeep: "blue"}[policy]
			for i := range 4 {
				node := f.Node(fmt.Sprintf("%s-%02d", name, i))
				if err := hasLabel("example.com/team", want)(node); err != nil {
					t.Errorf("Node %s: %v", node.Name, err)
				}
				if node.Annotations["drover.dev/group-owned-metadata"] != "" {
					t.Errorf("Node %s has a record", node.Name)
				}
			}
			if err := hasLabel("example.com/theirs", "kept")(f.Node(name + "-00")); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestRelease_SelectorTypo: a mistake in a selector costs the Nodes of one batch what the group has declared; while the group is suspended it costs
// none.
func TestRelease_SelectorTypo(t *testing.T) {
	f := besideOthers(t, "typo", 6)
	pause := func(suspend bool) func(*v1alpha1.NodeGroupSpec) {
		return func(spec *v1alpha1.NodeGroupSpec) { spec.Suspend = suspend }
	}
	f.create(f.newGroup("typo", withLabel("example.com/team", "blue"), withRelease(v1alpha1.ReleaseRemove), withWaves(2, 2, 0),
		withReleaseDelay(0)))
	group := f.eventuallyCondition("typo", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	right, mark := group.Spec.Nodes, f.AuditMark()
	f.update("typo", func(spec *v1alpha1.NodeGroupSpec) {
		pause(true)(spec)
		spec.Rollout.Pause = &metav1.Duration{Duration: time.Hour}
		spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/tpyo": "yes"}}
	})
	f.eventuallyCondition("typo", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonSuspended)
	f.Eventually("the group has no Nodes", func() error {
		if nodes := f.group("typo").Status.Nodes; nodes != 0 {
			return fmt.Errorf("it has %d", nodes)
		}
		return nil
	})
	if names := f.written(mark); len(names) > 0 {
		t.Errorf("written are %v, of a suspended group", names)
	}
	f.update("typo", pause(false))
	f.Eventually("a batch is released", func() error {
		if names := f.written(mark); len(names) < 2 {
			return fmt.Errorf("written are %v", names)
		}
		return nil
	})
	group = f.eventuallyCondition("typo", v1alpha1.ConditionProgressing, metav1.ConditionTrue, plan.ReasonReleasing)
	if group.Status.Rollout.ReleaseTime == nil {
		t.Errorf("the roll-out is %s", harness.JSON(group.Status.Rollout))
	}
	f.update("typo", func(spec *v1alpha1.NodeGroupSpec) { spec.Nodes = right })
	group = f.eventuallyCondition("typo", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if names := f.written(mark); group.Status.Synced != 6 || len(names) != 4 {
		t.Errorf("written are %v, status %s", names, harness.JSON(group.Status))
	}
}

// TestOverlap_OldestGroupWins: a Node belongs to the oldest of the groups that select it, and both say so; when that goes, the other takes over.
func TestOverlap_OldestGroupWins(t *testing.T) {
	f := besideOthers(t, "overlap", 3)
	f.create(f.newGroup("overlap-a", withLabel("example.com/team", "a"), withRelease(v1alpha1.ReleaseRemove)))
	f.eventuallyCondition("overlap-a", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.create(f.newGroup("overlap-b", withLabel("example.com/team", "b"), withLabel("example.com/only-b", "yes")))
	f.eventuallyCondition("overlap-a", v1alpha1.ConditionOverlapping, metav1.ConditionTrue, plan.ReasonOverlapping)
	f.eventuallyCondition("overlap-b", v1alpha1.ConditionOverlapping, metav1.ConditionTrue, plan.ReasonOverlapping)
	f.eventuallyNode("overlap-00", "belongs to the older group", hasLabel("example.com/team", "a"))
	f.eventuallyNode("overlap-00", "has nothing of the other", hasLabel("example.com/only-b", ""))
	if err := f.Client.Delete(t.Context(), f.group("overlap-a")); err != nil {
		t.Fatal(err)
	}
	f.eventuallyGone("overlap-a")
	f.eventuallyNode("overlap-00", "belongs to the other group", hasLabel("example.com/team", "b"))
	f.eventuallyNode("overlap-00", "has all of it", hasLabel("example.com/only-b", "yes"))
	f.eventuallyCondition("overlap-b", v1alpha1.ConditionOverlapping, metav1.ConditionFalse, plan.ReasonExclusive)
}

// label sets a label of a Node as a user does.
func (f *fixture) label(node, key, value string) {
	f.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	text := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, key, value)
	if err := f.Client.Patch(f.Context(), object, client.RawPatch(types.MergePatchType, text)); err != nil {
		f.Fatal(err)
	}
}
