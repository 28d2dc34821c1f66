package drain

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var marks = Additions{
	Taints: []corev1.Taint{{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule}},
	Labels: map[string]string{"exclude": "true"},
}

// nodeOf is a node with a label, an annotation and a taint of somebody else.
func nodeOf(edit ...func(*corev1.Node)) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}, Annotations: map[string]string{"note": "x"}},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "gpu", Value: "1", Effect: corev1.TaintEffectNoSchedule}}},
	}
	for _, change := range edit {
		change(node)
	}
	return node
}

// patched applies a JSON Patch as the API server does.
func patched(t *testing.T, node *corev1.Node, patch []byte) (*corev1.Node, error) {
	t.Helper()
	if patch == nil {
		return node.DeepCopy(), nil
	}
	text, err := json.Marshal(node)
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		t.Fatal(err)
	}
	text, err = decoded.Apply(text)
	if err != nil {
		return nil, err
	}
	after := &corev1.Node{}
	if err := json.Unmarshal(text, after); err != nil {
		t.Fatal(err)
	}
	return after, nil
}

func take(t *testing.T, node *corev1.Node, by string) (*corev1.Node, Change) {
	t.Helper()
	before, err := ReadCordonRecord(node)
	if err != nil {
		t.Fatal(err)
	}
	change, err := Cordon(node, before, Owner{ID: by}, marks, now)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patched(t, node, change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return after, change
}

func give(t *testing.T, node *corev1.Node) *corev1.Node {
	t.Helper()
	hold, err := ReadCordonRecord(node)
	if err != nil || hold == nil {
		t.Fatalf("%v, %v", hold, err)
	}
	change, err := Uncordon(node, hold, marks)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patched(t, node, change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func cordoned(n *corev1.Node) {
	n.Spec.Unschedulable = true
	n.Spec.Taints = append(n.Spec.Taints, cordonTaint)
}

// Whatever a node had before it has afterwards.
func TestTakeAndGiveBack(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"a plain node":                      nodeOf(),
		"one without anything":              nodeOf(func(n *corev1.Node) { n.Labels, n.Annotations, n.Spec.Taints = nil, nil, nil }),
		"one that is cordoned":              nodeOf(cordoned),
		"one whose cordon has no taint yet": nodeOf(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		"one with the taint already": nodeOf(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule})
		}),
		"one with the taint by another value": nodeOf(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "medik8s.io/drain", Value: "x", Effect: corev1.TaintEffectNoSchedule})
		}),
		"one with the label":                nodeOf(func(n *corev1.Node) { n.Labels["exclude"] = "true" }),
		"one with the label, another value": nodeOf(func(n *corev1.Node) { n.Labels["exclude"] = "no" }),
	} {
		t.Run(name, func(t *testing.T) {
			held, change := take(t, node, "x/1")
			hold, err := ReadCordonRecord(held)
			if err != nil || hold == nil || hold.By != "x/1" || !hold.Since.Equal(now) || !reflect.DeepEqual(hold, change.Record) {
				t.Fatalf("%+v, %v", hold, err)
			}
			if !held.Spec.Unschedulable || held.Labels["exclude"] != "true" {
				t.Errorf("%+v, %v", held.Spec, held.Labels)
			}
			for _, key := range []string{"medik8s.io/drain", cordonTaint.Key} {
				if !strings.Contains(taintsOf(held), key+":NoSchedule") {
					t.Errorf("taints %s", taintsOf(held))
				}
			}
			if again, change := take(t, held, "x/1"); change.Patch != nil || len(change.Parts) != 0 || !reflect.DeepEqual(again, held) {
				t.Errorf("the second time: %s", change.Patch)
			}
			back := give(t, held)
			// An empty map is as good as none.
			for _, m := range []*map[string]string{&back.Labels, &back.Annotations} {
				if len(*m) == 0 {
					*m = nil
				}
			}
			want := node.DeepCopy()
			if name == "one whose cordon has no taint yet" {
				// Kubernetes would have given it by now.
				want.Spec.Taints = append(want.Spec.Taints, cordonTaint)
			}
			if !reflect.DeepEqual(back.Spec, want.Spec) || !reflect.DeepEqual(back.ObjectMeta, want.ObjectMeta) {
				t.Errorf("given back as %+v, %+v\nwant %+v, %+v", back.Spec, back.ObjectMeta, want.Spec, want.ObjectMeta)
			}
		})
	}
}

func taintsOf(node *corev1.Node) string {
	var ids []string
	for _, taint := range node.Spec.Taints {
		ids = append(ids, taintID(taint))
	}
	return strings.Join(ids, " ")
}

// What somebody undoes in between is done again, and what was there before is not forgotten over it.
func TestRepair(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		undo func(*corev1.Node)
		want string
	}{
		"uncordoned": {nodeOf(), func(n *corev1.Node) { n.Spec.Unschedulable = false }, "cordoned"},
		"uncordoned, cordoned before": {nodeOf(cordoned), func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			n.Spec.Taints = n.Spec.Taints[:1]
		}, "cordoned, taint medik8s.io/drain:NoSchedule, taint node.kubernetes.io/unschedulable:NoSchedule"},
		"a taint taken away": {nodeOf(), func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:2] }, "taint medik8s.io/drain:NoSchedule"},
		"the label changed": {nodeOf(func(n *corev1.Node) { n.Labels["exclude"] = "no" }), func(n *corev1.Node) { n.Labels["exclude"] = "x" },
			"label exclude"},
	} {
		t.Run(name, func(t *testing.T) {
			held, _ := take(t, c.node, "x/1")
			c.undo(held)
			repaired, change := take(t, held, "x/1")
			if got := strings.Join(change.Parts, ", "); got != c.want {
				t.Errorf("repaired %q, want %q", got, c.want)
			}
			back := give(t, repaired)
			if back.Spec.Unschedulable != c.node.Spec.Unschedulable || back.Labels["exclude"] != c.node.Labels["exclude"] {
				t.Errorf("given back as %+v, %v", back.Spec, back.Labels)
			}
		})
	}
}

// A write of somebody else between our read and our patch fails the patch where it is about the same thing.
func TestTakeIsGuarded(t *testing.T) {
	for name, c := range map[string]struct {
		somebody func(*corev1.Node)
		fails    bool
	}{
		"nobody":           {func(*corev1.Node) {}, false},
		"another label":    {func(n *corev1.Node) { n.Labels["x"] = "y" }, false},
		"a heartbeat":      {func(n *corev1.Node) { n.ResourceVersion = "9" }, false},
		"a cordon":         {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"a taint":          {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"the same label":   {func(n *corev1.Node) { n.Labels["exclude"] = "no" }, true},
		"another's record": {func(n *corev1.Node) { n.Annotations[AnnotationCordon] = "{}" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf()
			change, err := Cordon(node, nil, Owner{ID: "x/1"}, marks, now)
			if err != nil {
				t.Fatal(err)
			}
			c.somebody(node)
			if _, err := patched(t, node, change.Patch); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestGiveLeavesWhatIsNotOurs(t *testing.T) {
	held, _ := take(t, nodeOf(), "x/1")
	held.Labels["exclude"] = "theirs"
	held.Labels["late"] = "y"
	held.Spec.Taints = append(held.Spec.Taints, corev1.Taint{Key: "late", Effect: corev1.TaintEffectNoExecute})
	back := give(t, held)
	if back.Labels["exclude"] != "theirs" || back.Labels["late"] != "y" || taintsOf(back) != "gpu:NoSchedule late:NoExecute" || back.Spec.Unschedulable {
		t.Errorf("%v, %s", back.Labels, taintsOf(back))
	}
}

func TestInherit(t *testing.T) {
	held, _ := take(t, nodeOf(), "x/1")
	before, err := ReadCordonRecord(held)
	if err != nil {
		t.Fatal(err)
	}
	change, err := Cordon(held, before, Owner{ID: "x/2"}, marks, now.Add(time.Hour))
	if err != nil || change.Patch == nil || change.Record.By != "x/2" || !change.Record.Since.Equal(now.Add(time.Hour)) || len(change.Parts) != 0 {
		t.Fatalf("%+v, %v", change, err)
	}
	after, err := patched(t, held, change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if back := give(t, after); back.Spec.Unschedulable || taintsOf(back) != "gpu:NoSchedule" {
		t.Errorf("%+v", back.Spec)
	}
}

func TestReadHold(t *testing.T) {
	if hold, err := ReadCordonRecord(nodeOf()); hold != nil || err != nil {
		t.Errorf("%v, %v", hold, err)
	}
	node := nodeOf(func(n *corev1.Node) { n.Annotations[AnnotationCordon] = "{" })
	if _, err := ReadCordonRecord(node); err == nil || !strings.Contains(err.Error(), "put it right") {
		t.Errorf("%v", err)
	}
}
