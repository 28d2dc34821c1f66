package nodegroup

import (
	"fmt"
	"testing"

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
	f := newFixture(t, "follow", 6)
	f.label("follow-01", "example.com/theirs", "kept")
	f.create(f.newGroup("follow", withLabel("example.com/team", "blue"), withTaint("example.com/dedicated", "batch", corev1.TaintEffectNoSchedule)))
	f.Operator(harness.Options{})
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

	// A Node that joins gets it, one that leaves keeps it and is no longer watched over.
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
	for _, policy := range []v1alpha1.ReleasePolicy{v1alpha1.ReleaseKeep, v1alpha1.ReleaseRemove} {
		name := map[v1alpha1.ReleasePolicy]string{v1alpha1.ReleaseKeep: "keep", v1alpha1.ReleaseRemove: "remove"}[policy]
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, name, 4)
			f.label(name+"-00", "example.com/theirs", "kept")
			f.create(f.newGroup(name, withLabel("example.com/team", "blue"), withRelease(policy)))
			f.Operator(harness.Options{})
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

// TestOverlap_OldestGroupWins: a Node belongs to the oldest of the groups that select it, and both say so; when that goes, the other takes over.
func TestOverlap_OldestGroupWins(t *testing.T) {
	f := newFixture(t, "overlap", 3)
	f.create(f.newGroup("overlap-a", withLabel("example.com/team", "a"), withRelease(v1alpha1.ReleaseRemove)))
	f.Operator(harness.Options{})
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
