package upgrade

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli"
	"github.com/drover-io/drover/test/harness"
)

// TestThePlugin goes through a run with kubectl drover upgrade alone.
func TestThePlugin(t *testing.T) {
	s := newStage(t, plot{late: true, pool: pausedPool})
	name := s.Name + "/run"
	s.changeRule("rule0", func(rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("300ms") })
	s.says(t, 0, "would do nothing", "upgrade", "plan", name)
	s.operator = s.Operator(harness.Options{})
	s.says(t, 0, "suspended", "upgrade", "suspend", name)
	s.says(t, 0, "is suspended already", "upgrade", "suspend", name)
	s.upgrade()
	s.await(v1alpha1.PhaseSuspended)
	s.rulesLookedAt()
	plan := s.says(t, 0, "2. "+s.nodes[1], "upgrade", "plan", name)
	for _, want := range []string{
		"aims at version " + s.to, s.canary + " (canary)", "DoesNotExist", "mutexrule.openshift-optional.skrzypek.io/rule0." + s.Name,
		"Jobs before: " + s.Name + "/job0-", "Jobs after: ",
	} {
		if want == "DoesNotExist" {
			want = "!mutexrule."
		}
		if !strings.Contains(plan, want) {
			t.Errorf("the plan has no %q:\n%s", want, plan)
		}
	}
	s.restored()
	s.says(t, 0, "resumed (server dry run)", "upgrade", "resume", name, "--dry-run=server")
	s.says(t, 0, "resumed", "upgrade", "resume", name)
	s.says(t, 0, s.nodes[1], "upgrade", "status", name, "--watch")
	s.await(v1alpha1.PhaseDone)
	s.says(t, 0, "Done", "upgrade", "status", name)
	s.says(t, 0, `"kind": "UpgradeStatusList"`, "upgrade", "status", name, "-o", "json")
	s.says(t, 0, "is neither", "upgrade", "resume", name)
	s.says(t, 0, "aborted", "upgrade", "abort", name)
	s.says(t, 1, "not found", "upgrade", "plan", "none")
	s.says(t, 1, "name one run", "upgrade", "abort")
}

// says runs the plugin, and checks its exit code and what it says.
func (s *stage) says(t *testing.T, code int, want string, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	args = append(args, "--kubeconfig", env.AdminKubeconfig())
	got := cli.Main(t.Context(), args, genericiooptions.IOStreams{In: strings.NewReader(""), Out: &out, ErrOut: &out})
	if got != code || !strings.Contains(out.String(), want) {
		t.Errorf("%v: exit code %d, want %d and %q:\n%s", args, got, code, want, out.String())
	}
	return out.String()
}
