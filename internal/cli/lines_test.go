package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

func decided(pool *plan.Declaration, machine *machinev1beta1.Machine, node *corev1.Node) plan.Item {
	in := plan.Input{Declaration: pool, Machine: machine, Node: node, Protected: ownership.DefaultProtected(), Now: testTime}
	return plan.Item{Declaration: pool, Machine: machine, Node: node, Decision: plan.Decide(in)}
}

func poolOf(labels map[string]string) *plan.Declaration {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Name: "workers", Generation: 2}}
	set.Spec.Template.Spec.Labels = labels
	return plan.DeclarationOf(set)
}

func linesText(lines []Line) []string {
	var out []string
	for _, line := range lines {
		text := fmt.Sprintf("%s %s %s %s", line.Object, line.Operation, line.Kind, line.Key)
		for _, value := range []*string{line.From, line.To} {
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

func TestLines(t *testing.T) {
	recorded := func(labels ...string) map[string]string {
		record := ownership.Record{Section: ownership.Section{Labels: ownership.NewKeys(labels...)}}
		return map[string]string{ownership.AnnotationRecord: record.Format()}
	}
	for _, c := range []struct {
		name            string
		pool            *plan.Declaration
		machine         map[string]string
		machineRecord   map[string]string
		node            map[string]string
		nodeAnnotations map[string]string
		want            []string
	}{
		{"nothing declared", poolOf(nil), nil, nil, nil, nil, nil},
		{"added on both", poolOf(map[string]string{"a": "1"}), nil, nil, nil, nil,
			[]string{"Node add label a - 1", "Machine add label a - 1"}},
		{"there already, to be recorded", poolOf(map[string]string{"a": "1"}), map[string]string{"a": "1"}, nil, map[string]string{"a": "1"}, nil,
			[]string{"Node record label a 1 1", "Machine record label a 1 1"}},
		{"changed on the Node only", poolOf(map[string]string{"a": "1"}), map[string]string{"a": "1"}, recorded("a"), map[string]string{"a": "2"},
			recorded("a"), []string{"Node change label a 2 1"}},
		{"removed", poolOf(nil), map[string]string{"a": "1"}, recorded("a"), map[string]string{"a": "1"}, recorded("a"),
			[]string{"Node remove label a 1 -", "Machine remove label a 1 -"}},
		{"gone already, to be forgotten", poolOf(nil), nil, recorded("a"), nil, recorded("a"),
			[]string{"Node forget label a - -", "Machine forget label a - -"}},
		{"the other operator's record counts", poolOf(nil), nil, nil, map[string]string{"a": "1"},
			map[string]string{ownership.AnnotationCustomLabels: "a"},
			[]string{"Node remove label a 1 -"}},
		{"only the record changes", poolOf(map[string]string{"a": "ours", "b": "1"}), map[string]string{"b": "1"}, recorded("b"),
			map[string]string{"a": "theirs", "b": "1"}, recorded("b"),
			[]string{"Node record annotation drover.dev/owned-metadata - -"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Annotations: c.machineRecord}}
			machine.Spec.Labels = c.machine
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: c.node, Annotations: c.nodeAnnotations}}
			got := linesText(linesOf(decided(c.pool, machine, node)))
			// Going back to one record adds the other operator's annotation; that is no line of its own.
			if !slices.Equal(got, c.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWithoutEchoes(t *testing.T) {
	one, two := "1", "2"
	node := Line{Change, objectNode, ownership.Label, "a", &two, &one}
	for _, c := range []struct {
		name string
		line Line
		kept bool
	}{
		{"the same value added", Line{Add, objectMachine, ownership.Label, "a", nil, &one}, false},
		{"the same value recorded", Line{Record, objectMachine, ownership.Label, "a", &one, &one}, false},
		{"another value", Line{Add, objectMachine, ownership.Label, "a", nil, &two}, true},
		{"another kind", Line{Add, objectMachine, ownership.Annotation, "a", nil, &one}, true},
		{"removed there", Line{Remove, objectMachine, ownership.Label, "a", &one, nil}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := 1
			if c.kept {
				want = 2
			}
			if got := withoutEchoes([]Line{node, c.line}); len(got) != want {
				t.Errorf("%d lines", len(got))
			}
		})
	}
}

func TestShowEntry(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		kind       ownership.Kind
		key, value string
		wide       bool
		want       string
	}{
		{ownership.Label, "a", "b", false, "a=b"},
		{ownership.Label, "a", "", false, `a=""`},
		{ownership.Annotation, "a", "b c", false, `a="b c"`},
		{ownership.Annotation, "a", "\x1b[31m", false, `a="\x1b[31m"`},
		{ownership.Annotation, "a", `say "b"`, false, `a="say \"b\""`},
		{ownership.Annotation, "a", long, false, "a=" + long[:59] + "…"},
		{ownership.Annotation, "a", long, true, "a=" + long},
		{ownership.Taint, "a:NoSchedule", "b", false, "a=b:NoSchedule"},
		{ownership.Taint, "a:NoSchedule", "", false, "a:NoSchedule"},
	} {
		if got := showEntry(c.kind, c.key, c.value, c.wide); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}

// TestLargePlan shows that thousands of Machines with one change are one group.
func TestLargePlan(t *testing.T) {
	pool := poolOf(map[string]string{"a": "1"})
	pool.Key = types.NamespacedName{Namespace: "ns", Name: "workers"}
	survey := plan.Survey{Declarations: []*plan.Declaration{pool}}
	for i := range 5000 {
		name := fmt.Sprintf("n-%d", i)
		machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
		survey.Items = append(survey.Items, decided(pool, machine, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	list := planOf(survey)
	if len(list.Items) != 1 || len(list.Items[0].Groups) != 1 || len(list.Items[0].Groups[0].Nodes) != 5000 {
		t.Errorf("%d pools", len(list.Items))
	}
	if list.Summary.NodeWrites != 5000 || list.Summary.MachineWrites != 5000 || list.Summary.Pending != 5000 {
		t.Errorf("%+v", list.Summary)
	}
}
