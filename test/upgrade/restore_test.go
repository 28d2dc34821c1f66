package upgrade

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// TestRestore_FromEachPhase deletes, suspends and aborts runs in several phases: MachineConfigPools and labels are as they were before. A run that
// was suspended continues, and no Job runs again.
func TestRestore_FromEachPhase(t *testing.T) {
	hang := func(s *scenario, step string) {
		harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, step)
		})
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the ways to try
	for name, c := range map[string]struct {
		options scenarioOptions
		reach   func(s *scenario)
	}{
		"waiting": {
			scenarioOptions{run: func(run *v1alpha1.MutexRunConfig) {
				run.Spec.Windows = []v1alpha1.Window{{Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: 1}}}
			}},
			func(s *scenario) { s.await(v1alpha1.PhaseWaiting) },
		},
		"a Job runs": {
			scenarioOptions{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") }},
			func(s *scenario) { s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs) },
		},
		"a node is being upgraded": {scenarioOptions{}, func(s *scenario) {
			s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
		}},
		"a clean-up Job runs": {
			scenarioOptions{rule: func(_ int, rule *v1alpha1.MutexRule) { *rule.Spec.CleanUpJobSpec = jobSpec("") }},
			func(s *scenario) { s.awaitPhase(s.nodes[0], v1alpha1.NodeCleaningUp) },
		},
		"stopped": {
			scenarioOptions{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = failing() }},
			func(s *scenario) { s.await(v1alpha1.PhaseStopped) },
		},
	} {
		if testing.Short() && name != "a node is being upgraded" {
			continue // make test-all has the other phases
		}
		for _, how := range some(random, "suspend", "abort", "delete") {
			t.Run(name+"/"+how, func(t *testing.T) {
				s := newScenario(t, c.options)
				if name == "a node is being upgraded" {
					hang(s, "drain")
				}
				s.upgrade()
				c.reach(s)
				s.stop(how)
				s.expectRestored()
				harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
				s.expectJobsOnce()
			})
		}
	}
}

// some returns one of the ways; with DROVER_CRASH_PLANS=all it is each of them.
func some(random *rand.Rand, ways ...string) []string {
	if harness.Full() {
		return ways
	}
	return []string{ways[random.IntN(len(ways))]}
}

// stop stops the run in one of the three ways.
func (s *scenario) stop(how string) {
	s.Helper()
	switch how {
	case "suspend":
		s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
		s.await(v1alpha1.PhaseSuspended)
	case "abort":
		s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true })
		s.await(v1alpha1.PhaseAborted)
	case "delete":
		run := s.get("run")
		if err := s.Client.Delete(s.Context(), run); err != nil {
			s.Fatal(err)
		}
		s.Gone(run)
	}
}

// TestSuspend_JobRuns suspends a run while its Job runs: the Job counts after the run is resumed.
func TestSuspend_JobRuns(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("500ms") },
		// The pool is paused already, so that nothing happens while the run is suspended.
		pool: pausedMCP,
	})
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs)
	s.stop("suspend")
	s.expectRestored()
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if count := s.expectJobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// TestRestore_PausedMCP restores a MachineConfigPool that was paused before the run.
func TestRestore_PausedMCP(t *testing.T) {
	s := newScenario(t, scenarioOptions{pool: pausedMCP})
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if !s.getMCP(s.targets[0]).Spec.Paused {
		t.Error("it is not paused")
	}
}

// TestLease_MaintenanceOfSameNode has a NodeMaintenance and a run want the same node: the lease decides, and the node is drained by one of them at
// a time.
func TestLease_MaintenanceOfSameNode(t *testing.T) {
	s := newScenario(t, scenarioOptions{nodes: 3, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.MaxConcurrentNodes = 2 }})
	first := s.Maintain(s.nodes[0], nil)
	first.Phase("Succeeded")
	harness.Update(s.World, s.Node, s.nodes[1], func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, "drain")
	})
	s.upgrade()
	// The node in maintenance is passed over, the next is begun.
	s.awaitPhase(s.nodes[1], v1alpha1.NodeUpgrading)
	if status := s.get("run").Status.Nodes[0]; status.Phase != v1alpha1.NodePending {
		t.Errorf("node %s is %s", status.Name, status.Phase)
	}
	if holder := s.Holder(s.nodes[0]); holder != "node-maintenance" {
		t.Errorf("the lease of the node in maintenance is held by %q", holder)
	}
	// A maintenance of the node that is being upgraded has to wait.
	second := s.Maintain(s.nodes[1], nil)
	second.Condition("LeaseHeld", "HeldByOther", "drover-upgrade")
	first.End()
	harness.Update(s.World, s.Node, s.nodes[1], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
	second.Phase("Succeeded")
	second.End()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

// TestValidation_RuleNames checks rule names and namespaces that are too long for a label.
func TestValidation_RuleNames(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	s.await(v1alpha1.PhaseIdle)
	longest := 63 - len(s.Name) - 1
	for length, valid := range map[int]bool{longest: true, longest + 1: false} {
		rule := &v1alpha1.MutexRule{
			ObjectMeta: s.meta(strings.Repeat("r", length)),
			Spec:       v1alpha1.MutexRuleSpec{JobName: strings.Repeat("j", 100), JobNamespace: s.Name, JobSpec: jobSpec("1ms")},
		}
		err := s.Client.Create(t.Context(), rule)
		if (err == nil) != valid {
			t.Errorf("a name of %d characters: %v", length, err)
		}
		if valid {
			s.Cleanup(func() { _ = s.Client.Delete(t.Context(), rule) })
			s.rules = append(s.rules, v1alpha1.Reference{Name: rule.Name})
		}
	}
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexRules = s.rules })
	s.awaitValidation()
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

// TestRun_ManyRules has forty rules in several namespaces, and ten under go test -short.
func TestRun_ManyRules(t *testing.T) {
	count := 40
	if testing.Short() {
		count = 10
	}
	var elsewhere *harness.Site
	// A control plane takes an hour in truth; a busy machine needs more than a second to see that it is upgraded, with so many rules.
	slow := openshift.Options{ControlPlane: 10 * time.Second}
	s := newScenario(t, scenarioOptions{rules: count, late: true, openshift: slow, rule: func(i int, rule *v1alpha1.MutexRule) {
		rule.Name = fmt.Sprintf("r%d", 100-i*7%41)
		rule.Spec.CleanUpJobSpec = nil
		if i%2 == 0 {
			rule.Spec.JobSpec = jobSpec("1ms")
		}
	}})
	elsewhere = s.Site.World.Site()
	s.rules = s.rules[:count-1]
	s.addRule(41, func(_ int, rule *v1alpha1.MutexRule) {
		rule.Namespace, rule.Spec.JobNamespace = elsewhere.Name, elsewhere.Name
	})
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexRules = s.rules })
	mark := s.AuditMark()
	s.operator = s.Operator(harness.Options{})
	s.await(v1alpha1.PhaseIdle)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if made := s.createdSince(mark); len(made) != 2*count+2 {
		t.Errorf("%d Jobs were made", len(made))
	}
}

// TestValidation_InvalidRuns checks that an invalid run says why, and changes nothing.
func TestValidation_InvalidRuns(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	s.await(v1alpha1.PhaseIdle)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	before := s.get("run").Spec
	for name, c := range map[string]struct {
		change func(spec *v1alpha1.MutexRunConfigSpec)
		text   string
	}{
		"a rule that does not exist": {
			func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexRules[0].Name = "none" }, "MutexRule " + s.Name + "/none does not exist",
		},
		"a target that does not exist": {func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexTargets[0].Name = "none" }, "MutexTarget " + s.Name + "/none"},
		"a canary that does not exist": {func(spec *v1alpha1.MutexRunConfigSpec) { spec.Canary.Name = "none" }, "canary MachineConfigPool none"},
		"a canary among the targets":   {func(spec *v1alpha1.MutexRunConfigSpec) { spec.Canary.Name = s.targets[0] }, "is the canary"},
		"a rule that is named twice": {
			func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexRules = append(spec.MutexRules, spec.MutexRules[0]) }, "names it twice",
		},
		"a window that is invalid": {func(spec *v1alpha1.MutexRunConfigSpec) {
			spec.Windows = []v1alpha1.Window{{Schedule: "0 99 * * *", Duration: metav1.Duration{Duration: 1e9}}}
		}, "windows[0]"},
	} {
		t.Run(name, func(*testing.T) {
			s.change(func(run *v1alpha1.MutexRunConfig) {
				run.Spec = *before.DeepCopy()
				c.change(&run.Spec)
			})
			s.Eventually("it is reported", func() error {
				run := s.get("run")
				if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, c.text) {
					return fmt.Errorf("%s", harness.JSON(run.Status))
				}
				return nil
			})
			s.expectRestored()
		})
	}
}

// TestValidation_InvalidRules checks that the API server validates the Jobs of a rule before any node has its turn.
func TestValidation_InvalidRules(t *testing.T) {
	s := newScenario(t, scenarioOptions{rules: 3, rule: func(i int, rule *v1alpha1.MutexRule) {
		switch i {
		case 0:
			rule.Spec.JobSpec.Raw = []byte(`{"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}`)
		case 1:
			rule.Spec.JobSpec.Raw = []byte(`{"template":{"spec":{"container":[]}}}`)
		case 2:
			rule.Spec.JobNamespace = "nowhere"
		}
	}})
	for i, text := range []string{"restartPolicy", "unknown field", "nowhere"} {
		s.Eventually("it is reported", func() error {
			rule := &v1alpha1.MutexRule{}
			if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Name, Name: fmt.Sprintf("rule%d", i)}, rule); err != nil {
				return err
			}
			for _, condition := range rule.Status.Conditions {
				if condition.Reason == "InvalidConfig" && strings.Contains(condition.Message, text) {
					return nil
				}
			}
			return fmt.Errorf("%s", harness.JSON(rule.Status))
		})
	}
	s.upgrade()
	s.await(v1alpha1.PhaseInvalid)
	s.expectRestored()
}

// TestNodeVersion_WithoutLabel reads the version from the rendered MachineConfig.
func TestNodeVersion_WithoutLabel(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		openshift: openshift.Options{NoVersionLabel: true}, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.MaxConcurrentNodes = 2 },
	})
	harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Labels, plan.LabelVersion) })
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if count := s.expectJobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// TestDryRun checks that a dry run says what it would do, and changes nothing.
func TestDryRun(t *testing.T) {
	s := newScenario(t, scenarioOptions{pool: pausedMCP, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = true }})
	s.upgrade()
	run := s.await(v1alpha1.PhaseDryRun)
	if !strings.Contains(run.Status.Message, "2 of 2 nodes") {
		t.Errorf("it says %q", run.Status.Message)
	}
	s.expectRestored()
	if len(s.jobs()) > 0 {
		t.Error("there is a Job")
	}
	mark := s.AuditMark()
	s.AddNode()
	if writes := s.Writes(mark); len(writes) > 0 {
		t.Errorf("%d writes at rest: %v", len(writes), writes)
	}
}

// TestRestore_MCPDeletedDuringRun deletes the MachineConfigPool of a target during a run.
func TestRestore_MCPDeletedDuringRun(t *testing.T) {
	// OpenShift is not faster than Drover, which pauses the MachineConfigPools when it sees the upgrade.
	s := newScenario(t, scenarioOptions{
		openshift: openshift.Options{Config: 5 * time.Second}, pools: 2,
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") },
	})
	s.upgrade()
	// Which node is first depends on what OpenShift had begun by then.
	s.Eventually("a node has begun", func() error {
		if status := s.get("run").Status; status.Current == "" {
			return fmt.Errorf("the run is %s", harness.JSON(status))
		}
		return nil
	})
	if err := s.Client.Delete(t.Context(), s.getMCP(s.targets[1])); err != nil {
		t.Fatal(err)
	}
	run := s.await(v1alpha1.PhaseInvalid)
	if !strings.Contains(run.Status.Message, s.targets[1]) {
		t.Errorf("it says %q", run.Status.Message)
	}
	s.stop("delete")
	var left []string
	for line := range strings.SplitSeq(s.before, "\n") {
		if !strings.HasPrefix(line, s.targets[1]+" ") {
			left = append(left, line)
		}
	}
	s.before = strings.Join(left, "\n")
	s.expectRestored()
}

// TestPolicy_RuleAuthorMayCreateJobs checks that the author of a rule must be allowed to create Jobs in its namespace.
func TestPolicy_RuleAuthorMayCreateJobs(t *testing.T) {
	s := &scenario{Site: harness.NewWorld(t, env).Site()}
	elsewhere := s.World.Site()
	account := &corev1.ServiceAccount{ObjectMeta: s.meta("author")}
	s.CreateWithCleanup(account)
	role := &rbacv1.Role{ObjectMeta: s.meta("author"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"mutexrules"}, Verbs: []string{"create", "update", "get"}},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
	}}
	s.CreateWithCleanup(role)
	s.CreateWithCleanup(&rbacv1.RoleBinding{
		ObjectMeta: s.meta("author"), RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Name, Name: account.Name}},
	})
	config, err := env.AsServiceAccount(t.Context(), s.Name, account.Name)
	if err != nil {
		t.Fatal(err)
	}
	author := harness.ClientFor(t, config)
	rule := func(name, namespace string) *v1alpha1.MutexRule {
		return &v1alpha1.MutexRule{ObjectMeta: s.meta(name), Spec: v1alpha1.MutexRuleSpec{
			JobName: "job", JobNamespace: namespace, JobSpec: jobSpec(""),
		}}
	}
	own := rule("own", s.Name)
	s.Eventually("a rule with Jobs in the own namespace is taken", func() error { return author.Create(t.Context(), own) })
	s.Eventually("one with Jobs elsewhere is refused", func() error {
		err := author.Create(t.Context(), rule("theirs", elsewhere.Name))
		if !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "you may not create Jobs in namespace "+elsewhere.Name) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
	// The operator writes the status of the rule meanwhile.
	s.Eventually("it may not be sent elsewhere later", func() error {
		if err := author.Get(t.Context(), client.ObjectKeyFromObject(own), own); err != nil {
			return err
		}
		own.Spec.JobNamespace = elsewhere.Name
		if err := author.Update(t.Context(), own); !apierrors.IsForbidden(err) {
			return fmt.Errorf("the answer is %w", err)
		}
		return nil
	})
}
