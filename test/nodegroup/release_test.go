package nodegroup

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
)

// withSetOnceTaint declares a taint that is set with the first write of a Node.
func withSetOnceTaint(key string) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		metadata := metadataOf(spec)
		metadata.SetOnceTaints = append(metadata.SetOnceTaints, v1alpha1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
}

// untaint takes all taints from a Node, as an installer of a driver does with its own.
func (f *fixture) untaint(name string) {
	f.Helper()
	f.ChangeNode(name, func(node *corev1.Node) { node.Spec.Taints = nil })
}

// TestRelease_Flicker: Nodes whose label changes and changes back are not written at all, though the group removes what it has declared from Nodes
// that leave, and taints new ones once. Without a delay they are.
func TestRelease_Flicker(t *testing.T) {
	count := 200
	if !testing.Short() {
		count = 1000
	}
	f := besideOthers(t, "flicker", count)
	f.create(f.newGroup("flicker", withLabel("example.com/team", "blue"), withSetOnceTaint("example.com/driver"), withRelease(v1alpha1.ReleaseRemove)))
	f.eventuallyCondition("flicker", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.untaint("flicker-00")
	mark := f.AuditMark()
	for i := range count {
		f.label(fmt.Sprintf("flicker-%02d", i), labelPool, "elsewhere")
	}
	f.Eventually("the group has seen that its Nodes are gone", func() error {
		s := f.group("flicker").Status
		progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
		text := fmt.Sprintf("%d Nodes that have left the group are still to be released, %d of them at ", count, count)
		if s.Nodes != 0 || progressing.Reason != plan.ReasonReleasing || !strings.HasPrefix(progressing.Message, text) {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
	for i := range count {
		f.label(fmt.Sprintf("flicker-%02d", i), labelPool, "flicker")
	}
	f.Eventually("the group has them back", func() error {
		s := f.group("flicker").Status
		progressing := meta.FindStatusCondition(s.Conditions, v1alpha1.ConditionProgressing)
		if int(s.Synced) != count || progressing.Reason != plan.ReasonComplete {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
	if names := f.written(mark); len(names) > 0 {
		t.Errorf("written are %d Nodes: %s", len(names), names[0])
	}

	f.update("flicker", withReleaseDelay(0))
	f.label("flicker-00", labelPool, "elsewhere")
	f.eventuallyNode("flicker-00", "is released at once", hasLabel("example.com/team", ""))
	f.label("flicker-00", labelPool, "flicker")
	f.eventuallyNode("flicker-00", "is a new Node of the group", hasTaint("example.com/driver", true))
}

// TestRelease_Delay: a Node that stays away is released when the delay is over.
func TestRelease_Delay(t *testing.T) {
	f := besideOthers(t, "delay", 1)
	f.create(f.newGroup("delay", withLabel("example.com/team", "blue"), withRelease(v1alpha1.ReleaseRemove), withReleaseDelay(3*time.Second)))
	f.eventuallyCondition("delay", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	left := time.Now()
	f.label("delay-00", labelPool, "elsewhere")
	f.eventuallyNode("delay-00", "is released", hasLabel("example.com/team", ""))
	if after := time.Since(left); after < 3*time.Second {
		t.Errorf("it was released after %s", after)
	}
}

// TestRelease_FlickerBetweenGroups: a Node that another group takes for a moment is written once for each group. What both declare stays, and it gets
// the taints of neither group that are set once: it is no new Node.
func TestRelease_FlickerBetweenGroups(t *testing.T) {
	f := besideOthers(t, "between", 1)
	const node, both = "between-00", "example.com/both"
	f.label(node, labelHalf, "x")
	for _, group := range []struct{ name, half string }{{"a", "x"}, {"b", "y"}} {
		f.create(f.newGroup("between-"+group.name, ofHalf(group.half), withLabel(both, "yes"), withLabel("example.com/only-"+group.name, "yes"),
			withSetOnceTaint("example.com/once-"+group.name), withRelease(v1alpha1.ReleaseRemove)))
	}
	f.eventuallyNode(node, "has the taint of the first group", hasTaint("example.com/once-a", true))
	f.untaint(node)
	mark := f.AuditMark()
	for _, move := range []struct{ half, gets, loses string }{{"y", "b", "a"}, {"x", "a", "b"}} {
		f.label(node, labelHalf, move.half)
		f.eventuallyNode(node, "has the label of its group", hasLabel("example.com/only-"+move.gets, "yes"))
		got := f.Node(node)
		if err := hasLabel(both, "yes")(got); err != nil || len(got.Spec.Taints) > 0 {
			t.Errorf("in group %s: %v, taints %v", move.gets, err, harness.Taints(got))
		}
		if err := hasLabel("example.com/only-"+move.loses, "")(got); err != nil {
			t.Errorf("in group %s: %v", move.gets, err)
		}
		f.eventuallyCondition("between-"+move.gets, v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	}
	// One write for each move: what both declare was never missing.
	if names := f.written(mark); !slices.Equal(names, []string{node, node}) {
		t.Errorf("written are %v", names)
	}
}
