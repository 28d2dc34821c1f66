package view

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func decided(set *plan.Declaration, machine *machinev1beta1.Machine, node *corev1.Node) *plan.Item {
	in := plan.Input{
		Declaration: set, Machine: machine, Node: node, Protected: ownership.DefaultProtected(),
		Now: time.Date(2026, 9, 1, 12, 0, 0, 0, time.UTC),
	}
	return &plan.Item{Declaration: set, Machine: machine, Node: node, Decision: plan.Decide(in)}
}

func declaring(labels map[string]string) *plan.Declaration {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 2}}
	set.Spec.Template.Spec.Labels = labels
	return plan.DeclarationOf(set)
}

func changesText(changes []Change) []string {
	var out []string
	for _, change := range changes {
		text := fmt.Sprintf("%s %s %s %s", change.Object, change.Operation, change.Kind, change.Key)
		for _, value := range []*string{change.From, change.To} {
			if value == nil {
				text += " -"
			} else {
				text += " " + *value
			}
		}
		out = append(out, text)
	}
	return out
}

func TestChangesOf(t *testing.T) {
	recorded := func(labels ...string) map[string]string {
		record := ownership.Record{Section: ownership.Section{Labels: ownership.NewKeys(labels...)}}
		return map[string]string{ownership.AnnotationRecord: record.Format()}
	}
	for _, c := range []struct {
		name            string
		set             *plan.Declaration
		machine         map[string]string
		machineRecord   map[string]string
		node            map[string]string
		nodeAnnotations map[string]string
		want            []string
	}{
		{"nothing declared", declaring(nil), nil, nil, nil, nil, nil},
		{"added on both", declaring(map[string]string{"a": "1"}), nil, nil, nil, nil,
			[]string{"Node add label a - 1", "Machine add label a - 1"}},
		{"there already, to be recorded", declaring(map[string]string{"a": "1"}), map[string]string{"a": "1"}, nil, map[string]string{"a": "1"}, nil,
			[]string{"Node record label a 1 1", "Machine record label a 1 1"}},
		{"changed on the Node only", declaring(map[string]string{"a": "1"}), map[string]string{"a": "1"}, recorded("a"), map[string]string{"a": "2"},
			recorded("a"), []string{"Node change label a 2 1"}},
		{"removed", declaring(nil), map[string]string{"a": "1"}, recorded("a"), map[string]string{"a": "1"}, recorded("a"),
			[]string{"Node remove label a 1 -", "Machine remove label a 1 -"}},
		{"gone already, to be forgotten", declaring(nil), nil, recorded("a"), nil, recorded("a"),
			[]string{"Node forget label a - -", "Machine forget label a - -"}},
		{"the other operator's record counts", declaring(nil), nil, nil, map[string]string{"a": "1"},
			map[string]string{ownership.AnnotationCustomLabels: "a"},
			[]string{"Node remove label a 1 -"}},
		{"only the record changes", declaring(map[string]string{"a": "ours", "b": "1"}), map[string]string{"b": "1"}, recorded("b"),
			map[string]string{"a": "theirs", "b": "1"}, recorded("b"),
			[]string{"Node record annotation drover.dev/owned-metadata - -"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: c.machineRecord}}
			machine.Spec.Labels = c.machine
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.node, Annotations: c.nodeAnnotations}}
			got := changesText(changesOf(decided(c.set, machine, node)))
			// Going back to one record adds the other operator's annotation; that is no line of its own.
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestDistinct(t *testing.T) {
	one, two := "1", "2"
	node := Change{Update, ObjectNode, ownership.Label, "a", &two, &one}
	for _, c := range []struct {
		name   string
		change Change
		kept   bool
	}{
		{"the same value added", Change{Add, ObjectMachine, ownership.Label, "a", nil, &one}, false},
		{"the same value recorded", Change{Record, ObjectMachine, ownership.Label, "a", &one, &one}, false},
		{"another value", Change{Add, ObjectMachine, ownership.Label, "a", nil, &two}, true},
		{"another kind", Change{Add, ObjectMachine, ownership.Annotation, "a", nil, &one}, true},
		{"removed there", Change{Remove, ObjectMachine, ownership.Label, "a", &one, nil}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := 1
			if c.kept {
				want = 2
			}
			if got := Distinct([]Change{node, c.change}); len(got) != want {
				t.Errorf("%d changes", len(got))
			}
		})
	}
}

// TestNewPlanList_ManyMachines: thousands of Machines with the same change are one group.
func TestNewPlanList_ManyMachines(t *testing.T) {
	set := declaring(map[string]string{"a": "1"})
	set.Key = types.NamespacedName{Namespace: "ns", Name: "workers"}
	survey := plan.Survey{Declarations: []*plan.Declaration{set}}
	for i := range 5000 {
		name := fmt.Sprintf("n-%d", i)
		machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		survey.Items = append(survey.Items, *decided(set, machine, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	list := NewPlanList(survey)
	if len(list.Items) != 1 || len(list.Items[0].Groups) != 1 || len(list.Items[0].Groups[0].Nodes) != 5000 {
		t.Errorf("%d MachineSets", len(list.Items))
	}
	if list.Summary.NodeWrites != 5000 || list.Summary.MachineWrites != 5000 || list.Summary.Pending != 5000 {
		t.Errorf("%+v", list.Summary)
	}
}
