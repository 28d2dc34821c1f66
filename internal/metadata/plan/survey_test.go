package plan

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

func viewMachine(name, pool, node string) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: name, Labels: map[string]string{"pool": pool}}}
	if node != "" {
		machine.Status.NodeRef = &corev1.ObjectReference{Name: node}
	}
	return machine
}

func viewNodes(names ...string) map[string]*corev1.Node {
	nodes := map[string]*corev1.Node{}
	for _, name := range names {
		nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	return nodes
}

// viewText writes a survey as one line per Machine: name, pool, Node, state.
func viewText(survey Survey) string {
	var lines []string
	for _, item := range survey.Items {
		pool, node := "-", "-"
		if item.Declaration != nil {
			pool = item.Declaration.Key.Name
		}
		if item.Node != nil {
			node = item.Node.Name
		}
		lines = append(lines, fmt.Sprintf("%s %s %s %s", item.Machine.Name, pool, node, item.Decision.State))
	}
	return strings.Join(lines, "\n")
}

type surveyCase struct {
	name    string
	objects Objects
	want    string
	notes   []string
}

func surveyCases() []surveyCase {
	a := memberSet("a", "1", map[string]string{"pool": "a"})
	a.Spec.Template.Spec.Labels = map[string]string{"tier": "gold"}
	also := memberSet("also-a", "2", map[string]string{"pool": "a"})
	broken := memberSet("broken", "3", nil)
	broken.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "pool", Operator: "Resembles"}}
	leaving := viewMachine("leaving", "a", "n1")
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}

	return []surveyCase{
		{name: "an empty cluster"},
		{
			name: "sorted, with and without Node and pool",
			objects: Objects{
				Sets: []*machinev1beta1.MachineSet{a}, Nodes: viewNodes("n1", "n3"),
				Machines: []*machinev1beta1.Machine{viewMachine("m3", "none", "n3"), viewMachine("m2", "a", "gone"), viewMachine("m1", "a", "n1")},
			},
			want: "m1 a n1 pending\nm2 a - pending\nm3 - n3 synced",
		},
		{
			name: "two Machines claim a Node",
			objects: Objects{
				Sets: []*machinev1beta1.MachineSet{a}, Nodes: viewNodes("n1"),
				Machines: []*machinev1beta1.Machine{viewMachine("m1", "a", "n1"), viewMachine("m2", "a", "n1")},
			},
			want: "m1 a n1 held\nm2 a n1 held",
		},
		{
			name: "the claim of a Machine that is being deleted does not count",
			objects: Objects{
				Sets: []*machinev1beta1.MachineSet{a}, Nodes: viewNodes("n1"),
				Machines: []*machinev1beta1.Machine{viewMachine("m1", "a", "n1"), leaving},
			},
			want: "m1 a n1 pending",
		},
		{
			name: "several pools match",
			objects: Objects{
				Sets: []*machinev1beta1.MachineSet{also, a}, Nodes: viewNodes("n1"),
				Machines: []*machinev1beta1.Machine{viewMachine("m1", "a", "n1")},
			},
			want:  "m1 - n1 synced",
			notes: []string{"Machine machines/m1 has no controller and the selectors of several MachineSets match it (a, also-a)"},
		},
		{
			name: "a selector that cannot be parsed stops that pool only",
			objects: Objects{
				Sets: []*machinev1beta1.MachineSet{broken, a}, Nodes: viewNodes("n1"),
				Machines: []*machinev1beta1.Machine{viewMachine("m1", "a", "n1")},
			},
			want:  "m1 a n1 pending",
			notes: []string{"MachineSet machines/broken: spec.selector"},
		},
	}
}

func TestSurveyOf(t *testing.T) {
	for _, c := range surveyCases() {
		t.Run(c.name, func(t *testing.T) {
			survey := SurveyOf(c.objects, ownership.DefaultProtected(), time.Unix(0, 0))
			if got := viewText(survey); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if len(survey.Declarations) != len(c.objects.Sets) || len(survey.Notes) != len(c.notes) {
				t.Fatalf("%d pools, notes %q", len(survey.Declarations), survey.Notes)
			}
			for i, note := range c.notes {
				if !strings.Contains(survey.Notes[i], note) {
					t.Errorf("note %q", survey.Notes[i])
				}
			}
		})
	}
}

// TestSurveyOf_Guarded: a taint that a NodeGroup guards is not among what the Machine or its Node gets.
func TestSurveyOf_Guarded(t *testing.T) {
	w := newWorld().labels("team=blue").taints("k=1:NoExecute")
	group := newGuardedWorld(v1alpha1.NoExecuteGuard).group
	objects := Objects{
		Sets: []*machinev1beta1.MachineSet{w.set}, Machines: []*machinev1beta1.Machine{w.machine}, Nodes: map[string]*corev1.Node{"n1": w.node},
		GroupLayerOf: func(*corev1.Node) GroupLayer {
			return GroupLayer{Name: group.Name, Guarded: GroupDeclarationOf(group).GuardedOf(DeclarationOf(w.set))}
		},
	}
	item := SurveyOf(objects, ownership.DefaultProtected(), w.now).Items[0]
	if set := item.Decision.Node.Results[ownership.Taint].Set; len(set) > 0 || reasons(item.Decision.Problems) != "taint k:NoExecute NoExecuteHeld" {
		t.Errorf("sets %v, problems %v", set, item.Decision.Problems)
	}
	objects.GroupsUnknown = errors.New("forbidden")
	if notes := SurveyOf(objects, ownership.DefaultProtected(), w.now).Notes; len(notes) != 1 || !strings.Contains(notes[0], "forbidden") {
		t.Errorf("the notes are %q", notes)
	}
}

func TestPausedReason(t *testing.T) {
	paused := map[string]string{AnnotationPaused: "true", AnnotationPausedReason: "a move"}
	for _, c := range []struct {
		name string
		edit func(*machinev1beta1.MachineSet, *machinev1beta1.Machine, *corev1.Node)
		// paused is whether anything is, want the reason.
		paused bool
		want   string
	}{
		{"nothing", func(*machinev1beta1.MachineSet, *machinev1beta1.Machine, *corev1.Node) {}, false, ""},
		{"the pool", func(s *machinev1beta1.MachineSet, _ *machinev1beta1.Machine, _ *corev1.Node) { s.Annotations = paused }, true, "a move"},
		{"the Machine", func(_ *machinev1beta1.MachineSet, m *machinev1beta1.Machine, _ *corev1.Node) { m.Annotations = paused }, true, "a move"},
		{"the Node", func(_ *machinev1beta1.MachineSet, _ *machinev1beta1.Machine, n *corev1.Node) { n.Annotations = paused }, true, "a move"},
		{"without a reason", func(_ *machinev1beta1.MachineSet, m *machinev1beta1.Machine, _ *corev1.Node) {
			m.Annotations = map[string]string{AnnotationPaused: ""}
		}, true, ""},
		{"a reason without a pause", func(_ *machinev1beta1.MachineSet, m *machinev1beta1.Machine, _ *corev1.Node) {
			m.Annotations = map[string]string{AnnotationPausedReason: "old"}
		}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			set, machine, nodes := memberSet("a", "1", map[string]string{"pool": "a"}), viewMachine("m", "a", "n"), viewNodes("n")
			c.edit(set, machine, nodes["n"])
			objects := Objects{Sets: []*machinev1beta1.MachineSet{set}, Machines: []*machinev1beta1.Machine{machine}, Nodes: nodes}
			survey := SurveyOf(objects, ownership.Protected{}, time.Unix(0, 0))
			item := survey.Items[0]
			if item.Paused() != c.paused || item.PausedReason != c.want {
				t.Errorf("paused %t, reason %q", item.Paused(), item.PausedReason)
			}
			if c.paused && item.Decision.State != Held {
				t.Errorf("state %s", item.Decision.State)
			}
		})
	}
	withoutNode := viewMachine("m", "a", "")
	withoutNode.Annotations = paused
	survey := SurveyOf(Objects{Machines: []*machinev1beta1.Machine{withoutNode}}, ownership.Protected{}, time.Unix(0, 0))
	if got := survey.Items[0].PausedReason; got != "a move" {
		t.Errorf("without a Node: %q", got)
	}
}

// TestItem_Writes: a Machine has something to be written until it and its Node are as declared, and nothing while it is paused.
func TestItem_Writes(t *testing.T) {
	w := newWorld().labels("team=blue")
	writes := func() bool {
		objects := Objects{
			Sets: []*machinev1beta1.MachineSet{w.set}, Machines: []*machinev1beta1.Machine{w.machine}, Nodes: map[string]*corev1.Node{"n1": w.node},
		}
		return SurveyOf(objects, w.protected, w.now).Items[0].Writes()
	}
	if !writes() {
		t.Error("nothing is written to a Machine and a Node without the declared label")
	}
	w.annotate(AnnotationPaused, "true")
	if writes() {
		t.Error("something is written while the MachineSet is paused")
	}
	delete(w.set.Annotations, AnnotationPaused)
	w.pass(t)
	if writes() {
		t.Error("something is written although everything is as declared")
	}
	w.onNode("team", "red")
	if !writes() {
		t.Error("nothing is written to a Node whose label has been changed")
	}
}
