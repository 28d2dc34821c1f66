package pause

import (
	"maps"
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/metadata/plan"
)

func TestDecide(t *testing.T) {
	const paused, because = plan.AnnotationPaused, plan.AnnotationPausedReason
	for _, c := range []struct {
		name   string
		pause  bool
		reason string
		live   map[string]string
		want   map[string]any
		done   string
	}{
		{"pause", true, "", nil, map[string]any{paused: "true"}, "paused"},
		{"pause with a reason", true, "x", nil, map[string]any{paused: "true", because: "x"}, "paused"},
		{"pause what is paused", true, "", map[string]string{paused: "true", because: "x"}, nil, "already paused"},
		{"pause what is paused for the same reason", true, "x", map[string]string{paused: "true", because: "x"}, nil, "already paused"},
		{"give another reason", true, "y", map[string]string{paused: "true", because: "x"}, map[string]any{paused: "true", because: "y"},
			"already paused, reason changed"},
		{"pause where a typo pauses", true, "", map[string]string{paused: "yes"}, nil, "already paused"},
		{"pause after an old reason", true, "", map[string]string{because: "x"}, map[string]any{paused: "true", because: nil}, "paused"},
		{"pause where it says false", true, "", map[string]string{paused: "false"}, map[string]any{paused: "true"}, "paused"},
		{"resume", false, "", map[string]string{paused: "true"}, map[string]any{paused: nil, because: nil}, "resumed"},
		{"resume what is not paused", false, "", map[string]string{"other": "x"}, nil, "not paused"},
		{"resume where it says false", false, "", map[string]string{paused: "false"}, map[string]any{paused: nil, because: nil},
			"not paused, annotation removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, done := Decide(c.live, c.pause, c.reason)
			if !maps.Equal(got, c.want) || done != c.done {
				t.Errorf("%v %q", got, done)
			}
		})
	}
}

func TestOptions_Targets(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"workers", "machineset.machine.openshift.io/workers"},
		{"pool/workers machineset/infra", "machineset.machine.openshift.io/workers machineset.machine.openshift.io/infra"},
		{"node a b", "node/a node/b"},
		{"machines a", "machine.machine.openshift.io/a"},
		{"machine.machine.openshift.io/a no/b", "machine.machine.openshift.io/a node/b"},
		{"node", "machineset.machine.openshift.io/node"},
	} {
		targets, err := (&options{}).targets(strings.Fields(c.args))
		var got []string
		for _, target := range targets {
			got = append(got, cmdutil.NameOf(target))
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v %v", c.args, got, err)
		}
	}
}
