package upgrade

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// releases counts the versions that the cluster was upgraded to: each test has its own.
var releases atomic.Int64

func nextVersion() string { return fmt.Sprintf("4.17.%d", releases.Add(1)) }

// scenario is a run and the objects that it depends on.
type scenario struct {
	*harness.Site

	operator *harness.Operator
	// to is the version that the cluster is upgraded to.
	to string
	// targets are the names of the target MachineConfigPools, canary is the name of the canary, and nodes are the names of the targets' nodes.
	targets []string
	canary  string
	nodes   []string
	rules   []v1alpha1.Reference
	// before is what the pools and nodes were before anything began.
	before string
}

// scenarioOptions configure a scenario. The zero value is one target of two nodes, one rule with a clean-up Job, and OpenShift without delays.
type scenarioOptions struct {
	pools, nodes, rules int
	openshift           openshift.Options
	run                 func(run *v1alpha1.MutexRunConfig)
	rule                func(i int, rule *v1alpha1.MutexRule)
	pool                func(pool *mcfgv1.MachineConfigPool)
	// late leaves the operator out. Otherwise the scenario uses the operator that tests share.
	late bool
}

// jobSpec returns a Job that takes some time, or never ends.
func jobSpec(takes string) runtime.RawExtension {
	return harness.ManagedJob(takes)
}

// failing returns a Job that fails.
func failing() runtime.RawExtension { return jobSpec(harness.JobFails) }

// realJob returns a Job that Kubernetes runs, with a pod that never ends.
func realJob() runtime.RawExtension { return harness.JobSpec("", func(*batchv1.JobSpec) {}) }

// newScenario creates MachineConfigPools with nodes, a MutexTarget for each, rules and a run. All of OpenShift has the same version.
func newScenario(t *testing.T, p scenarioOptions) *scenario {
	t.Helper()
	if p.late {
		shared.Pause(t)
	}
	s := &scenario{Site: harness.NewWorld(t, env).Site()}
	p.pools, p.nodes, p.rules = max(p.pools, 1), max(p.nodes, 2), max(p.rules, 1)
	s.canary = s.Name + "-canary"
	canary := openshift.NewPool(s.canary)
	canary.Spec.NodeSelector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{"node-role.kubernetes.io/worker": ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: s.Name + "-isCanary", Operator: metav1.LabelSelectorOpExists}},
	}
	s.CreateWithCleanup(canary)
	var targets []v1alpha1.Reference
	for i := range p.pools {
		name := fmt.Sprintf("%s-pool%d", s.Name, i)
		pool := openshift.NewPool(name)
		if p.pool != nil {
			p.pool(pool)
		}
		s.CreateWithCleanup(pool)
		s.targets = append(s.targets, name)
		s.nodes = append(s.nodes, s.AddNodes(p.nodes, roles("worker", name))...)
		target := &v1alpha1.MutexTarget{ObjectMeta: s.meta(name), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{name}}}
		s.CreateWithCleanup(target)
		targets = append(targets, v1alpha1.Reference{Name: name})
	}
	for i := range p.rules {
		s.addRule(i, p.rule)
	}
	if p.openshift.ControlPlane == 0 {
		// On a real cluster the control plane takes an hour; a run that is not faster than that is late. make test-all has an operator with the race
		// detector.
		p.openshift.ControlPlane = 5 * time.Second
		if testing.Short() {
			p.openshift.ControlPlane = 2 * time.Second
		}
	}
	s.SimulateOpenShift(p.openshift)
	s.before = s.state()
	run := &v1alpha1.MutexRunConfig{
		ObjectMeta: s.meta("run"),
		Spec:       v1alpha1.MutexRunConfigSpec{Canary: v1alpha1.Canary{Name: s.canary}, MutexRules: s.rules, MutexTargets: targets},
	}
	if p.run != nil {
		p.run(run)
	}
	if !p.late {
		s.operator = shared.For(t, env)
		s.operator.ReportAbout(t, s.Name)
	}
	s.CreateWithCleanup(run)
	if !p.late {
		s.awaitValidation()
	}
	return s
}

// awaitValidation waits until the operator has validated the run and its rules: an upgrade that starts before is not gated.
func (s *scenario) awaitValidation() {
	s.Helper()
	s.awaitRules()
	s.Eventually("the run is validated", func() error {
		status := s.get("run").Status
		if status.Phase == "" || strings.Contains(status.Message, "has not been validated yet") {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
}

// awaitRules waits until the operator has validated the rules as they are now. A suspended run does not show that.
func (s *scenario) awaitRules() {
	s.Helper()
	s.Eventually("the rules are validated", func() error {
		for _, ref := range s.rules {
			rule := &v1alpha1.MutexRule{}
			if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: cmp.Or(ref.Namespace, s.Name), Name: ref.Name}, rule); err != nil {
				return err
			}
			if valid := meta.FindStatusCondition(rule.Status.Conditions, v1alpha1.ConditionValid); valid == nil ||
				valid.ObservedGeneration != rule.Generation {
				return fmt.Errorf("rule %s is %s", rule.Name, harness.JSON(rule.Status))
			}
		}
		return nil
	})
}

func (s *scenario) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Name, Name: name}
}

func (s *scenario) addRule(i int, change func(int, *v1alpha1.MutexRule)) {
	s.Helper()
	after := jobSpec("1ms")
	rule := &v1alpha1.MutexRule{
		ObjectMeta: s.meta(fmt.Sprintf("rule%d", i)),
		Spec: v1alpha1.MutexRuleSpec{
			JobName: fmt.Sprintf("job%d", i), JobNamespace: s.Name, JobSpec: jobSpec("1ms"), CleanUpJobSpec: &after, Type: v1alpha1.RuleKubernetes,
		},
	}
	if change != nil {
		change(i, rule)
	}
	s.CreateWithCleanup(rule)
	s.rules = append(s.rules, v1alpha1.Reference{Name: rule.Name, Namespace: rule.Namespace})
}

// roles gives a Node role labels, which some MachineConfigPools select.
func roles(names ...string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		for _, name := range names {
			node.Labels["node-role.kubernetes.io/"+name] = ""
		}
	}
}

// upgrade starts the upgrade of the cluster to another version.
func (s *scenario) upgrade() {
	s.Helper()
	s.to = nextVersion()
	if err := openshift.Upgrade(s.Context(), s.Client, s.to); err != nil {
		s.Fatal(err)
	}
}

func (s *scenario) get(name string) *v1alpha1.MutexRunConfig {
	s.Helper()
	run := &v1alpha1.MutexRunConfig{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Name, Name: name}, run); err != nil {
		s.Fatal(err)
	}
	return run
}

// await waits until the run is in a phase, and returns it.
func (s *scenario) await(phase v1alpha1.Phase) *v1alpha1.MutexRunConfig {
	return s.awaitRun("run", phase)
}

func (s *scenario) awaitRun(name string, phase v1alpha1.Phase) (run *v1alpha1.MutexRunConfig) {
	s.Helper()
	s.Eventually(fmt.Sprintf("%s is %s", name, phase), func() error {
		run = s.get(name)
		if run.Status.Phase != phase || s.to != "" && run.Status.Version != s.to && run.Status.Version != "" {
			return fmt.Errorf("it is %s", harness.JSON(run.Status))
		}
		return nil
	})
	return run
}

// awaitPhase waits until a node of the run is in a phase.
func (s *scenario) awaitPhase(node string, phase v1alpha1.NodePhase) {
	s.Helper()
	s.Eventually(fmt.Sprintf("node %s is %s", node, phase), func() error {
		status := s.get("run").Status
		for i := range status.Nodes {
			if status.Nodes[i].Name == node && status.Nodes[i].Phase == phase {
				return nil
			}
		}
		return fmt.Errorf("the run is %s", harness.JSON(status))
	})
}

func (s *scenario) change(change func(run *v1alpha1.MutexRunConfig)) {
	s.Helper()
	harness.Update(s.World, s.get, "run", change)
}

func (s *scenario) changeRule(name string, change func(*v1alpha1.MutexRule)) {
	s.Helper()
	harness.Update(s.World, func(name string) *v1alpha1.MutexRule {
		rule := &v1alpha1.MutexRule{}
		if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Name, Name: name}, rule); err != nil {
			s.Fatal(err)
		}
		return rule
	}, name, change)
}

func (s *scenario) getMCP(name string) *mcfgv1.MachineConfigPool {
	s.Helper()
	pool := &mcfgv1.MachineConfigPool{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, pool); err != nil {
		s.Fatal(err)
	}
	return pool
}

func (s *scenario) changeMCP(name string, change func(*mcfgv1.MachineConfigPool)) {
	s.Helper()
	harness.Update(s.World, s.getMCP, name, change)
}

// state returns everything that a run has to restore.
func (s *scenario) state() string {
	s.Helper()
	var lines []string
	pools := &mcfgv1.MachineConfigPoolList{}
	if err := s.Client.List(s.Context(), pools); err != nil {
		s.Fatal(err)
	}
	for i := range pools.Items {
		pool := &pools.Items[i]
		lines = append(lines, fmt.Sprintf("%s paused=%t %s %q", pool.Name, pool.Spec.Paused, harness.JSON(pool.Spec.NodeSelector),
			pool.Annotations[plan.AnnotationReservation]))
	}
	nodes := &corev1.NodeList{}
	if err := s.Client.List(s.Context(), nodes); err != nil {
		s.Fatal(err)
	}
	for i := range nodes.Items {
		node := &nodes.Items[i]
		for _, key := range slices.Sorted(maps.Keys(node.Labels)) {
			if strings.HasPrefix(key, plan.LabelPrefix) || key == plan.LabelRun {
				lines = append(lines, node.Name+" has "+key)
			}
		}
		if text := node.Annotations[plan.AnnotationReleased]; text != "" {
			lines = append(lines, node.Name+" is released "+text)
		}
		if holder := s.Holder(node.Name); holder != "" {
			lines = append(lines, node.Name+" is leased by "+holder)
		}
	}
	return strings.Join(lines, "\n")
}

// expectRestored checks that everything is as it was before the run.
func (s *scenario) expectRestored() {
	s.Helper()
	s.Eventually("everything is restored", func() error {
		if now := s.state(); now != s.before {
			return fmt.Errorf("there is\n%s\nbefore there was\n%s", now, s.before)
		}
		return nil
	})
}

// jobs lists the Jobs of the namespace.
func (s *scenario) jobs() []batchv1.Job {
	s.Helper()
	list := &batchv1.JobList{}
	if err := s.Client.List(s.Context(), list, client.InNamespace(s.Name)); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// expectJobsOnce checks that each rule's Jobs ran exactly once for each node, and returns how many there are.
func (s *scenario) expectJobsOnce() int {
	s.Helper()
	seen := map[string]int{}
	for _, job := range s.jobs() {
		seen[strings.Join([]string{
			job.Annotations[plan.AnnotationVersion], job.Annotations[plan.AnnotationNode], job.Annotations[plan.AnnotationRule], job.Labels[plan.LabelKind],
		}, " ")]++
	}
	for what, count := range seen {
		if count != 1 {
			s.Errorf("%d Jobs for %s", count, what)
		}
	}
	return len(seen)
}

// createdSince returns the names of the Jobs that the operator has created since a mark, in order.
func (s *scenario) createdSince(since cluster.AuditMark) []string {
	s.Helper()
	var names []string
	for _, e := range s.AllWrites(since) {
		if e.Verb == "create" && e.Resource == "jobs" && e.Code == http.StatusCreated {
			names = append(names, e.Name)
		}
	}
	return names
}

// failPod ends the first pod of a Job with an error.
func (s *scenario) failPod() {
	s.Helper()
	s.Eventually("a pod that runs", func() error {
		pods := &corev1.PodList{}
		if err := s.Client.List(s.Context(), pods, client.InNamespace(s.Name)); err != nil {
			return err
		}
		if len(pods.Items) == 0 || pods.Items[0].Status.Phase != corev1.PodRunning {
			return fmt.Errorf("there are %d pods", len(pods.Items))
		}
		pod := &pods.Items[0]
		pod.Status.Phase = corev1.PodFailed
		for i := range pod.Status.ContainerStatuses {
			pod.Status.ContainerStatuses[i].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error"}}
		}
		return s.Client.Status().Update(s.Context(), pod)
	})
}

// versionOf returns the version of a node.
func (s *scenario) versionOf(node string) string {
	s.Helper()
	return s.Node(node).Labels[plan.LabelVersion]
}

func pausedMCP(pool *mcfgv1.MachineConfigPool) { pool.Spec.Paused = true }
