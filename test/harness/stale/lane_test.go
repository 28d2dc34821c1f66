package stale

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func TestLane_Wanted(t *testing.T) {
	for _, test := range []struct {
		only  string
		parts []string
		want  bool
	}{
		{"", []string{"machines", "nodes", "late"}, true},
		{"all", []string{"machines", "nodes", "late"}, true},
		{"machines", []string{"machines", "nodes", "late"}, true},
		{"machines", []string{"replicas", "nodes", "late"}, false},
		{"machines/nodes", []string{"machines", "", ""}, true},
		{"machines/nodes", []string{"machines", "pods", "late"}, false},
		{"machines//late", []string{"machines", "pods", "late"}, true},
		{"machines//late", []string{"machines", "pods", "write"}, false},
		{"machines,replicas/nodes", []string{"replicas", "nodes", "write"}, true},
		{"machines,replicas/nodes", []string{"replicas", "pods", "write"}, false},
	} {
		l := &Lane{only: test.only}
		if got := l.wanted(test.parts...); got != test.want {
			t.Errorf("%q wants %v: %t, want %t", test.only, test.parts, got, test.want)
		}
	}
}

func TestLane_ChooseTakesWhatChanges(t *testing.T) {
	changing, still := nodes, pods
	profile := &Profile{
		Kinds: []schema.GroupVersionResource{changing, still}, First: map[schema.GroupResource]int{changing.GroupResource(): 3},
		Writes: []Write{{RequestInfo: &apirequest.RequestInfo{Resource: "nodes"}, At: time.Now()}},
	}
	l := &Lane{only: "all"}
	cases := l.choose(Workload{Name: "w"}, profile)
	if want := len(Modes()) - 1; len(cases) != want || l.vacuous != want || l.cases != want {
		t.Errorf("%d cases, and %d of %d have nothing to hide; want %d each: Interrupt needs a user who takes back", len(cases), l.vacuous, l.cases, want)
	}
	l.only = "w/nodes/interrupt"
	if cases = l.choose(Workload{Name: "w", Interrupts: true}, profile); len(cases) != 1 || cases[0].mode != Interrupt {
		t.Errorf("alone: %v", cases)
	}
	first, second := &Lane{seed: 7}, &Lane{seed: 7, only: "w/nodes/late"}
	if a, b := first.random("w/nodes/late").Uint64(), second.random("w/nodes/late").Uint64(); a != b {
		t.Errorf("a case alone has another randomness: %s", fmt.Sprint(a, b))
	}
}

func TestView_StandbyIsTimedFromItsLead(t *testing.T) {
	v := &view{quiet: time.Second, bound: 5 * time.Second, standby: true}
	v.freeze()
	if v.due(time.Now().Add(time.Hour)) {
		t.Error("it is released before the replica leads")
	}
	v.begin()
	if !v.due(time.Now().Add(time.Second)) {
		t.Error("it is not released after the replica leads and is quiet")
	}
	v.release()
	if v.hidden(time.Now()).IsZero() || !v.hidden(time.Now().Add(grace)).IsZero() {
		t.Error("what was held back is known at once, or never")
	}
	v.freeze()
	if !v.frozen().IsZero() {
		t.Error("it freezes a second time")
	}
}
