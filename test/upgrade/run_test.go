package upgrade

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// TestRun_OneNodeAtATime upgrades two MachineConfigPools of six nodes with three rules. Two of the rules have clean-up Jobs.
func TestRun_OneNodeAtATime(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		pools: 2, nodes: 6, rules: 3, pool: func(pool *mcfgv1.MachineConfigPool) {
			pool.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "example.com/none", Operator: metav1.LabelSelectorOpDoesNotExist},
			}
		},
		rule: func(i int, rule *v1alpha1.MutexRule) {
			switch i {
			case 1:
				rule.Spec.JobSpec = harness.JobSpec("1ms", func(spec *batchv1.JobSpec) {
					spec.ManagedBy, spec.TTLSecondsAfterFinished = new(harness.JobManager), new(int32(3600))
				})
			case 2:
				rule.Spec.CleanUpJobSpec = nil
			}
		},
		run: func(run *v1alpha1.MutexRunConfig) { run.Spec.SkipTLSVerify = true },
	})
	other := openshift.NewPool(s.Name + "-other")
	s.CreateWithCleanup(other)
	stranger := s.AddNode(roles("worker", other.Name))
	s.await(v1alpha1.PhaseIdle)
	s.before = s.state()
	mark := s.AuditMark()
	s.upgrade()
	run := s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if run.Status.Total != 12 || run.Status.Done != 12 || run.Status.Failed != 0 || run.Status.Current != "" || run.Status.Finished == nil {
		t.Errorf("the status is %s", harness.JSON(run.Status))
	}
	for _, node := range s.nodes {
		if version := s.versionOf(node); version != s.to {
			t.Errorf("node %s has version %q", node, version)
		}
	}
	if count := s.expectJobsOnce(); count != 12*5 {
		t.Errorf("%d Jobs, want %d", count, 12*5)
	}
	// The Jobs get their time to live after the status is written.
	s.Eventually("the times to live", func() error { return checkTimesToLive(s.jobs()) })
	for _, job := range s.jobs() {
		checkJob(t, &job)
	}
	checkOrder(s, mark, run)
	for _, write := range s.AllWrites(mark) {
		if write.Resource == "machineconfigpools" && write.Name == other.Name || write.Name == stranger {
			t.Errorf("a foreign object is written: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	// An event is sent after the status is written.
	s.Eventually("the events", func() error {
		ignored := s.AwaitEventIn(s.Name, "MutexRunConfig", "run", "SkipTLSVerifyIgnored", "")
		done := s.AwaitEventIn(s.Name, "MutexRunConfig", "run", "UpgradeRunDone", "12 nodes")
		if ignored != 1 || done != 1 {
			return fmt.Errorf("SkipTLSVerifyIgnored %d times, UpgradeRunDone %d times", ignored, done)
		}
		return nil
	})
	checkConditions(t, run)
}

// checkConditions checks what a run says of itself that is done.
func checkConditions(t *testing.T, run *v1alpha1.MutexRunConfig) {
	t.Helper()
	for kind, status := range map[string]metav1.ConditionStatus{
		"ConfigValidated": metav1.ConditionTrue, "UpgradeChecked": metav1.ConditionTrue, "UpgradeReady": metav1.ConditionTrue,
		"UpgradeAvailable": metav1.ConditionFalse, "TargetPoolsPaused": metav1.ConditionFalse, "MutexRulesApplied": metav1.ConditionTrue,
		"MCPUpdated": metav1.ConditionTrue, "JobRun": metav1.ConditionTrue, "NodeUpgrade": metav1.ConditionTrue,
	} {
		if !meta.IsStatusConditionPresentAndEqual(run.Status.Conditions, kind, status) {
			t.Errorf("condition %s is not %s: %s", kind, status, harness.JSON(run.Status.Conditions))
		}
	}
}

// checkJob checks what a Job is given.
func checkJob(t *testing.T, job *batchv1.Job) {
	t.Helper()
	node, rule := job.Annotations[plan.AnnotationNode], job.Annotations[plan.AnnotationRule]
	for _, c := range job.Spec.Template.Spec.Containers {
		env := map[string]string{}
		for _, e := range c.Env {
			env[e.Name] = e.Value
		}
		if env["NODE_NAME"] != node || !strings.HasSuffix(rule, "/"+env["MUTEX_RULE"]) {
			t.Errorf("container %s of Job %s has %v", c.Name, job.Name, env)
		}
	}
	terms := job.Spec.Template.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	if len(terms) != 1 || !slices.Equal(terms[0].MatchExpressions[0].Values, []string{node}) {
		t.Errorf("Job %s may run at %s", job.Name, harness.JSON(terms))
	}
}

// checkTimesToLive checks the Jobs of a finished run: a Job has a time to live if and only if its rule says so.
func checkTimesToLive(jobs []batchv1.Job) error {
	for i := range jobs {
		job := &jobs[i]
		wants := strings.HasSuffix(job.Annotations[plan.AnnotationRule], "/rule1") && job.Labels[plan.LabelKind] == string(plan.BeforeUpgrade)
		if has := job.Spec.TTLSecondsAfterFinished != nil; has != wants {
			return fmt.Errorf("Job %s has a time to live: %t", job.Name, has)
		}
	}
	return nil
}

// checkOrder checks that nodes had their turn one after another, by name, and each its Jobs in the order of the rules.
func checkOrder(s *scenario, mark cluster.AuditMark, run *v1alpha1.MutexRunConfig) {
	s.Helper()
	kinds := map[string]string{}
	for _, job := range s.jobs() {
		kinds[job.Name] = fmt.Sprintf("%s %s %s", job.Annotations[plan.AnnotationNode], job.Labels[plan.LabelKind],
			job.Annotations[plan.AnnotationRule][strings.Index(job.Annotations[plan.AnnotationRule], "/")+1:])
	}
	var got, want []string
	for _, name := range s.createdSince(mark) {
		got = append(got, kinds[name])
	}
	nodes := slices.Clone(s.nodes)
	slices.Sort(nodes)
	for _, node := range nodes {
		for i := range 3 {
			want = append(want, fmt.Sprintf("%s before rule%d", node, i))
		}
		for i := range 2 {
			want = append(want, fmt.Sprintf("%s after rule%d", node, i))
		}
	}
	if !slices.Equal(got, want) {
		s.Errorf("the Jobs were made in the order\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for i := 1; i < len(run.Status.Nodes); i++ {
		if before, after := run.Status.Nodes[i-1], run.Status.Nodes[i]; after.Started.Time.Before(before.Finished.Time) {
			s.Errorf("node %s began at %s, before %s had ended at %s", after.Name, after.Started, before.Name, before.Finished)
		}
	}
}

// TestJobFails_Stop stops the run until a user acts.
func TestJobFails_Stop(t *testing.T) {
	s := newScenario(t, scenarioOptions{rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = realJob() }})
	s.upgrade()
	s.failPod()
	run := s.await(v1alpha1.PhaseStopped)
	if run.Status.Nodes[0].Phase != v1alpha1.NodeFailed || run.Status.Nodes[1].Phase != v1alpha1.NodePending {
		t.Errorf("the nodes are %s", harness.JSON(run.Status.Nodes))
	}
	// Nothing is under way of the node. A release that the API server does not take at once is tried again, and the status does not wait for it.
	s.AwaitHolder(s.nodes[0], "")
	s.Eventually("the failure is reported", func() error {
		if s.AwaitEventIn(s.Name, "MutexRunConfig", "run", "MutexJobFailed", "") == 0 {
			return fmt.Errorf("it is not")
		}
		return nil
	})
	// The rule is edited in the middle of the run, and the Job that has failed deleted.
	s.changeRule("rule0", func(rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("1ms") })
	for _, job := range s.jobs() {
		if err := s.Client.Delete(t.Context(), &job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
			t.Fatal(err)
		}
	}
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

// TestJob_NameTaken has another Job with the name of the run's Job.
func TestJob_NameTaken(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	run := s.await(v1alpha1.PhaseIdle)
	node := s.Node(s.nodes[0])
	rule := types.NamespacedName{Namespace: s.Name, Name: "rule0"}
	s.to = nextVersion()
	foreign := &batchv1.Job{ObjectMeta: s.meta(plan.JobName("job0", plan.JobID{
		Run: run.UID, Version: s.to, Node: node.UID, Rule: rule, Kind: plan.BeforeUpgrade,
	}))}
	spec := jobSpec("")
	if err := json.Unmarshal(spec.Raw, &foreign.Spec); err != nil {
		t.Fatal(err)
	}
	s.CreateWithCleanup(foreign)
	if err := openshift.Upgrade(t.Context(), s.Client, s.to); err != nil {
		t.Fatal(err)
	}
	s.Eventually("it is reported", func() error {
		if status := s.get("run").Status; !strings.Contains(status.Message, "not of this run") {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
	if err := s.Client.Delete(t.Context(), foreign, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	// What was refused is tried again after a minute, or when anything happens.
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.NodeOrder = v1alpha1.OrderZone })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

func TestJobFails_Retry(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = failing() },
		run: func(run *v1alpha1.MutexRunConfig) {
			run.Spec.OnJobFailure = v1alpha1.JobFailure{Action: v1alpha1.FailureRetry, Retries: 30}
		},
	})
	s.upgrade()
	s.Eventually("a second Job", func() error {
		if jobs := s.jobs(); len(jobs) < 2 {
			return fmt.Errorf("%d Jobs", len(jobs))
		}
		return nil
	})
	s.changeRule("rule0", func(rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("1ms") })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

func TestJobFails_SkipNode(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = failing() },
		run:  func(run *v1alpha1.MutexRunConfig) { run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode },
	})
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	// Now that their pool is given back OpenShift upgrades them, so the status says no more that they have failed.
	for _, node := range s.nodes {
		if s.AwaitEvent("Node", node, "NodeUpgradeFailed", "has failed") == 0 {
			t.Errorf("there is no event that node %s was left out", node)
		}
	}
}

// TestAbort_JobHangs has a Job that never ends: only its node waits, and an abort deletes the Job.
func TestAbort_JobHangs(t *testing.T) {
	s := newScenario(t, scenarioOptions{
		rule: func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") },
		run:  func(run *v1alpha1.MutexRunConfig) { run.Spec.JobTimeout = &metav1.Duration{Duration: time.Second} },
	})
	s.upgrade()
	s.await(v1alpha1.PhaseStopped)
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true })
	s.await(v1alpha1.PhaseAborted)
	s.expectRestored()
	s.Eventually("the Job is ended", func() error {
		if jobs := s.jobs(); len(jobs) > 0 {
			return fmt.Errorf("there is %s", jobs[0].Name)
		}
		return nil
	})
}

func TestNodeDegraded(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	degrade := func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationDegrade, "disk full")
	}
	harness.Update(s.World, s.Node, s.nodes[0], degrade)
	s.upgrade()
	run := s.await(v1alpha1.PhaseStopped)
	if !strings.Contains(run.Status.Message, "disk full") {
		t.Errorf("it says %q", run.Status.Message)
	}
	if s.Holder(s.nodes[0]) != "drover-upgrade" {
		t.Error("the lease of a node that is still being upgraded was released")
	}
	harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationDegrade) })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}

// TestRun_NodesJoinAndLeave drops a node that leaves, and gates a node that joins.
func TestRun_NodesJoinAndLeave(t *testing.T) {
	s := newScenario(t, scenarioOptions{nodes: 3, openshift: openshift.Options{}})
	hang := func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, "reboot")
	}
	harness.Update(s.World, s.Node, s.nodes[0], hang)
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	newcomer := s.AddNode(roles("worker", s.targets[0]))
	// Before it is labelled it is a plain worker to OpenShift, which may give it the new version at once.
	s.Eventually("the newcomer is one of the run's", func() error {
		status := s.get("run").Status
		if !slices.ContainsFunc(status.Nodes, func(n v1alpha1.NodeStatus) bool { return n.Name == newcomer }) {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
	if err := s.Client.Delete(t.Context(), s.Node(s.nodes[0])); err != nil {
		t.Fatal(err)
	}
	run := s.await(v1alpha1.PhaseDone)
	if run.Status.Total != 3 || run.Status.Done != 3 || s.AwaitEventIn(s.Name, "MutexRunConfig", "run", "NodeLeftRun", s.nodes[0]) == 0 {
		t.Errorf("the status is %s", harness.JSON(run.Status))
	}
	s.expectRestored()
}

// TestRun_MCPsChangedByUser has a user pause the canary: no other node is started until it is unpaused. A target that a user unpauses is paused
// again.
func TestRun_MCPsChangedByUser(t *testing.T) {
	// OpenShift is not faster than Drover's answer to an unpaused pool.
	s := newScenario(t, scenarioOptions{nodes: 3, openshift: openshift.Options{Config: 5 * time.Second}})
	harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, "drain")
	})
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	s.changeMCP(s.canary, func(pool *mcfgv1.MachineConfigPool) { pool.Spec.Paused = true })
	s.changeMCP(s.targets[0], func(pool *mcfgv1.MachineConfigPool) {
		pool.Spec.Paused = false
		pool.Spec.NodeSelector.MatchLabels["node-role.kubernetes.io/worker"] = ""
	})
	s.Eventually("the target pool is paused again", func() error {
		if pool := s.getMCP(s.targets[0]); !pool.Spec.Paused || len(pool.Spec.NodeSelector.MatchExpressions) != 1 {
			return fmt.Errorf("it is %s", harness.JSON(pool.Spec))
		}
		return nil
	})
	harness.Update(s.World, s.Node, s.nodes[0], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
	run := s.await(v1alpha1.PhaseWaiting)
	// OpenShift may have begun one more while the pool was unpaused.
	if !strings.Contains(run.Status.Message, "is paused") || run.Status.Done > 2 {
		t.Errorf("the status is %s", harness.JSON(run.Status))
	}
	s.changeMCP(s.canary, func(pool *mcfgv1.MachineConfigPool) { pool.Spec.Paused = false })
	s.await(v1alpha1.PhaseDone)
	// What a user adds to the selector during the run stays.
	s.Eventually("the pool is given back", func() error {
		pool := s.getMCP(s.targets[0])
		if pool.Spec.Paused || len(pool.Spec.NodeSelector.MatchExpressions) != 0 || len(pool.Spec.NodeSelector.MatchLabels) != 2 {
			return fmt.Errorf("it is %s", harness.JSON(pool.Spec))
		}
		return nil
	})
}

// TestReservation_SecondRunWaits: two runs need the same MachineConfigPool. The second run waits, names the run that it waits for, and starts when
// the first run is deleted.
func TestReservation_SecondRunWaits(t *testing.T) {
	// The pool is unpaused between the two runs: OpenShift is not faster than the second one.
	s := newScenario(t, scenarioOptions{
		openshift: openshift.Options{Config: 5 * time.Second},
		rule:      func(_ int, rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("") },
	})
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeRunningJobs)
	second := &v1alpha1.MutexRunConfig{ObjectMeta: s.meta("second"), Spec: s.get("run").Spec}
	s.CreateWithCleanup(second)
	run := s.awaitRun("second", v1alpha1.PhaseClaimed)
	if !strings.Contains(run.Status.Message, s.Name+"/run") {
		t.Errorf("it says %q", run.Status.Message)
	}
	if err := s.Client.Delete(t.Context(), s.get("run")); err != nil {
		t.Fatal(err)
	}
	s.changeRule("rule0", func(rule *v1alpha1.MutexRule) { rule.Spec.JobSpec = jobSpec("1ms") })
	s.awaitRun("second", v1alpha1.PhaseDone)
	s.expectRestored()
}

// TestDesiredVersionChanges changes the desired version during a run: nodes that have the first one are gated again.
func TestDesiredVersionChanges(t *testing.T) {
	// The control plane comes first, so that the second version does not reach a node before Drover has seen it with the first one.
	s := newScenario(t, scenarioOptions{nodes: 2, openshift: openshift.Options{ControlPlane: 5 * time.Second}})
	harness.Update(s.World, s.Node, s.nodes[1], func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, "drain")
	})
	s.upgrade()
	s.awaitPhase(s.nodes[1], v1alpha1.NodeUpgrading)
	first := s.to
	s.upgrade()
	harness.Update(s.World, s.Node, s.nodes[1], func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	s.expectJobsOnce()
	// Both were prepared for the first version and came to it: they are cleaned up after that one, too.
	for _, node := range s.nodes {
		versions := map[string]int{}
		for _, job := range s.jobs() {
			if job.Annotations[plan.AnnotationNode] == node {
				versions[job.Annotations[plan.AnnotationVersion]]++
			}
		}
		if versions[first] != 2 || versions[s.to] != 2 {
			t.Errorf("node %s had the Jobs %v", node, versions)
		}
	}
}

// TestControlPlaneNotCompleted pauses the MachineConfigPools while the control plane is being upgraded, and runs no Job.
func TestControlPlaneNotCompleted(t *testing.T) {
	s := newScenario(t, scenarioOptions{openshift: openshift.Options{Completion: 5 * time.Second}})
	s.upgrade()
	s.await(v1alpha1.PhaseWaiting)
	s.Eventually("the pool is paused", func() error {
		if pool := s.getMCP(s.targets[0]); !pool.Spec.Paused || len(pool.Spec.NodeSelector.MatchExpressions) != 1 {
			return fmt.Errorf("it is %s", harness.JSON(pool.Spec))
		}
		return nil
	})
	if run := s.get("run"); run.Status.Phase == v1alpha1.PhaseWaiting && len(s.jobs()) > 0 {
		t.Error("a Job runs")
	}
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}
