package upgrade

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

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

// Whatever state a run is in: when it is deleted, suspended or aborted, pools, labels and paused flags are as they were. A run that was
// suspended goes on, and no Job runs again.
func TestEverythingIsGivenBackFromEachState(t *testing.T) {
	hang := func(s *stage, step string) {
		harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) {
			metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, step)
		})
	}
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the ways to try
	for name, c := range map[string]struct {
		plot  plot
		reach func(s *stage)
	}{
		"waiting": {
			plot{run: func(run *v1alpha1.MutexRunConfig) {
				run.Spec.Windows = []v1alpha1.Window{{Schedule: "0 0 29 2 *", Duration: metav1.Duration{Duration: 1}}}
			}},
			func(s *stage) { s.await(v1alpha1.PhaseWaiting) },
		},
		"a Job runs": {
			plot{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") }},
			func(s *stage) { s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs) },
		},
		"a node is at work": {plot{}, func(s *stage) {
			s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
		}},
		"a clean-up Job runs": {
			plot{rule: func(_ int, rule *v1alpha1.MutexRule) { *rule.Spec.CleanUpJobSpec = jobSpec("") }},
			func(s *stage) { s.awaitPhase(s.nodes[0], v1alpha1.NodeCleaningUp) },
		},
		"stopped": {
			plot{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = failing() }},
			func(s *stage) { s.await(v1alpha1.PhaseStopped) },
		},
	} {
		for _, how := range some(random, "suspend", "abort", "delete") {
			t.Run(name+"/"+how, func(t *testing.T) {
				s := newStage(t, c.plot)
				if name == "a node is at work" {
					hang(s, "drain")
				}
				s.upgrade()
				c.reach(s)
				s.stop(how)
				s.restored()
				harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
				s.jobsOnce()
			})
		}
	}
}

// some is one of the ways; with DROVER_CRASH_PLANS=all it is each of them.
func some(random *rand.Rand, ways ...string) []string {
	if harness.Full() {
		return ways
	}
	return []string{ways[random.IntN(len(ways))]}
}

// stop stops the run in one of the three ways.
func (s *stage) stop(how string) {
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

// A run that was suspended while its Job ran counts that Job.
func TestARunIsSuspendedAndResumed(t *testing.T) {
	s := newStage(t, plot{
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("500ms") },
		// The pool is paused already, so that nothing happens while the run is suspended.
		pool: pausedPool,
	})
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs)
	s.stop("suspend")
	s.restored()
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if count := s.jobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// A pool that was paused before is paused afterwards.
func TestAPoolThatWasPausedStaysPaused(t *testing.T) {
	s := newStage(t, plot{pool: pausedPool})
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if !s.getPool(s.pools[0]).Spec.Paused {
		t.Error("it is not paused")
	}
}

// Maintenance and upgrade want the same node: the lease decides, and the node is drained once at a time.
func TestMaintenanceAndUpgradeOfOneNode(t *testing.T) {
	s := newStage(t, plot{nodes: 3, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.MaxConcurrentNodes = 2 }})
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
	s.restored()
}

// Keys of labels are 63 characters long at most after the slash, which is name and namespace of a rule.
func TestNamesOfRules(t *testing.T) {
	s := newStage(t, plot{})
	s.await(v1alpha1.PhaseIdle)
	room := 63 - len(s.Name) - 1
	for length, valid := range map[int]bool{room: true, room + 1: false} {
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
	s.lookedAt()
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.restored()
}

// Forty rules, in namespaces of their own, with names that sort badly.
func TestManyRules(t *testing.T) {
	var elsewhere *harness.Site
	s := newStage(t, plot{rules: 40, late: true, rule: func(i int, rule *v1alpha1.MutexRule) {
		rule.Name = fmt.Sprintf("r%d", 100-i*7%41)
		rule.Spec.CleanUpJobSpec = nil
		if i%2 == 0 {
			rule.Spec.JobSpec = jobSpec("1ms")
		}
	}})
	elsewhere = s.Site.World.Site()
	s.rules = s.rules[:39]
	s.addRule(41, func(_ int, rule *v1alpha1.MutexRule) {
		rule.Namespace, rule.Spec.JobNamespace = elsewhere.Name, elsewhere.Name
	})
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexRules = s.rules })
	mark := s.AuditMark()
	s.operator = s.Operator(harness.Options{})
	s.await(v1alpha1.PhaseIdle)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if made := s.made(mark); len(made) != 2*40+2 {
		t.Errorf("%d Jobs were made", len(made))
	}
}

// What is wrong is told, and nothing is changed.
func TestRunsThatCannotBe(t *testing.T) {
	s := newStage(t, plot{})
	s.await(v1alpha1.PhaseIdle)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	before := s.get("run").Spec
	for name, c := range map[string]struct {
		change func(spec *v1alpha1.MutexRunConfigSpec)
		text   string
	}{
		"a rule that is not there": {
			func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexRules[0].Name = "none" }, "MutexRule " + s.Name + "/none does not exist",
		},
		"a target that is not there": {func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexTargets[0].Name = "none" }, "MutexTarget " + s.Name + "/none"},
		"a canary that is not there": {func(spec *v1alpha1.MutexRunConfigSpec) { spec.Canary.Name = "none" }, "canary MachineConfigPool none"},
		"a canary among the targets": {func(spec *v1alpha1.MutexRunConfigSpec) { spec.Canary.Name = s.pools[0] }, "is the canary"},
		"a rule that is named twice": {
			func(spec *v1alpha1.MutexRunConfigSpec) { spec.MutexRules = append(spec.MutexRules, spec.MutexRules[0]) }, "names it twice",
		},
		"a window that cannot be read": {func(spec *v1alpha1.MutexRunConfigSpec) {
			spec.Windows = []v1alpha1.Window{{Schedule: "0 99 * * *", Duration: metav1.Duration{Duration: 1e9}}}
		}, "windows[0]"},
	} {
		t.Run(name, func(*testing.T) {
			s.change(func(run *v1alpha1.MutexRunConfig) {
				run.Spec = *before.DeepCopy()
				c.change(&run.Spec)
			})
			s.Eventually("it is told", func() error {
				run := s.get("run")
				if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, c.text) {
					return fmt.Errorf("%s", harness.JSON(run.Status))
				}
				return nil
			})
			s.restored()
		})
	}
}

// The Jobs of a rule are looked at by the API server before any node has its turn.
func TestRulesThatCannotBe(t *testing.T) {
	s := newStage(t, plot{rules: 3, rule: func(i int, rule *v1alpha1.MutexRule) {
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
		s.Eventually("it is told", func() error {
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
	s.restored()
}

// Without the label that others bring the version is read from the rendered MachineConfig.
func TestTheVersionWithoutALabel(t *testing.T) {
	s := newStage(t, plot{
		openshift: openshift.Options{NoVersionLabel: true}, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.MaxConcurrentNodes = 2 },
	})
	harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Labels, plan.LabelVersion) })
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if count := s.jobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// A dry run says what would be, and changes nothing.
func TestADryRun(t *testing.T) {
	s := newStage(t, plot{pool: pausedPool, run: func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = true }})
	s.upgrade()
	run := s.await(v1alpha1.PhaseDryRun)
	if !strings.Contains(run.Status.Message, "2 of 2 nodes") {
		t.Errorf("it says %q", run.Status.Message)
	}
	s.restored()
	if len(s.jobs()) > 0 {
		t.Error("there is a Job")
	}
	mark := s.AuditMark()
	s.AddNode()
	if writes := s.Writes(mark); len(writes) > 0 {
		t.Errorf("%d writes at rest: %v", len(writes), writes)
	}
}

// A target's pool goes in the middle of a run.
func TestAPoolGoes(t *testing.T) {
	s := newStage(t, plot{pools: 2, rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") }})
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs)
	if err := s.Client.Delete(t.Context(), s.getPool(s.pools[1])); err != nil {
		t.Fatal(err)
	}
	run := s.await(v1alpha1.PhaseInvalid)
	if !strings.Contains(run.Status.Message, s.pools[1]) {
		t.Errorf("it says %q", run.Status.Message)
	}
	s.stop("delete")
	var left []string
	for line := range strings.SplitSeq(s.before, "\n") {
		if !strings.HasPrefix(line, s.pools[1]+" ") {
			left = append(left, line)
		}
	}
	s.before = strings.Join(left, "\n")
	s.restored()
}

// Whoever declares Jobs must be allowed to make them.
func TestWhoMayMakeARule(t *testing.T) {
	s := &stage{Site: harness.NewWorld(t, env).Site()}
	elsewhere := s.World.Site()
	account := &corev1.ServiceAccount{ObjectMeta: s.meta("author")}
	s.MadeUntilTheEnd(account)
	role := &rbacv1.Role{ObjectMeta: s.meta("author"), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"mutexrules"}, Verbs: []string{"create", "update", "get"}},
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}},
	}}
	s.MadeUntilTheEnd(role)
	s.MadeUntilTheEnd(&rbacv1.RoleBinding{
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
	own.Spec.JobNamespace = elsewhere.Name
	if err := author.Update(t.Context(), own); !apierrors.IsForbidden(err) {
		t.Errorf("it may be sent elsewhere later: %v", err)
	}
}
