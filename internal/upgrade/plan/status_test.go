package plan

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

const maxObject = 1_500_000

func longName(i int) string { return fmt.Sprintf("%0253d", i) }

// TestStatus_Bounded has 5,000 nodes in progress, each with the longest name and the longest message of a Job.
func TestStatus_Bounded(t *testing.T) {
	decision := &Decision{Phase: v1alpha1.PhaseRunning, Message: strings.Repeat("m", 1<<20)}
	for i := range 5000 {
		decision.Steps = append(decision.Steps, Step{Status: v1alpha1.NodeStatus{
			Name: longName(i), Phase: v1alpha1.NodeFailed, Job: strings.Repeat("n", 63) + "/" + longName(i), Message: strings.Repeat("é", 16000),
			Started: &metav1.Time{Time: testTime}, Released: &metav1.Time{Time: testTime},
		}})
		decision.Current = append(decision.Current, longName(i))
	}
	run := &Run{Config: &v1alpha1.MutexRunConfig{}, Now: testTime}
	report := NewReport(run, &Plan{Action: ActionGate, Nodes: decision, Conditions: Conditions{}}, &Result{Settled: true, Nodes: decision})
	after, _ := report.Status(run, nil)
	if len(after.Nodes) != MaxNodes || after.Total != 5000 || !strings.HasSuffix(after.Current, " and 4980 more") {
		t.Errorf("%d nodes are listed of %d, in progress are %.50s...", len(after.Nodes), after.Total, after.Current)
	}
	for _, condition := range after.Conditions {
		if len(condition.Message) > status.MaxMessage {
			t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
		}
	}
	if text, err := json.Marshal(after); err != nil || len(text) > maxObject/2 {
		t.Errorf("the status has %d bytes (%v)", len(text), err)
	}
}

// TestConditions_LongMessage: a message is at most as long as the API server accepts, and valid UTF-8.
func TestConditions_LongMessage(t *testing.T) {
	found, all := Conditions{}, []metav1.Condition{}
	found.Set(ConditionJobs, false, strings.Repeat("node µ failed; ", 5000))
	found.ApplyTo(&all, 1, metav1.NewTime(testTime))
	message := meta.FindStatusCondition(all, ConditionJobs).Message
	if len(message) > status.MaxMessage || !utf8.ValidString(message) || !strings.HasSuffix(message, "node µ failed; ") {
		t.Errorf("%d bytes: %q", len(message), message)
	}
}

// TestSetTargetConditions: a MutexTarget is valid when its nodes are known, and both conditions have the same reason.
func TestSetTargetConditions(t *testing.T) {
	for problem, want := range map[string]metav1.Condition{
		"":                   {Status: metav1.ConditionTrue, Reason: "MachineConfigPoolFetchSucceeded"},
		"gpu does not exist": {Status: metav1.ConditionFalse, Reason: "MachineConfigPoolFetchFailed"},
	} {
		var all []metav1.Condition
		SetTargetConditions(&all, problem, 3, metav1.NewTime(testTime))
		for _, kind := range []string{ConditionValid, ConditionGathered} {
			got := meta.FindStatusCondition(all, kind)
			if got == nil || got.Status != want.Status || got.Reason != want.Reason || got.Message != problem || got.ObservedGeneration != 3 {
				t.Errorf("problem %q: %s is %+v", problem, kind, got)
			}
		}
	}
}

// TestReport_FailureIsNew: a failed Job is reported once: by the process that finds its node where the failure has just left it, and not again after
// a restart, when the status shows it already.
func TestReport_FailureIsNew(t *testing.T) {
	for name, c := range map[string]struct {
		kind    JobKind
		retried bool
		version string
		// node is where the node is now, before where the status shows it.
		node, before v1alpha1.NodePhase
		want         bool
	}{
		"the node has failed":                       {BeforeUpgrade, false, "4.17.3", v1alpha1.NodeFailed, v1alpha1.NodeRunningJobs, true},
		"the status shows that":                     {BeforeUpgrade, false, "4.17.3", v1alpha1.NodeFailed, v1alpha1.NodeFailed, false},
		"the Job is about to be retried":            {BeforeUpgrade, false, "4.17.3", v1alpha1.NodeRunningJobs, v1alpha1.NodeRunningJobs, true},
		"the Job has been retried":                  {BeforeUpgrade, true, "4.17.3", v1alpha1.NodeRunningJobs, v1alpha1.NodeRunningJobs, false},
		"the clean-up is about to be retried":       {AfterUpgrade, false, "4.17.3", v1alpha1.NodeCleaningUp, v1alpha1.NodeCleaningUp, true},
		"the clean-up has been retried":             {AfterUpgrade, true, "4.17.3", v1alpha1.NodeCleaningUp, v1alpha1.NodeCleaningUp, false},
		"a Job before the upgrade of a node behind": {BeforeUpgrade, false, "4.17.3", v1alpha1.NodeCleaningUp, v1alpha1.NodeReleased, false},
		"a Job for another version":                 {BeforeUpgrade, false, "4.17.2", v1alpha1.NodeFailed, v1alpha1.NodeRunningJobs, false},
		"the node is done":                          {AfterUpgrade, false, "4.17.3", v1alpha1.NodeDone, v1alpha1.NodeCleaningUp, false},
	} {
		t.Run(name, func(t *testing.T) {
			run := newRun(t, 1).run
			rule := &run.Rules[0]
			id := JobID{Run: "uid", Version: c.version, Node: run.Nodes[0].UID, Rule: keyOf(rule.Object), Kind: c.kind}
			job := NewJob(rule.Object, rule.Before, run.Nodes[0].Node, id)
			run.Jobs[keyOf(job)] = job
			if id.Attempt++; c.retried {
				next := NewJob(rule.Object, rule.Before, run.Nodes[0].Node, id)
				run.Jobs[keyOf(next)] = next
			}
			status := func(phase v1alpha1.NodePhase) []v1alpha1.NodeStatus {
				return []v1alpha1.NodeStatus{{Name: "n1", Phase: phase, Job: keyOf(job).String()}}
			}
			run.Config.Status.Nodes = status(c.before)
			report := &Report{Nodes: status(c.node)}
			if got := report.FailureIsNew(run, job); got != c.want {
				t.Errorf("new: %t", got)
			}
			if report.Nodes = nil; report.FailureIsNew(run, job) {
				t.Error("the failure is new although its node is not known")
			}
		})
	}
}

// TestReport_Status: the status says what a plan has achieved, and the same again for the same report.
func TestReport_Status(t *testing.T) {
	suspend := func(r *Run) { r.Config.Spec.Suspend = true }
	for name, c := range map[string]struct {
		change func(*Run)
		before v1alpha1.Phase
		result Result
		// phase and message are in the status after that; restored reports whether everything was restored now.
		phase    v1alpha1.Phase
		message  string
		restored bool
	}{
		"the MachineConfigPools are being prepared": {
			nil, "", Result{}, v1alpha1.PhaseWaiting, "the MachineConfigPools are being prepared", false,
		},
		"another run has reserved one": {
			nil, "", Result{ReservedByOther: "by numo/other"}, v1alpha1.PhaseClaimed, "by numo/other", false,
		},
		"a running run prepares a new node": {
			nil, v1alpha1.PhaseRunning, Result{}, v1alpha1.PhaseRunning, "as before", false,
		},
		"a request is denied": {
			nil, "", Result{Denied: "not allowed"}, v1alpha1.PhaseWaiting, "not allowed", false,
		},
		"being restored": {
			suspend, v1alpha1.PhaseRunning, Result{}, v1alpha1.PhaseRestoring, "spec.suspend is set", false,
		},
		"a restore fails": {suspend, v1alpha1.PhaseRunning, Result{Failed: true}, v1alpha1.PhaseRestoring, "spec.suspend is set", false},
		"restored":        {suspend, v1alpha1.PhaseRestoring, Result{Settled: true}, v1alpha1.PhaseSuspended, "spec.suspend is set", true},
		"nothing to restore, and a request fails": {func(r *Run) { r.Config.Spec.Suspend, r.Labeled = true, nil }, v1alpha1.PhaseWaiting,
			Result{Failed: true}, v1alpha1.PhaseWaiting, "as before", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStagedRun(t)
			s.settle()
			run := Resolve(s.Input)
			run.Config.Status.Phase, run.Config.Status.Message = c.before, "as before"
			if c.change != nil {
				c.change(run)
			}
			if run.Labeled == nil {
				run.Reservations = nil
			}
			c.result.Conditions = Conditions{}
			report := NewReport(run, Decide(run), &c.result)
			after, _ := report.Status(run, nil)
			if after.Phase != c.phase || after.Message != c.message || report.Restored != c.restored {
				t.Errorf("phase %s, message %q, restored %t", after.Phase, after.Message, report.Restored)
			}
			run.Config.Status = after
			if again, _ := report.Status(run, nil); !reflect.DeepEqual(again, after) {
				t.Errorf("the same report gives %+v after %+v", again, after)
			}
		})
	}
}

// TestReport_StatusKeepsTimes: when a node started, was released and finished stays in the status when that cannot be observed any more.
func TestReport_StatusKeepsTimes(t *testing.T) {
	at := func(ago time.Duration) *metav1.Time { return &metav1.Time{Time: testTime.Add(-ago)} }
	now := at(0)
	text := func(n v1alpha1.NodeStatus) string { return fmt.Sprint(n.Started, n.Released, n.Finished) }
	for name, c := range map[string]struct{ node, known, want v1alpha1.NodeStatus }{
		"started earlier than its present Job": {
			v1alpha1.NodeStatus{Phase: v1alpha1.NodeRunningJobs, Started: at(time.Minute)}, v1alpha1.NodeStatus{Started: at(time.Hour)},
			v1alpha1.NodeStatus{Started: at(time.Hour)},
		},
		"waits again": {v1alpha1.NodeStatus{Phase: v1alpha1.NodePending}, v1alpha1.NodeStatus{Started: at(time.Hour)}, v1alpha1.NodeStatus{}},
		"has just finished": {
			v1alpha1.NodeStatus{Phase: v1alpha1.NodeDone},
			v1alpha1.NodeStatus{Phase: v1alpha1.NodeUpgrading, Started: at(2 * time.Hour), Released: at(time.Hour)},
			v1alpha1.NodeStatus{Started: at(2 * time.Hour), Released: at(time.Hour), Finished: now},
		},
		"has finished before": {
			v1alpha1.NodeStatus{Phase: v1alpha1.NodeDone}, v1alpha1.NodeStatus{Phase: v1alpha1.NodeDone, Finished: at(time.Hour)},
			v1alpha1.NodeStatus{Finished: at(time.Hour)},
		},
		"had the version before its turn": {
			v1alpha1.NodeStatus{Phase: v1alpha1.NodeDone}, v1alpha1.NodeStatus{Phase: v1alpha1.NodeDone}, v1alpha1.NodeStatus{},
		},
	} {
		c.node.Name = "n1"
		run := &Run{Config: &v1alpha1.MutexRunConfig{}, Now: testTime}
		report := &Report{Listed: true, Nodes: []v1alpha1.NodeStatus{c.node}, Conditions: Conditions{}}
		after, nodes := report.Status(run, map[string]v1alpha1.NodeStatus{"n1": c.known})
		if text(after.Nodes[0]) != text(c.want) || text(nodes[0]) != text(c.want) {
			t.Errorf("%s: %s, want %s", name, text(after.Nodes[0]), text(c.want))
		}
	}
}
