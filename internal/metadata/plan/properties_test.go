package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/internal/ownership"
)

var (
	// There are few keys, so that the writers meet: a key of the system, a key that kubelets may not change, a key that the API server would refuse, and
	// others.
	anyKey    = rapid.SampledFrom([]string{"a", "b", "example.com/c", "kubernetes.io/os", "node-role.kubernetes.io/x", "-bad"})
	goodKey   = rapid.SampledFrom([]string{"a", "b", "example.com/c", "kubernetes.io/os", "node-role.kubernetes.io/x"})
	anyValue  = rapid.SampledFrom([]string{"", "1", "2"})
	anyMap    = rapid.MapOfN(anyKey, anyValue, 0, 3)
	goodMap   = rapid.MapOfN(goodKey, anyValue, 0, 3)
	anyRecord = rapid.SampledFrom([]string{
		"", "{", "{}", `{"labels":["a","kubernetes.io/os","node-role.kubernetes.io/x"],"taints":["a:NoSchedule"]}`,
		`{"machine":{"labels":["b","node-role.kubernetes.io/x"],"taints":["b:NoSchedule"]},"once":["b:NoSchedule"]}`,
		`{"released":{"label":{"a":{"value":"1","at":1700000000}},"taint":{"a:NoSchedule":{"at":1700000100}}},"digest":"x"}`,
	})
	// The API server takes any effect on a Machine and a MachineSet.
	poolTaints = rapid.SliceOfN(taintWith(corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute, "Sometimes"), 0, 4)
	liveTaints = rapid.SliceOfNDistinct(taintWith(corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute), 0, 4, ownership.TaintID)
)

func taintWith(effects ...corev1.TaintEffect) *rapid.Generator[corev1.Taint] {
	return rapid.Custom(func(t *rapid.T) corev1.Taint {
		return corev1.Taint{
			Key:    rapid.SampledFrom([]string{"a", "b", "node.kubernetes.io/x"}).Draw(t, "key"),
			Value:  anyValue.Draw(t, "value"),
			Effect: rapid.SampledFrom(effects).Draw(t, "effect"),
		}
	})
}

// crowd are all the writers that meet on one Machine and its Node.
func crowd(w *world) map[string]func(*rapid.T) {
	template := &w.set.Spec.Template.Spec
	return map[string]func(*rapid.T){
		"pass":        func(t *rapid.T) { checkedPass(t, w) },
		"labels":      func(t *rapid.T) { template.Labels = anyMap.Draw(t, "labels") },
		"annotations": func(t *rapid.T) { template.Annotations = anyMap.Draw(t, "annotations") },
		"taints":      func(t *rapid.T) { template.Taints = poolTaints.Draw(t, "taints") },
		"steering": func(t *rapid.T) {
			w.annotate(AnnotationConflictPolicy, rapid.SampledFrom([]string{"keep", "adopt", "fail", "?"}).Draw(t, "policy"))
			w.annotate(AnnotationSetOnceTaints, rapid.SampledFrom([]string{"", "a", "b:NoSchedule", "a,node.kubernetes.io/x"}).Draw(t, "once"))
			w.annotate(AnnotationPaused, rapid.SampledFrom([]string{"false", "false", "false", "true"}).Draw(t, "paused"))
		},
		"node labels":     func(t *rapid.T) { w.node.Labels = goodMap.Draw(t, "labels") },
		"node label":      func(t *rapid.T) { w.onNode(goodKey.Draw(t, "key"), anyValue.Draw(t, "value")) },
		"node annotation": func(t *rapid.T) { w.note(goodKey.Draw(t, "key"), anyValue.Draw(t, "value")) },
		"node taints":     func(t *rapid.T) { w.node.Spec.Taints = liveTaints.Draw(t, "taints") },
		"machine labels":  func(t *rapid.T) { w.machine.Spec.Labels = anyMap.Draw(t, "labels") },
		"machine annotations": func(t *rapid.T) {
			w.machine.Spec.Annotations = anyMap.Draw(t, "annotations")
		},
		"machine taints": func(t *rapid.T) { w.machine.Spec.Taints = poolTaints.Draw(t, "taints") },
		"nodelink":       func(*rapid.T) { w.nodelink() },
		"node record":    func(t *rapid.T) { w.note(ownership.AnnotationRecord, anyRecord.Draw(t, "record")) },
		"MNMO's list": func(t *rapid.T) {
			lists := []string{"", "a", "b,a", "kubernetes.io/os,zz", "node-role.kubernetes.io/x"}
			w.note(ownership.AnnotationCustomLabels, rapid.SampledFrom(lists).Draw(t, "list"))
		},
		"machine record": func(t *rapid.T) {
			metav1.SetMetaDataAnnotation(&w.machine.ObjectMeta, ownership.AnnotationRecord, anyRecord.Draw(t, "record"))
		},
		"time": func(t *rapid.T) {
			w.now = w.now.Add(time.Duration(rapid.IntRange(0, 400).Draw(t, "seconds")) * time.Second)
		},
		"registers anew": func(*rapid.T) { w.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} },
		"two Machines":   func(t *rapid.T) { w.shared = rapid.Bool().Draw(t, "shared") },
		"Cluster API": func(t *rapid.T) {
			authorities := []machinev1beta1.MachineAuthority{"", machinev1beta1.MachineAuthorityClusterAPI}
			w.machine.Status.AuthoritativeAPI = rapid.SampledFrom(authorities).Draw(t, "api")
		},
		"contention": func(t *rapid.T) {
			fought := rapid.OneOf(goodKey, rapid.Just(ownership.AnnotationRecord)).Draw(t, "key")
			on := rapid.SampledFrom([]Target{OnNode, OnMachine, ""}).Draw(t, "target")
			w.contended = func(target Target, _ ownership.Kind, key string) bool {
				return target == on && (key == fought || key == fought+":NoSchedule")
			}
		},
	}
}

// checkedPass makes a pass and checks what no pass may do.
func checkedPass(t *rapid.T, w *world) {
	node, machine, input := w.node.DeepCopy(), w.machine.DeepCopy(), w.input()
	declared := mustJSON(t, input.Declaration)
	w.pass(t)
	Decide(input)
	if now := mustJSON(t, input.Declaration); now != declared {
		t.Fatalf("the declaration, which all Machines share, was %s and is %s", declared, now)
	}
	checkRecords(t, node.Annotations[ownership.AnnotationRecord], machine.Annotations[ownership.AnnotationRecord])
	for _, kind := range ownership.Kinds {
		claimed := claimedKeys(input, kind)
		before, after := liveEntries(node, kind), liveEntries(w.node, kind)
		protected, confirmed := input.Protected.Of(kind), confirmedKeys(input, kind)
		for key := range ownership.KeysOf(before).Union(ownership.KeysOf(after)) {
			was, there := before[key]
			now, is := after[key]
			if (was != now || there != is) && (protected(key) || !claimed.Has(key)) && !isOwnAnnotation(kind, key) {
				t.Fatalf("%s %q of the Node is foreign and went from %q (%v) to %q (%v)", kind, key, was, there, now, is)
			}
			if there && !is && ownership.NodeRestricted(kind, key) && !confirmed.Has(key) {
				t.Fatalf("%s %q is removed from the Node on the word of the Node alone", kind, key)
			}
		}
	}
	claimed := claimedKeys(input, ownership.Taint)
	foreign := func(taints []corev1.Taint) []corev1.Taint {
		return slices.DeleteFunc(slices.Clone(taints), func(taint corev1.Taint) bool { return claimed.Has(ownership.TaintID(taint)) })
	}
	if !slices.Equal(foreign(node.Spec.Taints), foreign(w.node.Spec.Taints)) {
		t.Fatalf("foreign taints moved: %v became %v", node.Spec.Taints, w.node.Spec.Taints)
	}
	if api := machine.Status.AuthoritativeAPI; api != "" && mustJSON(t, machine.Spec) != mustJSON(t, w.machine.Spec) {
		t.Fatalf("the spec of a Machine that belongs to the %s was written", api)
	}
}

// checkRecords fails if what is kept of the text of a record is not that record any more: all Nodes with the same text share it.
func checkRecords(t *rapid.T, texts ...string) {
	for _, text := range texts {
		var want ownership.Record
		if json.Unmarshal([]byte(text), &want) != nil {
			continue
		}
		if got, err := ownership.ParseRecord(text); err != nil || mustJSON(t, got) != mustJSON(t, want) {
			t.Fatalf("the record %s is kept as %s: %v", text, mustJSON(t, got), err)
		}
	}
}

// confirmedKeys are the keys that the Machine's record names.
func confirmedKeys(in Input, kind ownership.Kind) ownership.Keys {
	record, err := ownership.ParseRecord(in.Machine.Annotations[ownership.AnnotationRecord])
	if err != nil {
		return nil
	}
	return record.Owned(kind)
}

// claimedKeys are all keys that Drover has any reason to touch: declared, on the Machine, or recorded.
func claimedKeys(in Input, kind ownership.Kind) ownership.Keys {
	claimed := ownership.KeysOf(in.Declaration.Desired[kind])
	record, err := ownership.ParseRecord(in.Node.Annotations[ownership.AnnotationRecord])
	if err == nil {
		claimed = claimed.Union(record.Owned(kind)).Union(ownership.KeysOf(record.Released[kind]))
	}
	switch kind {
	case ownership.Label:
		return claimed.Union(ownership.KeysOf(in.Machine.Spec.Labels)).
			Union(ownership.ParseCustomLabels(in.Node.Annotations[ownership.AnnotationCustomLabels]))
	case ownership.Annotation:
		return claimed.Union(ownership.KeysOf(in.Machine.Spec.Annotations))
	}
	return claimed.Union(ownership.KeysOf(ownership.TaintEntries(in.Machine.Spec.Taints)))
}

func liveEntries(node *corev1.Node, kind ownership.Kind) map[string]string {
	switch kind {
	case ownership.Label:
		return node.Labels
	case ownership.Annotation:
		return node.Annotations
	}
	return ownership.TaintEntries(node.Spec.Taints)
}

func isOwnAnnotation(kind ownership.Kind, key string) bool {
	return kind == ownership.Annotation && (key == ownership.AnnotationRecord || key == ownership.AnnotationCustomLabels)
}

func TestDecide_SettlesAndKeepsForeignEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		actions := crowd(w)
		// Actions are drawn evenly: one pass to about three edits.
		for _, name := range []string{"pass 2", "pass 3", "pass 4", "pass 5", "pass 6"} {
			actions[name] = actions["pass"]
		}
		t.Repeat(actions)
		checkedPass(t, w)
	})
}

// A write that fails half way, or an operator that is killed between its patches, must not change where it all ends.
func TestDecide_InterruptedReconciliation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		actions := crowd(w)
		delete(actions, "pass")
		// A Machine with a Node that no record knows; then some of the others, in any order: the last that writes an object decides what stands
		// there.
		for _, name := range []string{"machine labels", "machine annotations", "machine taints", "nodelink", "labels", "annotations", "taints"} {
			actions[name](t)
		}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(slices.Sorted(maps.Keys(actions))), 0, 6, rapid.ID).Draw(t, "actions") {
			actions[name](t)
		}
		half := *w
		half.machine, half.node = w.machine.DeepCopy(), w.node.DeepCopy()
		if _, err := half.applySome(half.decide(), rapid.IntRange(0, 2).Draw(t, "patches")); err != nil {
			t.Fatal(err)
		}
		half.pass(t)
		w.pass(t)
		if half.where() != w.where() {
			t.Fatalf("undisturbed %s\ninterrupted %s", w.where(), half.where())
		}
	})
}
