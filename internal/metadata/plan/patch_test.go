package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// late decides, then has another writer change the Node, then sends the patch.
func late(w *world, write func()) error {
	patch, err := NodeChange{Set: new(w.decide().Node)}.Patch(w.node)
	if err != nil {
		return err
	}
	write()
	_, err = patchNode(w.node, patch)
	return err
}

// A concurrent write of another writer must fail the patch where it changes what the decision depends on.
func TestNodePatch_FailsOnConcurrentWrites(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(*world)
		write   func(*world)
		fails   bool
	}{
		{"another writer sets the new label", nil, func(w *world) { w.onNode("team", "green") }, true},
		{"another writer sets it to the same value", nil, func(w *world) { w.onNode("team", "blue") }, true},
		{"another writer sets the new annotation", nil, func(w *world) { w.note("example.com/note", "x") }, true},
		{"another writer adds a taint", nil, func(w *world) { w.node.Spec.Taints = list("foreign:NoSchedule old:NoSchedule") }, true},
		{"another writer removes a taint", nil, func(w *world) { w.node.Spec.Taints = nil }, true},
		{"another writer reorders the taints", func(w *world) { w.node.Spec.Taints = list("a:NoSchedule b:NoSchedule") },
			func(w *world) { w.node.Spec.Taints = list("b:NoSchedule a:NoSchedule") }, true},
		{"another operator writes its record", nil, func(w *world) { w.note(ownership.AnnotationRecord, "{}") }, true},
		{"the record was there and is edited", func(w *world) { w.pass(panics{}); w.labels("team=red") },
			func(w *world) { w.note(ownership.AnnotationRecord, `{"labels":["x"]}`) }, true},
		{"the record was there and is gone", func(w *world) { w.pass(panics{}); w.labels("team=red") },
			func(w *world) { delete(w.node.Annotations, ownership.AnnotationRecord) }, true},
		{"a label that is to go got another value", func(w *world) { w.pass(panics{}); w.labels("") }, func(w *world) { w.onNode("team", "green") }, true},
		{"a label that is to go is gone", func(w *world) { w.pass(panics{}); w.labels("") }, func(w *world) { delete(w.node.Labels, "team") }, true},
		{"the first label of all comes in between", func(w *world) { w.node.Labels = nil }, func(w *world) { w.onNode("x", "y") }, true},
		{"the first annotation of all comes in between", func(w *world) { w.node.Annotations = nil }, func(w *world) { w.note("x", "y") }, true},

		{"nothing happens", nil, func(*world) {}, false},
		{"a foreign label appears", nil, func(w *world) { w.onNode("x", "y") }, false},
		{"a foreign annotation changes", nil, func(w *world) { w.note("there", "changed") }, false},
		{"the kubelet writes its status", nil, func(w *world) {
			w.node.ResourceVersion = "99"
			w.node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady}}
		}, false},
		{"an owned label drifts further", func(w *world) { w.pass(panics{}); w.onNode("team", "x") }, func(w *world) { w.onNode("team", "y") }, false},
		{"taints change while none of ours does", func(w *world) { w.pass(panics{}); w.labels("team=red") },
			func(w *world) { w.node.Spec.Taints = append(list("first:NoSchedule"), w.node.Spec.Taints...) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld().labels("team=blue").annotations("example.com/note=hi").taints("t=1:NoSchedule")
			w.onNode("there", "1")
			w.note("there", "1")
			w.node.Spec.Taints = list("old:NoSchedule")
			if c.prepare != nil {
				c.prepare(w)
			}
			if err := late(w, func() { c.write(w) }); (err != nil) != c.fails {
				t.Errorf("error %v, want one: %v", err, c.fails)
			}
		})
	}
}

// panics lets a table prepare a world with a pass.
type panics struct{}

func (panics) Helper()                           {}
func (panics) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (panics) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (panics) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// What the API server answers is compared with what was to become of the Node.
func TestAsPlanned(t *testing.T) {
	for name, c := range map[string]struct {
		write func(*corev1.Node)
		want  bool
	}{
		"no change":                    {func(*corev1.Node) {}, true},
		"a heartbeat":                  {func(n *corev1.Node) { n.ResourceVersion = "99" }, true},
		"a foreign label":              {func(n *corev1.Node) { n.Labels["x"] = "y" }, false},
		"a foreign annotation":         {func(n *corev1.Node) { n.Annotations["x"] = "y" }, false},
		"a label of ours":              {func(n *corev1.Node) { delete(n.Labels, "team") }, false},
		"the record":                   {func(n *corev1.Node) { delete(n.Annotations, ownership.AnnotationRecord) }, false},
		"the list for MNMO":            {func(n *corev1.Node) { delete(n.Annotations, ownership.AnnotationCustomLabels) }, false},
		"a Node of the same name":      {func(n *corev1.Node) { n.UID = "another" }, false},
		"a Node that is being deleted": {func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)} }, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("team=blue").annotations("example.com/note=hi").taints("t=1:NoSchedule")
			w.note("there", "1")
			change := w.decide().Node
			patch, err := NodeChange{Set: &change}.Patch(w.node)
			if err != nil {
				t.Fatal(err)
			}
			after, err := patchNode(w.node, patch)
			if err != nil {
				t.Fatal(err)
			}
			c.write(after)
			if got := (NodeChange{Set: &change}).AsPlanned(w.node, &metav1.PartialObjectMetadata{ObjectMeta: after.ObjectMeta}); got != c.want {
				t.Errorf("foreseen: %v", got)
			}
		})
	}
}

func TestNodePatch_Text(t *testing.T) {
	w := newWorld().labels("example.com/a~b=1")
	w.set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	w.onNode("x", "y")
	w.note("x", "y")
	patch, err := NodeChange{Set: new(w.decide().Node)}.Patch(w.node)
	if err != nil {
		t.Fatal(err)
	}
	record := strings.ReplaceAll(w.decide().Node.Record, `"`, `\"`)
	want := `[{"op":"test","path":"/metadata/annotations/drover.dev~1owned-metadata","value":null},` +
		`{"op":"test","path":"/metadata/labels/example.com~1team","value":null},` +
		`{"op":"add","path":"/metadata/labels/example.com~1team","value":"blue"},` +
		`{"op":"add","path":"/metadata/annotations/drover.dev~1owned-metadata","value":"` + record + `"},` +
		`{"op":"add","path":"/metadata/annotations/managed.openshift.com~1customlabels","value":"example.com/team"}]`
	if string(patch) != want {
		t.Errorf("got  %s\nwant %s", patch, want)
	}
}

func TestMachinePatch_Text(t *testing.T) {
	w := newWorld().labels("team=blue").taints("t=1:NoSchedule")
	w.pass(t)
	w.machine.Spec.Taints = append(list("hand:NoExecute"), w.machine.Spec.Taints...)
	w.labels("tier=1").annotations("n=").taints("t=2:NoSchedule")
	change := w.decide().Machine
	patch, err := MachinePatch(w.machine, change)
	if err != nil {
		t.Fatal(err)
	}
	record, err := json.Marshal(change.Record)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"metadata":{"annotations":{"drover.dev/owned-metadata":` + string(record) + `},"resourceVersion":"2"},` +
		`"spec":{"metadata":{"annotations":{"n":""},"labels":{"team":null,"tier":"1"}},` +
		`"taints":[{"key":"hand","effect":"NoExecute"},{"key":"t","value":"2","effect":"NoSchedule"}]}}`
	if string(patch) != want {
		t.Errorf("got  %s\nwant %s", patch, want)
	}
}

// The taint list of a Machine is atomic and a merge patch cannot test it: another version has to fail the patch.
func TestMachinePatch_FailsForAnotherVersion(t *testing.T) {
	w := newWorld().labels("team=blue")
	patch, err := MachinePatch(w.machine, w.decide().Machine)
	if err != nil {
		t.Fatal(err)
	}
	w.machine.ResourceVersion = "2"
	if _, err := patchMachine(w.machine, patch); err == nil {
		t.Error("a patch for version 1 was taken by version 2")
	}
}

// Everything of a Node that is not Drover's comes through a patch as it was, also what this version of the types does not know.
func TestNodePatch_ChangesNothingElse(t *testing.T) {
	w := newWorld().labels("team=blue").annotations("example.com/note=hi").taints("t=1:NoSchedule")
	added := metav1.Now().Rfc3339Copy()
	w.node.Spec = corev1.NodeSpec{PodCIDR: "10.0.0.0/24", ProviderID: "aws:///x", Unschedulable: true, Taints: []corev1.Taint{
		{Key: "a", Effect: corev1.TaintEffectNoExecute, TimeAdded: &added}, {Key: "b", Value: "<&>", Effect: corev1.TaintEffectNoSchedule},
	}}
	w.node.Finalizers, w.node.Status.Phase = []string{"example.com/f"}, corev1.NodeRunning
	w.onNode("x", "")
	w.note("x", "\u2028<script>")
	w.pass(t)
	w.labels("").annotations("").taints("")
	before := w.node.DeepCopy()
	w.pass(t)
	delete(w.node.Annotations, ownership.AnnotationRecord)
	for key := range fields("team example.com/note " + ownership.AnnotationRecord + " " + ownership.AnnotationCustomLabels) {
		delete(before.Labels, key)
		delete(before.Annotations, key)
	}
	before.Spec.Taints = before.Spec.Taints[:2]
	got, want := mustJSON(t, w.node), mustJSON(t, before)
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func mustJSON(t reporter, object any) string {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Where Drover makes the machines it names them on their Nodes, whatever else there is to write, in the same patch.
func TestDecide_LinksNodeToMachine(t *testing.T) {
	for name, c := range map[string]struct {
		link   bool
		before string
		writes bool
	}{
		"not asked for":     {false, "", false},
		"absent":            {true, "", true},
		"another Machine":   {true, "machines/other", true},
		"there already":     {true, "openshift-machine-api/m", false},
		"another, not ours": {false, "machines/other", false},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld().labels("team=blue")
			w.pass(panics{})
			w.machine.Namespace, w.machine.Name = "openshift-machine-api", "m"
			if c.before != "" {
				w.note(AnnotationMachine, c.before)
			}
			in := w.input()
			in.Link = c.link
			decision := Decide(in)
			if decision.Node.Write != c.writes {
				t.Fatalf("writes %v: %+v", decision.Node.Write, decision.Node)
			}
			if !c.writes {
				return
			}
			patch, err := NodeChange{Set: &decision.Node}.Patch(w.node)
			if err != nil {
				t.Fatal(err)
			}
			record := w.node.Annotations[ownership.AnnotationRecord]
			after, err := patchNode(w.node, patch)
			if err != nil || after.Annotations[AnnotationMachine] != "openshift-machine-api/m" || after.Annotations[ownership.AnnotationRecord] != record ||
				after.Labels["team"] != "blue" {
				t.Errorf("%v: %v, %v", err, after.Annotations, after.Labels)
			}
			if !(NodeChange{Set: &decision.Node}).AsPlanned(w.node, &metav1.PartialObjectMetadata{ObjectMeta: after.ObjectMeta}) {
				t.Error("the answer is not what was foreseen")
			}
		})
	}
}
