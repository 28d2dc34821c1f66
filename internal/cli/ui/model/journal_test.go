package model

import (
	"fmt"
	"slices"
	"testing"
)

func cell(name string, state NodeState) Cell { return Cell{Name: name, State: state} }

func TestJournal_Since(t *testing.T) {
	j := NewJournal[Cell]()
	j.Replace([]Cell{cell("gone", InSync), cell("other", InSync), cell("same", InSync)}, 0)
	first, version := j.Since(0)
	if !first.Full || len(first.Set) != 3 || first.Set[0].Name != "gone" {
		t.Errorf("first: %+v", first)
	}
	j.Replace([]Cell{cell("new", InSync), cell("other", Blocked), cell("same", InSync)}, 0)
	changes, next := j.Since(version)
	set := []Cell{cell("new", InSync), cell("other", Blocked)}
	if changes.Full || !slices.Equal(changes.Set, set) || !slices.Equal(changes.Gone, []string{"gone"}) {
		t.Errorf("got %+v", changes)
	}
	if j.Update([]Cell{cell("same", InSync)}, []string{"never"}) {
		t.Error("no change is one")
	}
	if same, _ := j.Since(next); same.Any() {
		t.Errorf("no change is %+v", same)
	}
}

// TestJournal_Omitted: how many values are left out is a change of its own.
func TestJournal_Omitted(t *testing.T) {
	j := NewJournal[Cell]()
	kept := []Cell{cell("kept", InSync)}
	j.Replace(kept, 0)
	_, version := j.Since(0)
	if !j.Replace(kept, 2) || j.Replace(kept, 2) {
		t.Error("leaving values out is a change once")
	}
	changes, version := j.Since(version)
	if changes.Full || !changes.Any() || changes.Omitted != 2 {
		t.Errorf("got %+v", changes)
	}
	j.Update([]Cell{cell("other", InSync)}, nil)
	changes, version = j.Since(version)
	if changes.Omitted != 2 {
		t.Errorf("after a change: %+v", changes)
	}
	if same, _ := j.Since(version); same.Any() {
		t.Errorf("no change is %+v", same)
	}
}

// TestJournal_SlowReader: a reader that has missed more changes than are kept gets the whole list.
func TestJournal_SlowReader(t *testing.T) {
	j := NewJournal[Cell]()
	j.Update([]Cell{cell("n", InSync)}, nil)
	_, old := j.Since(0)
	for i := range 10 * minLog {
		j.Update([]Cell{{Name: "n", Message: fmt.Sprint(i)}}, nil)
	}
	if len(j.log) > 4*minLog {
		t.Errorf("%d changes are kept", len(j.log))
	}
	if changes, _ := j.Since(old); !changes.Full || len(changes.Set) != 1 {
		t.Errorf("got %+v", changes)
	}
	_, now := j.Since(0)
	j.Update(nil, []string{"n"})
	if changes, _ := j.Since(now); changes.Full || !slices.Equal(changes.Gone, []string{"n"}) {
		t.Errorf("got %+v", changes)
	}
}
