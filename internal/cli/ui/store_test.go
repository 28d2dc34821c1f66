package ui

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/undecodable"
)

func newTestStore(most int) (s *store, changes *int) {
	changes = new(int)
	return newStore(most, trim, func(all []change) { *changes += len(all) }), changes
}

// TestStore_Full: a store does not grow beyond its size, whatever is created, and says that objects are missing.
func TestStore_Full(t *testing.T) {
	s, _ := newTestStore(10 << 10)
	large := func(i int) *corev1.Node {
		node := builder.Node(fmt.Sprintf("n-%d", i))
		node.Annotations = map[string]string{"text": strings.Repeat("x", 1<<10)}
		return node
	}
	for i := range 100 {
		if err := s.Add(large(i)); err != nil {
			t.Fatal(err)
		}
	}
	count, full := s.count()
	if s.size > 10<<10 || count > 10 || count == 0 || !full {
		t.Errorf("%d bytes in %d objects, full: %t", s.size, count, full)
	}
	// An object that grows is left out, too.
	grown := large(0)
	grown.Annotations["text"] = strings.Repeat("x", 20<<10)
	if err := s.Update(grown); err != nil {
		t.Fatal(err)
	}
	if after, _ := s.count(); after != count-1 || s.size > 10<<10 {
		t.Errorf("%d objects after one has grown, %d before", after, count)
	}
	// A list that fits ends that.
	if err := s.Replace([]any{large(1)}, ""); err != nil {
		t.Fatal(err)
	}
	if count, full := s.count(); count != 1 || full {
		t.Errorf("%d objects, full: %t", count, full)
	}
}

// TestStore_Heartbeat: a heartbeat of a kubelet is no change.
func TestStore_Heartbeat(t *testing.T) {
	s, changes := newTestStore(1 << 20)
	node := func(version string, ready corev1.ConditionStatus) *corev1.Node {
		node := builder.Node("n", builder.WithReady(ready))
		node.ResourceVersion = version
		node.Status.Images = []corev1.ContainerImage{{Names: []string{version}}}
		return node
	}
	for _, step := range []struct {
		object  *corev1.Node
		changes int
	}{
		{node("1", corev1.ConditionTrue), 1}, {node("2", corev1.ConditionTrue), 1}, {node("3", corev1.ConditionFalse), 2},
	} {
		if err := s.Update(step.object); err != nil || *changes != step.changes {
			t.Errorf("%d changes, want %d (%v)", *changes, step.changes, err)
		}
	}
	if err := s.Delete(builder.Node("n")); err != nil || s.size != 0 || *changes != 3 {
		t.Errorf("%d bytes and %d changes after the deletion (%v)", s.size, *changes, err)
	}
}

// TestStore_Undecodable: an object that cannot be decoded is named as long as it cannot be.
func TestStore_Undecodable(t *testing.T) {
	s, _ := newTestStore(1 << 20)
	set := func(replicas string) *machinev1beta1.MachineSet {
		out := &machinev1beta1.MachineSet{}
		if err := undecodable.Decode([]byte(`{"metadata":{"name":"s","namespace":"n"},"spec":{"replicas":`+replicas+`}}`), out); err != nil {
			t.Fatal(err)
		}
		return out
	}
	for _, step := range []struct {
		do  func() error
		bad bool
	}{
		{func() error { return s.Add(set("1e9999")) }, true},
		{func() error { return s.Update(set("2")) }, false},
		{func() error { return s.Replace([]any{set("1e9999")}, "") }, true},
		{func() error { return s.Replace(nil, "") }, false},
		{func() error { return s.Add(set("1e9999")) }, true},
		{func() error { return s.Delete(set("2")) }, false},
	} {
		if err := step.do(); err != nil || (s.problem() != nil) != step.bad {
			t.Errorf("%v, %v, want one: %t", err, s.problem(), step.bad)
		}
	}
}
