package cli

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/paused"
)

// hostile clears the screen, sets the title of the window, rings, goes back to the start of the line, turns the direction of text around, has a
// control character of eight bits, and begins a line of its own.
const hostile = "a\x1b[2Jb\x1b]0;title\x07c\rd\u202ee\u2066f\u009b31mg\u2028h\x7fi\nFORGED: all is well"

// Whatever somebody has written into an object, no command sends it to a terminal.
func TestCommands_EscapeTextOfOthers(t *testing.T) {
	m := maintenanceOf("m", "n1", medik8s.NodeMaintenanceStatus{
		Phase: medik8s.PhaseRunning, LastError: hostile,
		Conditions: []metav1.Condition{{Type: conditionReady, Status: metav1.ConditionFalse, Reason: hostile, Message: hostile}},
	})
	m.Spec.Reason = hostile
	maintained := cluster(interceptor.Funcs{}, yard(m)...)
	gated := newGate()
	gated.run.Status = mutex.MutexRunConfigStatus{Phase: "Running", Message: hostile, Nodes: []mutex.NodeStatus{{Name: "n1", Message: hostile}}}
	gated.rule.Status.Conditions[0].Status, gated.rule.Status.Conditions[0].Message = metav1.ConditionFalse, hostile
	explained := explainable()
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
		{func(args ...string) outcome { return gated.fakeObjects.run(t, args...) }, "upgrade status run"},
		{func(args ...string) outcome { return gated.fakeObjects.run(t, args...) }, "upgrade status -o wide"},
		{func(args ...string) outcome { return gated.fakeObjects.run(t, args...) }, "upgrade plan run"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "explain node workers-0 -o wide"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "plan -o wide"},
		{func(args ...string) outcome { return explained.run(t, args...) }, "status -o wide"},
	} {
		got := c.run(strings.Fields(c.args)...)
		text := got.out + got.errors
		for _, r := range text {
			if hidden(r) {
				t.Errorf("%s prints %q:\n%q", c.args, r, text)
				break
			}
		}
		if strings.Contains(text, "\nFORGED") {
			t.Errorf("%s prints a line that somebody else has written:\n%s", c.args, text)
		}
		if strings.Contains(text, `^[[2J`) {
			printed++
		}
	}
	if printed < 6 {
		t.Errorf("only %d commands print what somebody has written: nothing is tried", printed)
	}
	// A document is what the API server has.
	document := decodeJSON[MaintenanceList](t, runOn(t, maintained, "", "maintenance", "list", "-o", "json").out)
	if document.Items[0].WaitsFor != hostile {
		t.Errorf("the document has %q", document.Items[0].WaitsFor)
	}
	// Errors quote what the API server says.
	got := runOn(t, maintained, "", "drain-status", "x\x1b[2J")
	if strings.Contains(got.errors, "\x1b") || !strings.Contains(got.errors, "^[[2J") && !strings.Contains(got.errors, `\x1b`) {
		t.Errorf("the error is %q", got.errors)
	}
}

func TestEscaped_WritesInPieces(t *testing.T) {
	var out strings.Builder
	writer := &escaped{out: &out}
	for _, b := range []byte("ä€\u202e𝄞\x1b[0m\n\t\xffz") {
		if n, err := writer.Write([]byte{b}); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if want := "ä€\\u202e𝄞^[[0m\n\t\ufffdz"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	if raw(writer) != any(&out) || raw(&out) != any(&out) {
		t.Error("the stream behind is another one")
	}
}

func TestPrintf_KeepsTextsInTheirLine(t *testing.T) {
	var out strings.Builder
	if err := printf(&out, "%s: %v %d\n", "a\nb", fmt.Errorf("c\td"), 3); err != nil || out.String() != `a\nb: c\td 3`+"\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
