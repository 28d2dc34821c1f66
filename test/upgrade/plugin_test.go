package upgrade

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// TestPlugin takes a run from beginning to end with kubectl drover upgrade.
func TestPlugin(t *testing.T) {
	s := newScenario(t, scenarioOptions{late: true, pool: pausedMCP})
	name := s.Name + "/run"
	s.changeRule("rule0", func(rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("300ms") })
	s.run(t, 1, "would do nothing", "upgrade", "plan", name)
	s.operator = s.Operator(harness.Options{})
	s.run(t, 0, "suspended", "upgrade", "suspend", name)
	s.run(t, 0, "is already suspended", "upgrade", "suspend", name)
	s.upgrade()
	s.await(v1alpha1.PhaseSuspended)
	s.awaitRules()
	plan := s.run(t, 0, "2. "+s.nodes[1], "upgrade", "plan", name)
	for _, want := range []string{
		"upgrades to version " + s.to, s.canary + " (canary)", "DoesNotExist", "mutexrule.openshift-optional.skrzypek.io/rule0." + s.Name,
		"Jobs before: " + s.Name + "/job0-", "Jobs after: ",
	} {
		if want == "DoesNotExist" {
			want = "!mutexrule."
		}
		if !strings.Contains(plan, want) {
			t.Errorf("the plan has no %q:\n%s", want, plan)
		}
	}
	s.expectRestored()
	s.run(t, 0, "resumed (server dry run)", "upgrade", "resume", name, "--dry-run=server")
	s.run(t, 0, "resumed", "upgrade", "resume", name)
	s.run(t, 0, s.nodes[1], "upgrade", "status", name, "--watch")
	s.await(v1alpha1.PhaseDone)
	s.run(t, 0, "Done", "upgrade", "status", name)
	s.run(t, 0, `"kind": "UpgradeStatusList"`, "upgrade", "status", name, "-o", "json")
	s.run(t, 0, "is neither", "upgrade", "resume", name)
	s.run(t, 0, "aborted", "upgrade", "abort", name)
	s.run(t, 1, "not found", "upgrade", "plan", "none")
	s.run(t, 1, "name one run", "upgrade", "abort")
}

// run runs the plugin, and checks its exit code and output.
func (s *scenario) run(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	output, got := plugin.Run(s.World, args...)
	if got != code || !strings.Contains(output, want) {
		t.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, want, output)
	}
	return output
}
