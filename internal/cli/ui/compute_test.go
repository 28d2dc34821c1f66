package ui

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/ownership"
)

// newFilledCluster returns a cluster that has read an invented fleet.
func newFilledCluster(t testing.TB, count int) *cluster {
	t.Helper()
	u := newCluster(nil, []string{""}, ownership.DefaultProtected(), time.Now)
	for _, object := range newFleet(t, count, time.Now()) {
		for _, source := range u.sources {
			if reflect.TypeOf(source.object) == reflect.TypeOf(object) {
				if err := source.store.Add(object); err != nil {
					t.Fatal(err)
				}
				source.availability = Live
			}
		}
	}
	return u
}

// TestFleet_EveryState: the invented fleet has a node of each state, and the names of states and urgencies are those that the page knows.
func TestFleet_EveryState(t *testing.T) {
	u := newFilledCluster(t, 2000)
	state := model.Compute(t.Context(), u.objects(), u.protected, u.now())
	nodes, urgencies := map[model.NodeState]int{}, map[model.Urgency]int{}
	for _, cell := range state.Fleet.Items {
		nodes[cell.State]++
	}
	for _, wait := range state.Waits.Items {
		urgencies[wait.Urgency]++
		if wait.Action == "" || wait.Runbook == "" {
			t.Errorf("no advice for %s %s", wait.Kind, wait.Reason)
		}
	}
	for _, state := range []model.NodeState{
		model.Blocked, model.Unhealthy, model.InMaintenance, model.Upgrading, model.Disrupted, model.RollingOut, model.Paused, model.InSync,
		model.Unmanaged,
	} {
		if nodes[state] == 0 {
			t.Errorf("no node is %s: %v", state, nodes)
		}
	}
	for _, urgency := range []model.Urgency{model.Stopped, model.Waiting, model.Suspended} {
		if urgencies[urgency] == 0 {
			t.Errorf("no wait is %s: %v", urgency, urgencies)
		}
	}
}

// BenchmarkCompute computes what the page shows of a fleet, and the bytes of the documents.
func BenchmarkCompute(b *testing.B) {
	for _, count := range []int{5000, 20_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			u := newFilledCluster(b, count)
			var state *model.State
			for b.Loop() {
				state = model.Compute(b.Context(), u.objects(), u.protected, u.now())
			}
			text, err := json.Marshal(state)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(text)), "bytes/document")
		})
	}
}
