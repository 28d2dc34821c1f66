package cli

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/paused"
)

// hostile clears the screen, sets the title of the window, rings, goes back to the start of the line, turns the direction of text around, has a
// control character of eight bits, and begins a line of its own.
const hostile = "a\x1b[2Jb\x1b]0;title\x07c\rd\u202ee\u2066f\u009b31mg\u2028h\x7fi\nFORGED: all is well"

// TestCommands_EscapeTextOfOthers: no command sends control sequences from an object to the terminal.
func TestCommands_EscapeTextOfOthers(t *testing.T) {
	m := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{
		Phase: medik8s.PhaseRunning, LastError: hostile,
		Conditions: []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: hostile, Message: hostile}},
	})
	m.Spec.Reason = hostile
	maintained := cluster(interceptor.Funcs{}, shop(m)...)
	gated := newGate()
	gated.run.Status = mutex.MutexRunConfigStatus{Phase: "Running", Message: hostile, Nodes: []mutex.NodeStatus{
		{Name: "n1", Phase: hostile, Message: hostile},
	}}
	gated.rule.Status.Conditions[0].Status, gated.rule.Status.Conditions[0].Message = metav1.ConditionFalse, hostile
	explained := everyOwner()
	explained.node("workers-0").Annotations["example.com/owner"] = hostile
	explained.node("workers-0").Annotations[paused.Annotation] = "true"
	explained.node("workers-0").Annotations[plan.AnnotationPausedReason] = hostile
	explained.node("workers-0").ManagedFields[2].Manager = hostile
	printed := 0
	for _, c := range []struct {
		run  func(args ...string) outcome
		args string
	}{
		{func(args ...string) outcome { return runOn(t, maintained, "", args...) }, "maintenance list -o wide"},
		{func(args ...string) outcome { return runOn(t, maintained, "", args...) }, "drain-status n1"},
		{func(args ...string) outcome { return runOn(t, maintained, "", args...) }, "plan --maintenance n1"},
		{func(args ...string) outcome { return gated.fakeCluster.run(t, args...) }, "upgrade status run"},
		{func(args ...string) outcome { return gated.fakeCluster.run(t, args...) }, "upgrade status -o wide"},
		{func(args ...string) outcome { return gated.fakeCluster.run(t, args...) }, "upgrade plan run"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "explain node workers-0 -o wide"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "plan -o wide"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "status -o wide"},
	} {
		got := c.run(strings.Fields(c.args)...)
		text := got.out + got.errors
		for _, r := range text {
			if r == '\x1b' || cmdutil.Escape(string(r)) != string(r) {
				t.Errorf("%s prints %q:\n%q", c.args, r, text)
				break
			}
		}
		if strings.Contains(text, "\nFORGED") {
			t.Errorf("%s prints a line that another writer has forged:\n%s", c.args, text)
		}
		if strings.Contains(text, `^[[2J`) {
			printed++
		}
	}
	if printed < 6 {
		t.Errorf("only %d commands print the hostile text: the test is void", printed)
	}
	// A document is what the API server has.
	document := decodeJSON[view.MaintenanceList](t, runOn(t, maintained, "", "maintenance", "list", "-o", "json").out)
	if document.Items[0].WaitsFor != hostile {
		t.Errorf("the document has %q", document.Items[0].WaitsFor)
	}
	// Errors quote what the API server says.
	got := runOn(t, maintained, "", "drain-status", "x\x1b[2J")
	if strings.Contains(got.errors, "\x1b") || !strings.Contains(got.errors, "^[[2J") && !strings.Contains(got.errors, `\x1b`) {
		t.Errorf("the error is %q", got.errors)
	}
}
