package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
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
	report := NewReport(run, &Plan{Action: ActionGate, Nodes: decision, Conditions: Conditions{}}, &Result{Settled: true, Steps: decision.Steps})
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
