package drain

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
)

var additions = Additions{
	Taints: []corev1.Taint{{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule}},
	Labels: map[string]string{"exclude": "true"},
}

// newNode returns a node with a label, an annotation and a taint of another writer.
func newNode(edit ...func(*corev1.Node)) *corev1.Node {
	return builder.Node("n1", slices.Insert(edit, 0, func(node *corev1.Node) {
		node.Labels["zone"], node.Annotations["note"] = "a", "x"
		node.Spec.Taints = []corev1.Taint{{Key: "gpu", Value: "1", Effect: corev1.TaintEffectNoSchedule}}
	})...)
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

func cordon(t *testing.T, node *corev1.Node, owner string) (*corev1.Node, Change) {
	t.Helper()
	before, err := ReadCordonRecord(node)
	if err != nil {
		t.Fatal(err)
	}
	change, err := Cordon(node, before, Owner{ID: owner}, additions, now)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patched(t, node, change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	return after, change
}

func uncordon(t *testing.T, node *corev1.Node) *corev1.Node {
	t.Helper()
	record, err := ReadCordonRecord(node)
	if err != nil || record == nil {
		t.Fatalf("%v, %v", record, err)
	}
	change, err := Uncordon(node, record, additions)
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

// A node has the same before the cordon and after the uncordon.
func TestCordon_Uncordon(t *testing.T) {
	for name, node := range map[string]*corev1.Node{
		"plain":                               newNode(),
		"no labels, annotations and taints":   newNode(func(n *corev1.Node) { n.Labels, n.Annotations, n.Spec.Taints = nil, nil, nil }),
		"already cordoned":                    newNode(cordoned),
		"already cordoned, without the taint": newNode(func(n *corev1.Node) { n.Spec.Unschedulable = true }),
		"has the taint": newNode(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "medik8s.io/drain", Effect: corev1.TaintEffectNoSchedule})
		}),
		"has the taint with another value": newNode(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "medik8s.io/drain", Value: "x", Effect: corev1.TaintEffectNoSchedule})
		}),
		"has the label":                    newNode(func(n *corev1.Node) { n.Labels["exclude"] = "true" }),
		"has the label with another value": newNode(func(n *corev1.Node) { n.Labels["exclude"] = "no" }),
	} {
		t.Run(name, func(t *testing.T) {
			during, change := cordon(t, node, "x/1")
			record, err := ReadCordonRecord(during)
			if err != nil || record == nil || record.By != "x/1" || !record.Since.Equal(now) || !reflect.DeepEqual(record, change.Record) {
				t.Fatalf("%+v, %v", record, err)
			}
			if !during.Spec.Unschedulable || during.Labels["exclude"] != "true" {
				t.Errorf("%+v, %v", during.Spec, during.Labels)
			}
			for _, key := range []string{"medik8s.io/drain", cordonTaint.Key} {
				if !strings.Contains(taintsOf(during), key+":NoSchedule") {
					t.Errorf("taints %s", taintsOf(during))
				}
			}
			if again, change := cordon(t, during, "x/1"); change.Patch != nil || len(change.Parts) != 0 || !reflect.DeepEqual(again, during) {
				t.Errorf("the second time: %s", change.Patch)
			}
			after := uncordon(t, during)
			// An empty map is equal to none.
			for _, m := range []*map[string]string{&after.Labels, &after.Annotations} {
				if len(*m) == 0 {
					*m = nil
				}
			}
			want := node.DeepCopy()
			if name == "already cordoned, without the taint" {
				// Kubernetes would have added it by now.
				want.Spec.Taints = append(want.Spec.Taints, cordonTaint)
			}
			if !reflect.DeepEqual(after.Spec, want.Spec) || !reflect.DeepEqual(after.ObjectMeta, want.ObjectMeta) {
				t.Errorf("uncordoned as %+v, %+v\nwant %+v, %+v", after.Spec, after.ObjectMeta, want.Spec, want.ObjectMeta)
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

// What another writer has undone is done again, and the record of what was there before stays.
func TestCordon_ChangedByAnotherWriter(t *testing.T) {
	for name, c := range map[string]struct {
		node *corev1.Node
		undo func(*corev1.Node)
		want string
	}{
		"uncordoned": {newNode(), func(n *corev1.Node) { n.Spec.Unschedulable = false }, "cordoned"},
		"uncordoned, cordoned before": {newNode(cordoned), func(n *corev1.Node) {
			n.Spec.Unschedulable = false
			n.Spec.Taints = n.Spec.Taints[:1]
		}, "cordoned, taint medik8s.io/drain:NoSchedule, taint node.kubernetes.io/unschedulable:NoSchedule"},
		"taint removed": {newNode(), func(n *corev1.Node) { n.Spec.Taints = n.Spec.Taints[:2] }, "taint medik8s.io/drain:NoSchedule"},
		"label changed": {newNode(func(n *corev1.Node) { n.Labels["exclude"] = "no" }), func(n *corev1.Node) { n.Labels["exclude"] = "x" },
			"label exclude"},
	} {
		t.Run(name, func(t *testing.T) {
			during, _ := cordon(t, c.node, "x/1")
			c.undo(during)
			repaired, change := cordon(t, during, "x/1")
			if got := strings.Join(change.Parts, ", "); got != c.want {
				t.Errorf("repaired %q, want %q", got, c.want)
			}
			after := uncordon(t, repaired)
			if after.Spec.Unschedulable != c.node.Spec.Unschedulable || after.Labels["exclude"] != c.node.Labels["exclude"] {
				t.Errorf("uncordoned as %+v, %v", after.Spec, after.Labels)
			}
		})
	}
}

// The patch fails when another writer has changed the same field since the node was read.
func TestCordon_Guards(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		fails  bool
	}{
		"no change":               {func(*corev1.Node) {}, false},
		"another label":           {func(n *corev1.Node) { n.Labels["x"] = "y" }, false},
		"a heartbeat":             {func(n *corev1.Node) { n.ResourceVersion = "9" }, false},
		"a cordon":                {func(n *corev1.Node) { n.Spec.Unschedulable = true }, true},
		"a taint":                 {func(n *corev1.Node) { n.Spec.Taints = nil }, true},
		"the same label":          {func(n *corev1.Node) { n.Labels["exclude"] = "no" }, true},
		"record of another owner": {func(n *corev1.Node) { n.Annotations[AnnotationCordon] = "{}" }, true},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode()
			change, err := Cordon(node, nil, Owner{ID: "x/1"}, additions, now)
			if err != nil {
				t.Fatal(err)
			}
			c.change(node)
			if _, err := patched(t, node, change.Patch); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestUncordon_KeepsChangesOfOtherWriters(t *testing.T) {
	during, _ := cordon(t, newNode(), "x/1")
	during.Labels["exclude"] = "other"
	during.Labels["late"] = "y"
	during.Spec.Taints = append(during.Spec.Taints, corev1.Taint{Key: "late", Effect: corev1.TaintEffectNoExecute})
	after := uncordon(t, during)
	labels, taints := after.Labels, taintsOf(after)
	if labels["exclude"] != "other" || labels["late"] != "y" || taints != "gpu:NoSchedule late:NoExecute" || after.Spec.Unschedulable {
		t.Errorf("%v, %s", labels, taints)
	}
}

func TestCordon_TakesRecordOver(t *testing.T) {
	during, _ := cordon(t, newNode(), "x/1")
	before, err := ReadCordonRecord(during)
	if err != nil {
		t.Fatal(err)
	}
	change, err := Cordon(during, before, Owner{ID: "x/2"}, additions, now.Add(time.Hour))
	if err != nil || change.Patch == nil || change.Record.By != "x/2" || !change.Record.Since.Equal(now.Add(time.Hour)) || len(change.Parts) != 0 {
		t.Fatalf("%+v, %v", change, err)
	}
	after, err := patched(t, during, change.Patch)
	if err != nil {
		t.Fatal(err)
	}
	if after := uncordon(t, after); after.Spec.Unschedulable || taintsOf(after) != "gpu:NoSchedule" {
		t.Errorf("%+v", after.Spec)
	}
}

func TestReadCordonRecord(t *testing.T) {
	if record, err := ReadCordonRecord(newNode()); record != nil || err != nil {
		t.Errorf("%v, %v", record, err)
	}
	node := newNode(func(n *corev1.Node) { n.Annotations[AnnotationCordon] = "{" })
	if _, err := ReadCordonRecord(node); err == nil || !strings.Contains(err.Error(), "put it right") {
		t.Errorf("%v", err)
	}
}

// TestUncordon_NothingToRestore: without a record on the node, and without anything of it left, there is no patch to send.
func TestUncordon_NothingToRestore(t *testing.T) {
	value := "no"
	for name, record := range map[string]*CordonRecord{
		"an empty record": {By: "x/1"},
		"everything was undone already": {
			By: "x/1", CordonedByDrover: true, Taints: []string{"medik8s.io/drain:NoSchedule"}, Labels: map[string]*string{"exclude": &value},
		},
	} {
		change, err := Uncordon(newNode(), record, additions)
		if err != nil || change.Patch != nil || change.Record != nil || len(change.Parts) != 0 {
			t.Errorf("%s: patch %s, parts %v, %v", name, change.Patch, change.Parts, err)
		}
	}
}

// TestCordon_OutOfServiceTaint: Cordon records the taint of a node that is shut down, and Uncordon removes it. A taint that a user has set before
// stays.
func TestCordon_OutOfServiceTaint(t *testing.T) {
	outOfService := Additions{Taints: []corev1.Taint{OutOfServiceTaint}}
	for name, c := range map[string]struct {
		node     *corev1.Node
		recorded bool
	}{
		"set with the cordon":  {newNode(), true},
		"set by a user before": {newNode(func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, OutOfServiceTaint) }), false},
	} {
		t.Run(name, func(t *testing.T) {
			change, err := Cordon(c.node, nil, Owner{ID: "x/1"}, outOfService, now)
			if err != nil {
				t.Fatal(err)
			}
			if got := slices.Contains(change.Record.Taints, OutOfServiceTaintID()); got != c.recorded {
				t.Errorf("recorded %t: %v", got, change.Record.Taints)
			}
			during, err := patched(t, c.node, change.Patch)
			if err != nil || !strings.Contains(taintsOf(during), "node.kubernetes.io/out-of-service:NoExecute") {
				t.Fatalf("%v, %v", during, err)
			}
			undo, err := Uncordon(during, change.Record, outOfService)
			if err != nil {
				t.Fatal(err)
			}
			after, err := patched(t, during, undo.Patch)
			if err != nil || !reflect.DeepEqual(after.Spec, c.node.Spec) {
				t.Errorf("uncordoned as %+v, want %+v (%v)", after.Spec, c.node.Spec, err)
			}
		})
	}
}
