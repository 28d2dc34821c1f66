package members

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

// templated returns a Node of a MachineSet that declares so many taints with the effect NoExecute, in a group of all MachineSets.
func templated(group *Group, set string, taints int) Assignment {
	labels := map[string]string{"set": set}
	machineSet := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: set, UID: types.UID(set)}}
	machineSet.Spec.Selector.MatchLabels = labels
	for i := range taints {
		machineSet.Spec.Template.Spec.Taints = append(machineSet.Spec.Template.Spec.Taints,
			corev1.Taint{Key: fmt.Sprintf("%s-%02d", set, i), Value: "new", Effect: corev1.TaintEffectNoExecute})
	}
	return Assignment{
		Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-" + set}}, Group: group, Recorded: group,
		Machine:    &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: set, Labels: labels}},
		MachineSet: machineSet, read: metadataplan.DeclarationOf, guards: true,
	}
}

func newGuardingGroup() *Group {
	return newGroup("g", v1alpha1.NodeSelection{MachineSets: &v1alpha1.MachineSetSelection{Namespace: "machines"}})
}

// TestAssignment_Declaration: a group sets the taints of a MachineSet only where that declares them for the Node, and nothing is paused.
func TestAssignment_Declaration(t *testing.T) {
	pause := map[string]string{paused.Annotation: ""}
	for name, c := range map[string]struct {
		change     func(*Assignment)
		sets, kept int
	}{
		"guarded":                              {func(*Assignment) {}, 1, 0},
		"the MachineSet is paused":             {func(m *Assignment) { m.MachineSet.Annotations = pause }, 0, 2},
		"the Machine is paused":                {func(m *Assignment) { m.Machine.Annotations = pause }, 0, 2},
		"no space":                             {func(m *Assignment) { m.Hold() }, 0, 1},
		"the selector does not match":          {func(m *Assignment) { m.Machine.Labels = nil }, 0, 0},
		"the capability metadata is off":       {func(m *Assignment) { m.guards = false }, 0, 0},
		"it is not known whose the Machine is": {func(m *Assignment) { m.Shared = true }, 0, 0},
		"no MachineSet":                        {func(m *Assignment) { m.MachineSet = nil }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			m := templated(newGuardingGroup(), "a", 1)
			c.change(&m)
			declaration := m.Declaration()
			if got := len(declaration.Desired[ownership.Taint]); got != c.sets || len(declaration.Kept) != c.kept {
				t.Errorf("sets %d taints, keeps %v", got, declaration.Kept)
			}
		})
	}
}

// TestAssignment_Inherited: a group takes over what the metadata of the MachineSet has set, as its record and the Machine say.
func TestAssignment_Inherited(t *testing.T) {
	old := corev1.Taint{Key: "a-00", Value: "old", Effect: corev1.TaintEffectNoExecute}
	for name, c := range map[string]struct {
		change func(*Assignment)
		want   bool
	}{
		"set by metadata":        {func(*Assignment) {}, true},
		"no record":              {func(m *Assignment) { m.Node.Annotations = nil }, false},
		"a record without it":    {func(m *Assignment) { m.Node.Annotations[ownership.AnnotationRecord] = `{"taints":["b:NoExecute"]}` }, false},
		"an unreadable record":   {func(m *Assignment) { m.Node.Annotations[ownership.AnnotationRecord] = "{" }, false},
		"the Machine lacks it":   {func(m *Assignment) { m.Machine.Spec.Taints = nil }, false},
		"another writer's value": {func(m *Assignment) { m.Node.Spec.Taints[0].Value = "other" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := templated(newGuardingGroup(), "a", 1)
			m.Machine.Spec.Taints, m.Node.Spec.Taints = []corev1.Taint{old}, []corev1.Taint{old}
			m.Node.Annotations = map[string]string{ownership.AnnotationRecord: `{"taints":["a-00:NoExecute"]}`}
			c.change(&m)
			in := m.Input(ownership.Protected{}, time.Time{})
			if in.Inherited.Has("a-00:NoExecute") != c.want {
				t.Errorf("inherited: %v", in.Inherited)
			}
		})
	}
}

// TestPlanInput_Unfit: MachineSets wait if their taints do not fit in the status of the group. The group's own keys do not wait, nor do the keys that
// are still to be removed, nor MachineSets whose taints are set.
func TestPlanInput_Unfit(t *testing.T) {
	group := newGuardingGroup()
	// Each taint takes two keys: its own, and the key of the taint that announces it.
	group.Status.OwnedKeys = []string{"label/to-be-removed"}
	for i := range 60 {
		group.Status.OwnedKeys = append(group.Status.OwnedKeys, fmt.Sprintf("taint/z-%02d:NoExecute", i), fmt.Sprintf("taint/z-%02d:NoSchedule", i))
	}
	group.setNodeGroup(group.NodeGroup)
	nodes := []Assignment{templated(group, "a", 60), templated(group, "b", 60), templated(group, "c", 1), templated(group, "z", 60)}
	record := `{"labels":["to-be-removed"],"pool":"g"}`
	nodes[0].Node.Annotations = map[string]string{ownership.AnnotationGroupRecord: record}
	in := PlanInput(group, nodes, time.Time{}, func(m *Assignment) metadataplan.GroupDecision {
		return metadataplan.DecideGroup(m.Input(ownership.Protected{}, time.Time{}))
	})
	if unfit := Unfit(nodes); len(unfit) != 1 || !unfit.Has("b") {
		t.Errorf("unfit are %v", unfit)
	}
	group.Status.OwnedKeys = plan.Decide(in).OwnedKeys
	group.setNodeGroup(group.NodeGroup)
	for i := range nodes {
		if !group.OwnsAll(nodes[i].Declaration()) {
			t.Errorf("Node %s waits for keys that the status does not name", nodes[i].Node.Name)
		}
	}
	owned := metadataplan.ParseOwnedKeys(group.Status.OwnedKeys)
	if len(group.Status.OwnedKeys) > plan.MaxOwnedKeys || !owned.Of(ownership.Label).Has("to-be-removed") {
		t.Errorf("%d keys are owned: %v", len(group.Status.OwnedKeys), group.Status.OwnedKeys)
	}
	if got := Revisions(group, nodes); len(got) != 4 {
		t.Errorf("revisions %v, want those of the group and three MachineSets", got)
	}
	if in.Declaration.Revision == group.Declaration.Revision || len(in.Declaration.Revision) > 128 {
		t.Errorf("the revision is %s", in.Declaration.Revision)
	}
}
