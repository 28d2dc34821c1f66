package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/status"
)

// maxObject is the largest object that etcd stores by default.
const maxObject = 1_500_000

// TestStatus_Bounded has a node with more Pods than any, each with the longest names and a reason of its own.
func TestStatus_Bounded(t *testing.T) {
	const pods = 3000
	report := &drain.Report{Total: pods, Exempted: map[drain.Exempt]int{}}
	for i := range pods {
		report.Remaining = append(report.Remaining, drain.RemainingPod{
			Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%0253d", i), Reason: drain.Webhook,
			Detail: fmt.Sprintf("%05d%s", i, strings.Repeat("d", 5000)),
		})
	}
	for name, set := range map[string]func(*Progress){
		"drain": func(p *Progress) { p.SetReport(report, start) }, "dry run": func(p *Progress) { p.SetPreview(report) },
	} {
		t.Run(name, func(t *testing.T) {
			progress := &Progress{Problem: strings.Repeat("e", 1<<20)}
			set(progress)
			after := Status(newInput(), progress)
			if len(after.PendingPods) != maxPendingPods || len(after.PendingPodsRefs) != maxPendingPods || after.PendingPodsOmitted != pods-maxPendingPods {
				t.Errorf("%d and %d pods are named, %d omitted", len(after.PendingPods), len(after.PendingPodsRefs), after.PendingPodsOmitted)
			}
			for _, condition := range after.Conditions {
				if len(condition.Message) > status.MaxMessage {
					t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
				}
			}
			if text, err := json.Marshal(after); err != nil || len(text) > maxObject/2 {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
		})
	}
}

// TestStatus has the status after each step of a maintenance.
func TestStatus(t *testing.T) {
	in := newInput()
	done := Condition{Met: true, Reason: "Done"}
	for _, step := range []struct {
		name     string
		progress Progress
		phase    medik8s.Phase
		lastErr  string
		ready    string
		percent  int
		evicted  int
	}{
		{"blocked", Progress{Cordon: Condition{Reason: ReasonQuorum}, Problem: "quorum"}, medik8s.PhaseRunning, "quorum", ReasonQuorum, 0, 0},
		{"draining", Progress{Lease: done, Cordon: done, Drain: Condition{Reason: ReasonDraining}, Report: report(2)},
			medik8s.PhaseRunning, "", ReasonDraining, 0, 2},
		{"half drained", Progress{Lease: done, Cordon: done, Drain: Condition{Reason: ReasonDraining}, Report: report(1), Ignored: "no force"},
			medik8s.PhaseRunning, "no force", ReasonDraining, 50, 2},
		{"drained", Progress{Lease: done, Cordon: done, Drain: done, Report: report(0), Ignored: "no force"},
			medik8s.PhaseSucceeded, "", ReasonReady, 100, 2},
		{"late Pods", Progress{Lease: done, Cordon: done, Drain: Condition{Reason: ReasonDraining}, Report: report(3)},
			medik8s.PhaseSucceeded, "", ReasonDraining, 0, 3},
		{"failed", Progress{Failure: Condition{Reason: ReasonNoNode, Message: "no node"}, Problem: "ignored"},
			medik8s.PhaseFailed, "no node", ReasonNoNode, 0, 3},
		{"paused", Progress{Paused: true}, medik8s.PhaseFailed, "no node", ReasonPaused, 0, 3},
	} {
		t.Run(step.name, func(t *testing.T) {
			after := Status(in, &step.progress)
			ready := meta.FindStatusCondition(after.Conditions, ConditionReady)
			if after.Phase != step.phase || after.LastError != step.lastErr || ready == nil || ready.Reason != step.ready {
				t.Errorf("%s, %q, %+v", after.Phase, after.LastError, ready)
			}
			if after.DrainProgress != step.percent || after.EvictionPods != step.evicted || after.LastUpdate == nil {
				t.Errorf("%d%% of %d, updated %v", after.DrainProgress, after.EvictionPods, after.LastUpdate)
			}
			*in.Object.GetStatus() = after
			if again := Status(in, &step.progress); !reflect.DeepEqual(again, after) {
				t.Errorf("the same progress has another status: %+v, %+v", after, again)
			}
		})
	}
}

func report(left int) *drain.Report {
	report := &drain.Report{Total: 5}
	for i := range left {
		report.Remaining = append(report.Remaining, drain.RemainingPod{Namespace: "ns", Name: fmt.Sprint(i)})
	}
	return report
}
