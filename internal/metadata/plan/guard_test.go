package plan

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

const (
	guardedID   = "dedicated:NoExecute"
	announcedID = "dedicated:NoSchedule"
)

// withValue gives the declared taints a value, and confirms what the group may have set.
func withValue(group *v1alpha1.NodeGroup, value string) *v1alpha1.NodeGroup {
	for i := range group.Spec.Metadata.Taints {
		group.Spec.Metadata.Taints[i].Value = value
	}
	group.Status.OwnedKeys = OwnedKeys(GroupDeclarationOf(group).Section())
	return group
}

// guardStep applies what a guard decides, and returns the Node after it.
func guardStep(t *testing.T, node *corev1.Node, group *v1alpha1.NodeGroup, guard Guard, wantTaints ...string) (*corev1.Node, GroupDecision) {
	t.Helper()
	in := groupInput(node, group, group)
	in.Guard, in.Held = guard, "there are too many Pods"
	decision := DecideGroup(in)
	after := applyToNode(node, &decision)
	var taints []string
	for id, value := range ownership.TaintEntries(after.Spec.Taints) {
		taints = append(taints, id+"="+value)
	}
	slices.Sort(taints)
	if !slices.Equal(taints, wantTaints) {
		t.Errorf("guard %q: the Node has %v, want %v", guard, taints, wantTaints)
	}
	return after, decision
}

// TestDecideGroup_Guard: a guarded taint is announced with the effect NoSchedule and then set; another value of it stays until the new one is set,
// and nothing of this counts as a repair.
func TestDecideGroup_Guard(t *testing.T) {
	group := withValue(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "blue")
	node := &corev1.Node{}
	node.Name = "n"

	_, held := guardStep(t, node, group, GuardHeld)
	if held.State != RefusedState || len(held.Problems) != 1 || held.Problems[0].Reason != NoExecuteHeld {
		t.Errorf("held, the decision is %+v", held)
	}
	node, decision := guardStep(t, node, group, GuardAnnounced, announcedID+"=blue")
	if !slices.Equal(decision.Guarded, []string{guardedID}) || !IsAnnounced(node, decision.Guarded) {
		t.Errorf("announced, the decision is %+v", decision)
	}
	_, decision = guardStep(t, node, group, GuardAnnounced, announcedID+"=blue")
	if decision.Change.Write {
		t.Errorf("announced already, the decision is %+v", decision)
	}
	node, decision = guardStep(t, node, group, GuardClear, guardedID+"=blue")
	if decision.Drift {
		t.Errorf("set, the decision is %+v", decision)
	}
	if _, decision = guardStep(t, node, group, GuardHeld, guardedID+"=blue"); decision.Change.Write || len(decision.Guarded) > 0 {
		t.Errorf("set already, the decision is %+v", decision)
	}

	group = withValue(group, "red")
	node, _ = guardStep(t, node, group, GuardAnnounced, guardedID+"=blue", announcedID+"=red")
	node, _ = guardStep(t, node, group, GuardClear, guardedID+"=red")

	node.Spec.Taints = nil // an edit
	node, decision = guardStep(t, node, group, GuardAnnounced, announcedID+"=red")
	if decision.Drift {
		t.Error("the announcement counts as a repair")
	}

	group.Spec.Metadata.Taints = nil
	guardStep(t, node, group, GuardHeld)
}

// TestDecideGroup_GuardAwaitsTurn: the roll-out has not reached a Node that has the labels of its group, and waits for its turn to get a taint; what
// the Node lacks is no edit of another writer.
func TestDecideGroup_GuardAwaitsTurn(t *testing.T) {
	group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute)
	group.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"tier": "batch"}
	group = withValue(group, "blue")
	node, decision := guardStep(t, &corev1.Node{}, group, GuardHeld)
	if node.Labels["tier"] != "batch" || decision.Drift {
		t.Errorf("held, the Node has the labels %v, and the decision is %+v", node.Labels, decision)
	}
	if _, again := guardStep(t, node, group, GuardHeld); again.Change.Write || !again.Reached {
		t.Errorf("held again, the decision is %+v", again)
	}
	node, decision = guardStep(t, node, group, GuardClear, guardedID+"=blue")
	if decision.Drift || decision.Reached || !decision.Change.Write {
		t.Errorf("its turn has come, the decision is %+v", decision)
	}
	if _, decision = guardStep(t, node, group, GuardClear, guardedID+"=blue"); decision.Change.Write || !decision.Reached {
		t.Errorf("set already, the decision is %+v", decision)
	}
}

// TestDecideGroup_KeptAnnouncement: an announcement that a paused MachineSet keeps is temporary still, after another write, too.
func TestDecideGroup_KeptAnnouncement(t *testing.T) {
	group := withValue(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "blue")
	node, _ := guardStep(t, &corev1.Node{}, group, GuardAnnounced, announcedID+"=blue")
	in := groupInput(node, group, group)
	in.Declaration.Desired[ownership.Label], in.Declaration.Desired[ownership.Taint] = map[string]string{"tier": "batch"}, nil
	in.Declaration.Guarded, in.Declaration.Kept = nil, map[string]Kept{announcedID: {IsAnnouncement: true}}
	decision := DecideGroup(in)
	node = applyToNode(node, &decision)
	if node.Labels["tier"] != "batch" || len(node.Spec.Taints) != 1 {
		t.Errorf("the Node has the labels %v and the taints %v", node.Labels, node.Spec.Taints)
	}
	if kept := Announcements(node, group); !kept.Has(announcedID) {
		t.Errorf("the announcements are %v", kept)
	}
}

// TestDeclarationOf_ManyTaints: the author of a MachineSet cannot have Drover remember thousands of taints for each Node.
func TestDeclarationOf_ManyTaints(t *testing.T) {
	set := &machinev1beta1.MachineSet{}
	for i := range 1000 {
		set.Spec.Template.Spec.Taints = append(set.Spec.Template.Spec.Taints, corev1.Taint{Key: fmt.Sprintf("t%d", i), Effect: corev1.TaintEffectNoExecute})
	}
	d := DeclarationOf(set)
	if got := len(d.Desired[ownership.Taint]); got != maxTaints {
		t.Errorf("%d taints count", got)
	}
	if len(d.Problems) != 1 || d.Problems[0].Reason != Invalid || !strings.Contains(d.Problems[0].Message, "and the 871 after it are left out") {
		t.Errorf("the problems are %+v", d.Problems)
	}
}

// TestDecideGroup_GuardNotNeeded: what keeps Pods away already announces a taint, and a taint of another writer is not guarded.
func TestDecideGroup_GuardNotNeeded(t *testing.T) {
	group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute)
	group = withValue(withGroupTaint(group, "dedicated", corev1.TaintEffectNoSchedule), "x")
	node := &corev1.Node{}
	guardStep(t, node, group, GuardAnnounced, announcedID+"=x")
	guardStep(t, node, group, GuardClear, guardedID+"=x", announcedID+"=x")

	group = withValue(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "x")
	foreign := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Value: "theirs", Effect: corev1.TaintEffectNoSchedule}}}}
	guardStep(t, foreign, group, GuardAnnounced, announcedID+"=theirs")
	guardStep(t, foreign, group, GuardClear, guardedID+"=x", announcedID+"=theirs")

	foreign.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute
	if _, decision := guardStep(t, foreign, group, GuardAnnounced, guardedID+"=theirs"); len(decision.Guarded) > 0 || decision.State != Conflicted {
		t.Errorf("for a taint of another writer the decision is %+v", decision)
	}
}

// TestDecideGroup_AnnouncementIsNotKept: a Node that leaves its group while a taint is announced does not keep the announcement, whatever onRelease
// says, and keeps what the group declares; nor does a kubelet that writes the record have it removed.
func TestDecideGroup_AnnouncementIsNotKept(t *testing.T) {
	for name, c := range map[string]struct {
		change func(group *v1alpha1.NodeGroup)
		guard  Guard
		want   []string
	}{
		"announced":                                {func(*v1alpha1.NodeGroup) {}, GuardAnnounced, nil},
		"announced, and not declared any more":     {func(group *v1alpha1.NodeGroup) { group.Spec.Metadata.Taints = nil }, GuardAnnounced, nil},
		"announced, and nothing declared any more": {func(group *v1alpha1.NodeGroup) { group.Spec.Metadata = nil }, GuardAnnounced, nil},
		"announced, and declared by now": {
			func(group *v1alpha1.NodeGroup) { withGroupTaint(group, "dedicated", corev1.TaintEffectNoSchedule) }, GuardAnnounced, []string{announcedID},
		},
		"set": {func(*v1alpha1.NodeGroup) {}, GuardClear, []string{guardedID}},
	} {
		t.Run(name, func(t *testing.T) {
			group := withValue(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "blue")
			node := &corev1.Node{}
			in := groupInput(node, group, group)
			in.Guard = c.guard
			decision := DecideGroup(in)
			node = applyToNode(node, &decision)
			owned := group.Status.OwnedKeys
			c.change(group)
			group.DeletionTimestamp, group.Status.OwnedKeys = &metav1.Time{Time: groupTime}, owned
			in = groupInput(node, nil, group)
			in.Announcements = Announcements(node, group)
			decision = DecideGroup(in)
			node = applyToNode(node, &decision)
			if got := ownership.KeysOf(ownership.TaintEntries(node.Spec.Taints)).Sorted(); !slices.Equal(got, c.want) {
				t.Errorf("the Node keeps %v, want %v", got, c.want)
			}
			if record := node.Annotations[ownership.AnnotationGroupRecord]; record != "" {
				t.Errorf("the record is %s", record)
			}
		})
	}
}

// TestDeclaration_HasNoExecute: only a taint with this effect needs to be guarded.
func TestDeclaration_HasNoExecute(t *testing.T) {
	for taints, want := range map[string]bool{
		"": false, "a:NoSchedule b:PreferNoSchedule": false, "a:NoExecute": true, "a:NoSchedule a:NoExecute": true,
	} {
		if got := DeclarationOf(newWorld().taints(taints).set).HasNoExecute(); got != want {
			t.Errorf("taints %q: %t", taints, got)
		}
	}
}

// TestDeclaration_GuardedTaints: the guarded taints are the taints that a Pod has to tolerate in order to stay, with their declared values.
func TestDeclaration_GuardedTaints(t *testing.T) {
	group := withValue(withGroupTaint(withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute), "gpu", corev1.TaintEffectNoExecute), "x")
	declaration := GroupDeclarationOf(group)
	if got := textOfTaints(declaration.GuardedTaints([]string{guardedID})); got != "dedicated=x:NoExecute" {
		t.Errorf("one of them is %s", got)
	}
	if got := textOfTaints(declaration.GuardedTaints(declaration.Guarded.Sorted())); got != "dedicated=x:NoExecute gpu=x:NoExecute" {
		t.Errorf("all of them are %s", got)
	}
}

// TestIsAnnounced: evictions begin only when every guarded taint is announced, or further Pods would come to the Node.
func TestIsAnnounced(t *testing.T) {
	for taints, want := range map[string]bool{
		"": false, "dedicated=x:NoSchedule": false, "dedicated=x:NoSchedule gpu:NoSchedule": true, "dedicated=x:NoExecute gpu:NoExecute": false,
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Taints: list(taints)}}
		if got := IsAnnounced(node, []string{guardedID, "gpu:NoExecute"}); got != want {
			t.Errorf("a Node with the taints %q: %t", taints, got)
		}
	}
	if !IsAnnounced(&corev1.Node{}, nil) {
		t.Error("a Node without guarded taints waits for an announcement")
	}
}

// TestAnnouncements_ForgedRecord: a kubelet can write the record. What it writes makes no announcement of a taint that the group declares, of one
// with another effect, or of any while no taint is announced.
func TestAnnouncements_ForgedRecord(t *testing.T) {
	group := withGroupTaint(newGroup("a"), "declared", corev1.TaintEffectNoSchedule)
	for record, want := range map[string][]string{
		`{"taints":["x:NoSchedule"],"digest":"1~"}`:                                        {"x:NoSchedule"},
		`{"taints":["x:NoSchedule","x:NoExecute","declared:NoSchedule"],"digest":"1~"}`:    {"x:NoSchedule"},
		`{"taints":["x:NoSchedule"],"digest":"1"}`:                                         nil,
		`{"taints":["x:NoSchedule"],"digest":"1","pool":"a~"}`:                             nil,
		`{"taints":["x:NoSchedule"],"digest":"1~"`:                                         nil,
		`{"taints":["declared:NoSchedule","y:PreferNoSchedule"],"digest":"1~","pool":"a"}`: nil,
	} {
		node := nodeWith()
		node.Annotations[ownership.AnnotationGroupRecord] = record
		if got := Announcements(node, group).Sorted(); !slices.Equal(got, want) {
			t.Errorf("record %s: %v, want %v", record, got, want)
		}
	}
}

// TestDecideGroup_AnnouncedOnce: a taint whose announcement is set once is held back, since that would stay on the Node.
func TestDecideGroup_AnnouncedOnce(t *testing.T) {
	group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute)
	group.Spec.Metadata.SetOnceTaints = []v1alpha1.Taint{{Key: "dedicated", Value: "once", Effect: corev1.TaintEffectNoSchedule}}
	group = withValue(group, "blue")
	node := &corev1.Node{}
	node.Name = "n"
	node, _ = guardStep(t, node, group, GuardClear, announcedID+"=once")
	node.Spec.Taints = nil // what is set once has done its work
	for _, guard := range []Guard{GuardHeld, GuardAnnounced, GuardClear} {
		_, decision := guardStep(t, node, group, guard)
		if decision.State != RefusedState || len(decision.Problems) != 1 || !strings.Contains(decision.Problems[0].Message, "set once") {
			t.Errorf("guard %q: the decision is %+v", guard, decision)
		}
	}
}

// TestDecideGroup_BothEffectsOnce: a NoExecute taint that is set once is held back, also where its announcement is set once, too.
func TestDecideGroup_BothEffectsOnce(t *testing.T) {
	group := newGroup("a")
	for _, effect := range []corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute} {
		group.Spec.Metadata.SetOnceTaints = append(group.Spec.Metadata.SetOnceTaints, v1alpha1.Taint{Key: "dedicated", Value: "once", Effect: effect})
	}
	group = withValue(group, "")
	node := &corev1.Node{}
	node.Name = "n"
	_, decision := guardStep(t, node, group, GuardClear, announcedID+"=once")
	if decision.State != Pending || len(decision.Problems) != 1 || decision.Problems[0].Reason != NoExecuteHeld {
		t.Errorf("the decision is %+v", decision)
	}
}

// TestDecideGroup_GuardIsNoRepair: no step of the guard is taken for what another writer has changed, on a Node that has its labels already; what
// another writer changes meanwhile is.
func TestDecideGroup_GuardIsNoRepair(t *testing.T) {
	group := withGroupTaint(newGroup("a"), "dedicated", corev1.TaintEffectNoExecute)
	group.Spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"tier": "batch"}
	group = withValue(group, "blue")
	edit := func(node *corev1.Node) { node.Labels["tier"] = "mine" }
	node := &corev1.Node{}
	for i, step := range []struct {
		guard Guard
		edit  func(*corev1.Node)
		taint string
		want  string
	}{
		{guard: GuardHeld},
		{guard: GuardAnnounced, taint: announcedID + "=blue"},
		{guard: GuardHeld},
		{guard: GuardAnnounced, taint: announcedID + "=blue", edit: edit, want: "label tier"},
		{guard: GuardAnnounced, taint: announcedID + "=blue", edit: func(node *corev1.Node) { node.Spec.Taints = nil }, want: "taint " + announcedID},
		{guard: GuardHeld, edit: edit, want: "label tier"},
		{guard: GuardClear, taint: guardedID + "=blue"},
	} {
		if step.edit != nil {
			step.edit(node)
		}
		var decision GroupDecision
		node, decision = guardStep(t, node, group, step.guard, slices.DeleteFunc([]string{step.taint}, func(id string) bool { return id == "" })...)
		if got := decision.Change.RepairText(); got != step.want && i > 0 {
			t.Errorf("step %d with guard %q repairs %q, want %q", i, step.guard, got, step.want)
		}
	}
}
