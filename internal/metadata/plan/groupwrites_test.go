package plan

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// TestDecideGroup_ConflictPolicy: the policy of the group says what becomes of a label that another writer was first to set, and of the others.
func TestDecideGroup_ConflictPolicy(t *testing.T) {
	for policy, c := range map[v1alpha1.ConflictPolicy]struct {
		want  string
		state State
		owned string
	}{
		"":                     {"team=red tier=1", Conflicted, "tier"},
		v1alpha1.ConflictKeep:  {"team=red tier=1", Conflicted, "tier"},
		v1alpha1.ConflictAdopt: {"team=blue tier=1", Synced, "team tier"},
		v1alpha1.ConflictFail:  {"team=red", Conflicted, ""},
	} {
		t.Run("policy "+string(policy), func(t *testing.T) {
			group, node := newGroup("a", "team=blue", "tier=1"), nodeWith("team=red")
			group.Spec.Metadata.ConflictPolicy = policy
			decision := DecideGroup(groupInput(node, group, nil))
			after := applyToNode(node, &decision)
			if got := labelsOf(after); got != c.want || decision.Settled != c.state {
				t.Errorf("labels %q, want %q; state %s, want %s", got, c.want, decision.Settled, c.state)
			}
			if reported := reasons(decision.Problems) == "label team Conflict"; reported != (c.state == Conflicted) {
				t.Errorf("the problems are %v", decision.Problems)
			}
			record, err := ownership.ParseGroupRecord(after.Annotations[ownership.AnnotationGroupRecord])
			if owned := strings.Join(record.Labels.Sorted(), " "); err != nil || owned != c.owned {
				t.Errorf("owned are %q, want %q (%v)", owned, c.owned, err)
			}
		})
	}
}

// TestDecideGroup_SetOnceTaints: a Node gets these taints with the first write of its metadata. Who removes or changes one later is not overruled.
func TestDecideGroup_SetOnceTaints(t *testing.T) {
	group := newGroup("a", "team=blue")
	group.Spec.Metadata.SetOnceTaints = []v1alpha1.Taint{
		{Key: "starting", Value: "1", Effect: corev1.TaintEffectNoSchedule}, {Key: "checked", Value: "no", Effect: corev1.TaintEffectNoSchedule},
		{Key: "node.kubernetes.io/not-ready", Effect: corev1.TaintEffectNoSchedule},
	}
	node := nodeWith()
	node.Spec.Taints = list("checked=yes:NoSchedule")
	step := func(what, want string) {
		t.Helper()
		decision := DecideGroup(groupInput(node, group, group))
		node = applyToNode(node, &decision)
		if got := textOfTaints(node.Spec.Taints); got != want || node.Labels["team"] != "blue" {
			t.Errorf("%s: taints %q, want %q; labels %v", what, got, want, node.Labels)
		}
		if decision.Settled != RefusedState || reasons(decision.Problems) != "taint node.kubernetes.io/not-ready:NoSchedule Refused" {
			t.Errorf("%s: state %s, problems %v; a taint of the system is refused", what, decision.Settled, decision.Problems)
		}
	}
	step("the first write", "checked=yes:NoSchedule starting=1:NoSchedule")
	record, err := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	if err != nil || record.Taints.Len() != 0 || !record.Once.Equal(ownership.NewKeys("checked:NoSchedule", "starting:NoSchedule")) {
		t.Errorf("the record is %+v (%v): what is set once is not owned", record, err)
	}
	node.Spec.Taints = list("checked=yes:NoSchedule")
	step("a user removes one", "checked=yes:NoSchedule")
	delete(node.Labels, "team")
	step("a repair of a label", "checked=yes:NoSchedule")
	node.Spec.Taints = list("starting=2:NoSchedule")
	step("a user changes one", "starting=2:NoSchedule")
}

// TestDecideGroup_Paused: nothing is written to a Node that is paused, and nothing about it is decided.
func TestDecideGroup_Paused(t *testing.T) {
	node := member()
	node.Annotations[AnnotationPaused] = "true"
	decision := DecideGroup(groupInput(node, newGroup("a", "team=red"), newGroup("a", "team=blue")))
	if decision.Change.Write || decision.State != Held || decision.Settled != Held || decision.Reason != "the Node is paused" {
		t.Errorf("paused, the decision is %+v", decision)
	}
	delete(node.Annotations, AnnotationPaused)
	decision = DecideGroup(groupInput(node, newGroup("a", "team=red"), newGroup("a", "team=blue")))
	if after := applyToNode(node, &decision); after.Labels["team"] != "red" || decision.Reason != "" {
		t.Errorf("not paused any more, the labels are %v, the decision is %+v", after.Labels, decision)
	}
}

// TestDecideGroup_UnreadableRecord: from a record that cannot be read nothing is owned, so that nothing is removed; it is reported and written anew.
func TestDecideGroup_UnreadableRecord(t *testing.T) {
	node := member()
	node.Annotations[ownership.AnnotationGroupRecord] = `{"labels":["team"` // an edit
	if name, digest := GroupOf(node); name != "" || digest != "" {
		t.Errorf("the Node is said to be in group %q with digest %q", name, digest)
	}
	group := newGroup("a", "tier=1")
	group.Status.OwnedKeys = append(group.Status.OwnedKeys, "label/team")
	decision := DecideGroup(groupInput(node, group, group))
	if got := reasons(decision.Problems); got != "annotation "+ownership.AnnotationGroupRecord+" BadRecord" || decision.Settled != Synced {
		t.Errorf("state %s, problems %s", decision.Settled, got)
	}
	after := applyToNode(node, &decision)
	if name, _ := GroupOf(after); name != "a" || labelsOf(after) != "team=blue theirs=1 tier=1" {
		t.Errorf("group %q, labels %s; want what cannot be proven to be owned to stay", name, labelsOf(after))
	}
	if next := DecideGroup(groupInput(after, group, group)); next.Change.Write || len(next.Problems) != 0 {
		t.Errorf("the next decision is %+v", next)
	}
}

// TestGroupPatch_FailsOnConcurrentWrites: the patch of a Node writes what was decided, and fails when another writer has changed what that depends
// on.
func TestGroupPatch_FailsOnConcurrentWrites(t *testing.T) {
	group := withValue(withGroupTaint(newGroup("a", "team=blue"), "dedicated", corev1.TaintEffectNoSchedule), "x")
	for name, c := range map[string]struct {
		write func(*corev1.Node)
		fails bool
	}{
		"no change":                     {func(*corev1.Node) {}, false},
		"a heartbeat":                   {func(n *corev1.Node) { n.ResourceVersion = "99" }, false},
		"another label":                 {func(n *corev1.Node) { n.Labels["x"] = "y" }, false},
		"the same label":                {func(n *corev1.Node) { n.Labels["team"] = "red" }, true},
		"a taint":                       {func(n *corev1.Node) { n.Spec.Taints = list("foreign:NoSchedule") }, true},
		"the record of the group":       {func(n *corev1.Node) { n.Annotations[ownership.AnnotationGroupRecord] = "{}" }, true},
		"the record of the MachineSet":  {func(n *corev1.Node) { n.Annotations[ownership.AnnotationRecord] = "{}" }, false},
		"an annotation of another kind": {func(n *corev1.Node) { n.Annotations["x"] = "y" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeWith("theirs=1")
			node.Annotations["note"] = "1"
			decision := DecideGroup(groupInput(node, group, nil))
			patch, err := NodeChange{Group: &decision.Change}.Patch(node)
			if err != nil {
				t.Fatal(err)
			}
			written := node.DeepCopy()
			c.write(written)
			after, err := patchNode(written, patch)
			if (err != nil) != c.fails {
				t.Fatalf("error %v, want one: %t", err, c.fails)
			}
			if err == nil && (after.Labels["team"] != "blue" || textOfTaints(after.Spec.Taints) != "dedicated=x:NoSchedule") {
				t.Errorf("labels %v, taints %s", after.Labels, textOfTaints(after.Spec.Taints))
			}
		})
	}
}

// TestAsPlannedForGroup: an answer that differs from what was planned is the write of another one, and the Node is reconciled again.
func TestAsPlannedForGroup(t *testing.T) {
	joining, leaving := nodeWith("theirs=1"), member()
	recorded := newGroup("a", "team=blue")
	recorded.Spec.Metadata.OnRelease = v1alpha1.ReleaseRemove
	for name, c := range map[string]struct {
		node  *corev1.Node
		in    GroupInput
		write func(*corev1.Node)
		want  bool
	}{
		"joins":                       {joining, groupInput(joining, newGroup("a", "team=blue"), nil), func(*corev1.Node) {}, true},
		"joins, another label":        {joining, groupInput(joining, newGroup("a", "team=blue"), nil), func(n *corev1.Node) { n.Labels["x"] = "y" }, false},
		"joins, the record is edited": {joining, groupInput(joining, newGroup("a", "team=blue"), nil), editGroupRecord, false},
		"leaves":                      {leaving, groupInput(leaving, nil, recorded), func(*corev1.Node) {}, true},
		"leaves, a record is written": {leaving, groupInput(leaving, nil, recorded), editGroupRecord, false},
		"leaves, it is another Node":  {leaving, groupInput(leaving, nil, recorded), func(n *corev1.Node) { n.UID = "another" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			decision := DecideGroup(c.in)
			patch, err := NodeChange{Group: &decision.Change}.Patch(c.node)
			if err != nil {
				t.Fatal(err)
			}
			after, err := patchNode(c.node, patch)
			if err != nil {
				t.Fatal(err)
			}
			if want := applyToNode(c.node, &decision); labelsOf(after) != labelsOf(want) || mustJSON(t, after.Annotations) != mustJSON(t, want.Annotations) {
				t.Errorf("written are %s, %v, planned were %s, %v", labelsOf(after), after.Annotations, labelsOf(want), want.Annotations)
			}
			c.write(after)
			if got := (NodeChange{Group: &decision.Change}).AsPlanned(c.node, &metav1.PartialObjectMetadata{ObjectMeta: after.ObjectMeta}); got != c.want {
				t.Errorf("as planned: %t, want %t", got, c.want)
			}
		})
	}
}

func editGroupRecord(node *corev1.Node) {
	node.Annotations[ownership.AnnotationGroupRecord] = `{"labels":["x"]}`
}
