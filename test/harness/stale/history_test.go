package stale

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

func TestHistory_KnownIsThePastAndOwnWrites(t *testing.T) {
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	object := func(text string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"text": text}}}
	}
	h := &History{own: map[uint64]bool{13: true}, removed: map[types.UID]bool{"c": true}}
	h.versions = map[schema.GroupVersionResource]map[types.UID][]version{nodes: {
		"a": {{object("created"), 10, at(1), false}, {object("by another"), 12, at(3), false}},
		"b": {{object("created"), 11, at(1), false}, {object("by another"), 12, at(3), false}, {object("own"), 13, at(4), false}},
		"c": {{object("created"), 11, at(1), false}, {object("created"), 14, at(5), true}},
		"d": {{object("created"), 11, at(1), false}, {object("created"), 15, at(5), true}},
		"e": {{object("later"), 16, at(6), false}},
	}}
	texts := map[string]int{}
	for _, o := range h.Known(func(schema.GroupVersionResource) time.Time { return at(2) }, at(9), nodes)[nodes] {
		text, _, err := unstructured.NestedString(o.Object, "spec", "text")
		if err != nil {
			t.Fatal(err)
		}
		texts[text]++
	}
	// a without the other's change, b with the own one, c is deleted by the operator, d by another later.
	if len(texts) != 2 || texts["created"] != 2 || texts["own"] != 1 {
		t.Errorf("known are %v", texts)
	}
	if changes := h.Changes(nodes.GroupResource(), at(2)); len(changes) != 6 || changes[0] != 12 || changes[5] != 16 {
		t.Errorf("the changes are %v", changes)
	}
	if first, changed := h.first(nodes.GroupResource(), at(2)); !changed || !first.Equal(at(3)) {
		t.Errorf("the first change is at %v", first)
	}
}
