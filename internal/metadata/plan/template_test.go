package plan

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// guardedWorld is a world whose Node is in a NodeGroup.
type guardedWorld struct {
	*world
	group *v1alpha1.NodeGroup
	// member is whether the Node is in the group still.
	member bool
	// held and frozen are the fields of Template.
	held   string
	frozen bool
	// inherited is the field of GroupInput.
	inherited ownership.Keys
}

func newGuardedWorld(policy v1alpha1.NoExecutePolicy) *guardedWorld {
	group := newGroup("gpu")
	group.Spec.Nodes = v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}}
	group.Spec.Metadata = nil
	group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Policy: policy}}
	return &guardedWorld{world: newWorld(), group: group, member: true}
}

// machineDecides decides and writes what the MachineSet declares, until nothing is left, and returns the last decision.
func (g *guardedWorld) machineDecides(t *testing.T) Decision {
	t.Helper()
	for range 3 {
		in := g.input()
		if g.member {
			in.Group.Name, in.Group.Guarded = g.group.Name, GroupDeclarationOf(g.group).GuardedOf(in.Declaration)
		}
		decision := Decide(in)
		if !decision.Machine.Write && !decision.Node.Write {
			return decision
		}
		if err := g.apply(decision); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("a third reconciliation writes again")
	return Decision{}
}

// groupDecides decides and writes what the Node gets from its group, or is given back.
func (g *guardedWorld) groupDecides(guard Guard) GroupDecision {
	in := groupInput(g.node, nil, g.group)
	set := DeclarationOf(g.set)
	in.Machine, in.Inherited = Entries{ownership.Taint: set.Desired[ownership.Taint]}, g.inherited
	if g.member {
		declaration := GroupDeclarationOf(g.group)
		in.Machine = nil
		in.Declaration, in.Guard, in.Remove = declaration.WithTaintsOf(Template{Declaration: set, Held: g.held, Frozen: g.frozen}), guard, true
		g.group.Status.OwnedKeys = append(g.group.Status.OwnedKeys, OwnedKeys(in.Declaration.Section())...)
		in.Confirmed = ParseOwnedKeys(g.group.Status.OwnedKeys)
	}
	decision := DecideGroup(in)
	g.node = applyToNode(g.node, &decision)
	return decision
}

// TestTemplate_Guarded: a NoExecute taint of a MachineSet reaches the Node of a group that guards by way of the guard, and the Machine after the
// Node, so that no nodelink copies it earlier. Another value of it does likewise, and both go when it is not declared any more.
func TestTemplate_Guarded(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.labels("team=blue").taints("k=1:NoExecute other:NoSchedule")
	for _, value := range []string{"1", "2"} {
		g.taints("k=" + value + ":NoExecute other:NoSchedule")
		before := g.where()
		decision := g.machineDecides(t)
		if decision.State != Pending || !decision.AwaitsGuard {
			t.Errorf("before the guard the decision is %+v", decision)
		}
		if value == "1" {
			g.expect(t, "machine: team=blue | other:NoSchedule; node: team=blue | other:NoSchedule")
		} else {
			g.expect(t, before)
		}
		if decision := g.groupDecides(GuardAnnounced); len(decision.Guarded) != 1 {
			t.Errorf("the group guards %v", decision.Guarded)
		}
		g.machineDecides(t)
		g.groupDecides(GuardClear)
		if decision := g.machineDecides(t); decision.State != Synced || decision.AwaitsGuard {
			t.Errorf("after the guard the decision is %+v", decision)
		}
		all := "team=blue | other:NoSchedule k=" + value + ":NoExecute"
		g.expect(t, "machine: "+all+"; node: "+all)
		if decision := g.groupDecides(GuardHeld); decision.Change.Write {
			t.Errorf("the group writes again: %+v", decision)
		}
	}
	g.taints("")
	g.machineDecides(t)
	g.groupDecides(GuardHeld)
	g.expect(t, "machine: team=blue; node: team=blue")
}

// forReleases runs a test for each onRelease of a group that guards.
func forReleases(t *testing.T, test func(t *testing.T, g *guardedWorld)) {
	t.Helper()
	for _, release := range []v1alpha1.ReleasePolicy{v1alpha1.ReleaseKeep, v1alpha1.ReleaseRemove} {
		t.Run(string(release), func(t *testing.T) {
			g := newGuardedWorld(v1alpha1.NoExecuteGuard)
			g.group.Spec.Metadata = &v1alpha1.Metadata{OnRelease: release}
			test(t, g)
		})
	}
}

// TestTemplate_ChangesHands: a taint that is on the Node already stays there when a group begins to guard it, and when the Node leaves that; and goes
// when the MachineSet does not declare it any more.
func TestTemplate_ChangesHands(t *testing.T) {
	forReleases(t, func(t *testing.T, g *guardedWorld) {
		const there = "machine: k=1:NoExecute; node: k=1:NoExecute"
		g.member = false
		g.taints("k=1:NoExecute")
		g.machineDecides(t)
		g.expect(t, there)

		for _, member := range []bool{true, false} {
			g.member = member
			for range 2 {
				if decision := g.machineDecides(t); decision.State != Synced {
					t.Errorf("member %t: the decision is %+v", member, decision)
				}
				g.groupDecides(GuardHeld)
				g.expect(t, there)
			}
		}
		g.taints("")
		g.machineDecides(t)
		g.expect(t, "machine: ; node: ")
	})
}

// TestTemplate_SetByGuardChangesHands: a taint that the guard set stays when the Node leaves the group, and goes with the MachineSet's declaration.
func TestTemplate_SetByGuardChangesHands(t *testing.T) {
	forReleases(t, func(t *testing.T, g *guardedWorld) {
		g.taints("k=1:NoExecute")
		g.machineDecides(t)
		g.groupDecides(GuardClear)
		g.member = false
		for range 2 {
			g.groupDecides(GuardHeld)
			g.machineDecides(t)
			g.expect(t, "machine: k=1:NoExecute; node: k=1:NoExecute")
		}
		g.taints("")
		g.machineDecides(t)
		g.groupDecides(GuardHeld)
		g.expect(t, "machine: ; node: ")
	})
}

// TestTemplate_Policies: a group that refuses such taints holds a MachineSet's back as well. A group that allows them guards nothing. A group that
// kubelets can join guards nothing either, because a kubelet could keep a taint away by joining.
func TestTemplate_Policies(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteRefuse)
	g.taints("k=1:NoExecute")
	if decision := g.machineDecides(t); decision.State != Pending {
		t.Errorf("refused, the decision is %+v", decision)
	}
	decision := g.groupDecides(GuardClear)
	if decision.State != RefusedState || reasons(decision.Problems) != "taint k:NoExecute NoExecuteHeld" {
		t.Errorf("refused, the group's decision is %+v", decision)
	}
	g.expect(t, "machine: ; node: ")

	g.group.Spec.Rollout.NoExecute.Policy = v1alpha1.NoExecuteAllow
	g.machineDecides(t)
	g.expect(t, "machine: k=1:NoExecute; node: k=1:NoExecute")

	g = newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.group.Spec.Nodes = newGroup("any").Spec.Nodes
	g.taints("k=1:NoExecute")
	g.machineDecides(t)
	g.expect(t, "machine: k=1:NoExecute; node: k=1:NoExecute")
	if declaration := GroupDeclarationOf(g.group); declaration.WithTaintsOf(Template{Declaration: DeclarationOf(g.set)}) != declaration {
		t.Error("the group takes the taint over")
	}
}

// TestTemplate_HeldBack: what a group refuses, or holds back because the MachineSet is paused or the status has no space, stays on the Nodes that
// have it, with the value that it has.
func TestTemplate_HeldBack(t *testing.T) {
	for name, hold := range map[string]func(*guardedWorld){
		"refused":  func(g *guardedWorld) { g.group.Spec.Rollout.NoExecute.Policy = v1alpha1.NoExecuteRefuse },
		"paused":   func(g *guardedWorld) { g.held, g.frozen = "the MachineSet is paused", true },
		"no space": func(g *guardedWorld) { g.held = "no space" },
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuardedWorld(v1alpha1.NoExecuteGuard)
			g.taints("k=1:NoExecute")
			g.machineDecides(t)
			g.groupDecides(GuardClear)
			g.machineDecides(t)
			hold(g)
			if decision := g.groupDecides(GuardHeld); decision.Change.Write || decision.State != Synced {
				t.Errorf("nothing has changed, and the decision is %+v", decision)
			}
			g.taints("k=2:NoExecute")
			decision := g.groupDecides(GuardClear)
			if decision.Change.Write || len(decision.Guarded) > 0 || reasons(decision.Problems) != "taint k:NoExecute NoExecuteHeld" {
				t.Errorf("the decision is %+v", decision)
			}
			g.expect(t, "machine: k=1:NoExecute; node: k=1:NoExecute")
		})
	}
}

// TestTemplate_PausedAnnouncement: what announces a taint stays while the MachineSet is paused, and goes where the group refuses the taint.
func TestTemplate_PausedAnnouncement(t *testing.T) {
	for _, frozen := range []bool{true, false} {
		g := newGuardedWorld(v1alpha1.NoExecuteGuard)
		g.taints("k=1:NoExecute")
		g.groupDecides(GuardAnnounced)
		want := "machine: ; node: k=1:NoSchedule"
		g.expect(t, want)
		if g.held, g.frozen = "held back", frozen; !frozen {
			want = "machine: ; node: "
		}
		g.groupDecides(GuardHeld)
		g.expect(t, want)
	}
}

// TestTemplate_OwnTaintRefused: a taint of the group itself stays on the Node, too, when the group begins to refuse it.
func TestTemplate_OwnTaintRefused(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.group.Spec.Metadata = &v1alpha1.Metadata{OnRelease: v1alpha1.ReleaseRemove}
	withGroupTaint(g.group, "own", corev1.TaintEffectNoExecute)
	g.groupDecides(GuardClear)
	before := g.where()
	g.group.Spec.Rollout.NoExecute.Policy = v1alpha1.NoExecuteRefuse
	if decision := g.groupDecides(GuardHeld); decision.Change.Write {
		t.Errorf("the decision is %+v", decision)
	}
	g.expect(t, before)
	g.group.Spec.Metadata.Taints = nil
	g.groupDecides(GuardHeld)
	g.expect(t, "machine: ; node: ")
}

// TestTemplate_OtherValueChangesHands: the value of a taint that is on the Node already changes while a group begins to guard it.
func TestTemplate_OtherValueChangesHands(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.member = false
	g.taints("k=1:NoExecute")
	g.machineDecides(t)
	g.member = true
	g.taints("k=2:NoExecute")
	g.inherited = ownership.NewKeys("k:NoExecute")
	if decision := g.machineDecides(t); decision.State != Pending {
		t.Errorf("the decision is %+v", decision)
	}
	if decision := g.groupDecides(GuardClear); len(decision.Guarded) != 1 || len(decision.Problems) > 0 {
		t.Errorf("the group's decision is %+v", decision)
	}
	g.machineDecides(t)
	g.expect(t, "machine: k=2:NoExecute; node: k=2:NoExecute")
}

// TestTemplate_Revision: what a MachineSet adds gives the declaration another revision, and so does another MachineSet that adds the same; what is
// held back does not.
func TestTemplate_Revision(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	of := func(name, taints, held string) string {
		g.set.Name = name
		g.taints(taints)
		return GroupDeclarationOf(g.group).WithTaintsOf(Template{Declaration: DeclarationOf(g.set), Held: held}).Revision
	}
	own := GroupDeclarationOf(g.group).Revision
	seen := map[string]bool{own: true}
	for _, set := range [][2]string{{"a", "k=1:NoExecute"}, {"a", "k=2:NoExecute"}, {"b", "k=2:NoExecute"}} {
		revision := of(set[0], set[1], "")
		if seen[revision] || !strings.HasPrefix(revision, own+".") {
			t.Errorf("%s has the revision %s", set, revision)
		}
		seen[revision] = true
	}
	if revision := of("b", "k=2:NoExecute", "held back"); revision != own {
		t.Errorf("held back it has the revision %s", revision)
	}
}

// TestDecide_GuardedProtected: a taint of the system does not wait for a group, which would never set it.
func TestDecide_GuardedProtected(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.taints("node.kubernetes.io/unreachable:NoExecute")
	if decision := g.machineDecides(t); decision.State != RefusedState || decision.AwaitsGuard {
		t.Errorf("the decision is %+v", decision)
	}
}

// TestTemplate_Bounded: a MachineSet with any number of taints adds a bounded number to what a group owns.
func TestTemplate_Bounded(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	var taints strings.Builder
	for i := range 2 * maxTemplateTaints {
		fmt.Fprintf(&taints, "k%03d:NoExecute ", i)
	}
	g.taints(taints.String())
	with := GroupDeclarationOf(g.group).WithTaintsOf(Template{Declaration: DeclarationOf(g.set)})
	if got := len(with.Desired[ownership.Taint]); got != maxTemplateTaints || reasons(with.Problems) != "taint k064:NoExecute NoExecuteHeld" {
		t.Errorf("%d taints, problems %s", got, reasons(with.Problems))
	}
}

// TestTemplate_ValueOfGroup: if the group declares the taint with another value, the MachineSet's value counts, and the group says so.
func TestTemplate_ValueOfGroup(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.group.Spec.Metadata = &v1alpha1.Metadata{Taints: []v1alpha1.Taint{{Key: "k", Value: "2", Effect: corev1.TaintEffectNoExecute}}}
	g.taints("k=1:NoExecute")
	g.machineDecides(t)
	decision := g.groupDecides(GuardClear)
	if reasons(decision.Problems) != "taint k:NoExecute MachineSetDeclares" {
		t.Errorf("the problems are %v", decision.Problems)
	}
	g.machineDecides(t)
	g.expect(t, "machine: k=1:NoExecute; node: k=1:NoExecute")
}

// TestTemplate_AnnouncedOnce: a taint of a MachineSet whose announcement is set once is held back, since that would stay on the Node.
func TestTemplate_AnnouncedOnce(t *testing.T) {
	g := newGuardedWorld(v1alpha1.NoExecuteGuard)
	g.taints("k=1:NoExecute k=1:NoSchedule").annotate(AnnotationSetOnceTaints, "k:NoSchedule")
	decision := g.groupDecides(GuardAnnounced)
	if decision.State != RefusedState || len(decision.Problems) != 1 || !strings.Contains(decision.Problems[0].Message, "set once") {
		t.Errorf("the decision is %+v", decision)
	}
	if len(g.node.Spec.Taints) > 0 {
		t.Errorf("the Node gets %v", g.node.Spec.Taints)
	}
}
