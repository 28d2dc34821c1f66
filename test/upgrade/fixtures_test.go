package upgrade

import (
	"cmp"
	"encoding/json"
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

// releases counts the versions that the cluster has been sent to: each test goes to one of its own.
var releases atomic.Int64

func nextVersion() string { return fmt.Sprintf("4.17.%d", releases.Add(1)) }

// stage is a run, and what it needs.
type stage struct {
	*harness.Site

	operator *harness.Operator
	// to is the version that the cluster is sent to.
	to string
	// pools are the names of the target pools, canary of the one that nodes are moved to, nodes of the targets' nodes.
	pools  []string
	canary string
	nodes  []string
	rules  []v1alpha1.Reference
	// before is what the pools and nodes were before anything began.
	before string
}

// plot is what a stage is made of. The zero value is one pool of two nodes, one rule that cleans up, and OpenShift without delays.
type plot struct {
	pools, nodes, rules int
	openshift           openshift.Options
	run                 func(run *v1alpha1.MutexRunConfig)
	rule                func(i int, rule *v1alpha1.MutexRule)
	pool                func(pool *mcfgv1.MachineConfigPool)
	operator            harness.Options
	// late leaves the operator out.
	late bool
}

// jobSpec is a Job that takes so long, or never ends.
func jobSpec(takes string) runtime.RawExtension {
	return encoded(takes, func(spec *batchv1.JobSpec) { spec.ManagedBy = new(managedBy) })
}

// failing is a Job that fails at once.
func failing() runtime.RawExtension { return jobSpec(fails) }

// realJob is one that Kubernetes runs, by a pod that never ends.
func realJob() runtime.RawExtension { return encoded("", func(*batchv1.JobSpec) {}) }

func encoded(fate string, change func(*batchv1.JobSpec)) runtime.RawExtension {
	spec := batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{fateOf: fate}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
			Containers:  []corev1.Container{{Name: "check", Image: "sandbox.invalid/check"}, {Name: "second", Image: "sandbox.invalid/check"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}}
	change(&spec)
	text, err := json.Marshal(spec)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: text}
}

// newStage makes pools with nodes, rules, a target for each pool, and a run. OpenShift is at rest at one version.
func newStage(t *testing.T, p plot) *stage {
	t.Helper()
	s := &stage{Site: harness.NewWorld(t, env).Site()}
	p.pools, p.nodes, p.rules = max(p.pools, 1), max(p.nodes, 2), max(p.rules, 1)
	s.canary = s.Name + "-canary"
	canary := openshift.NewPool(s.canary)
	canary.Spec.NodeSelector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{"node-role.kubernetes.io/worker": ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: s.Name + "-isCanary", Operator: metav1.LabelSelectorOpExists}},
	}
	s.MadeUntilTheEnd(canary)
	var targets []v1alpha1.Reference
	for i := range p.pools {
		name := fmt.Sprintf("%s-pool%d", s.Name, i)
		pool := openshift.NewPool(name)
		if p.pool != nil {
			p.pool(pool)
		}
		s.MadeUntilTheEnd(pool)
		s.pools = append(s.pools, name)
		s.nodes = append(s.nodes, s.AddNodes(p.nodes, roles("worker", name))...)
		target := &v1alpha1.MutexTarget{ObjectMeta: s.meta(name), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{name}}}
		s.MadeUntilTheEnd(target)
		targets = append(targets, v1alpha1.Reference{Name: name})
	}
	for i := range p.rules {
		s.addRule(i, p.rule)
	}
	if p.openshift.ControlPlane == 0 {
		// On a real cluster the control plane takes an hour; a gate has no more than that to close.
		p.openshift.ControlPlane = time.Second
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
		s.operator = s.Operator(p.operator)
	}
	s.MadeUntilTheEnd(run)
	if !p.late {
		s.lookedAt()
	}
	return s
}

// lookedAt waits until the operator has looked at the run and its rules: an upgrade that begins before finds the pools open.
func (s *stage) lookedAt() {
	s.Helper()
	s.rulesLookedAt()
	s.Eventually("the run is looked at", func() error {
		status := s.get("run").Status
		if status.Phase == "" || strings.Contains(status.Message, "has not been validated yet") {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
}

// rulesLookedAt waits until the operator has looked at the rules as they are now. A run that is suspended does not ask for that.
func (s *stage) rulesLookedAt() {
	s.Helper()
	s.Eventually("the rules are looked at", func() error {
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

func (s *stage) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: s.Name, Name: name}
}

func (s *stage) addRule(i int, change func(int, *v1alpha1.MutexRule)) {
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
	s.MadeUntilTheEnd(rule)
	s.rules = append(s.rules, v1alpha1.Reference{Name: rule.Name, Namespace: rule.Namespace})
}

// roles makes a Node one of some pools.
func roles(names ...string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		for _, name := range names {
			node.Labels["node-role.kubernetes.io/"+name] = ""
		}
	}
}

// upgrade sends the cluster to another version.
func (s *stage) upgrade() {
	s.Helper()
	s.to = nextVersion()
	if err := openshift.Upgrade(s.Context(), s.Client, s.to); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) get(name string) *v1alpha1.MutexRunConfig {
	s.Helper()
	run := &v1alpha1.MutexRunConfig{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Name, Name: name}, run); err != nil {
		s.Fatal(err)
	}
	return run
}

// await waits until the run is in a phase, and returns it.
func (s *stage) await(phase v1alpha1.Phase) *v1alpha1.MutexRunConfig { return s.awaitRun("run", phase) }

func (s *stage) awaitRun(name string, phase v1alpha1.Phase) (run *v1alpha1.MutexRunConfig) {
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

// node waits until a node of the run is in a phase.
func (s *stage) awaitPhase(node string, phase v1alpha1.NodePhase) {
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

func (s *stage) change(change func(run *v1alpha1.MutexRunConfig)) {
	s.Helper()
	harness.Update(s.World, s.get, "run", change)
}

func (s *stage) changeRule(name string, change func(*v1alpha1.MutexRule)) {
	s.Helper()
	harness.Update(s.World, func(name string) *v1alpha1.MutexRule {
		rule := &v1alpha1.MutexRule{}
		if err := s.Client.Get(s.Context(), client.ObjectKey{Namespace: s.Name, Name: name}, rule); err != nil {
			s.Fatal(err)
		}
		return rule
	}, name, change)
}

func (s *stage) getPool(name string) *mcfgv1.MachineConfigPool {
	s.Helper()
	pool := &mcfgv1.MachineConfigPool{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, pool); err != nil {
		s.Fatal(err)
	}
	return pool
}

func (s *stage) changePool(name string, change func(*mcfgv1.MachineConfigPool)) {
	s.Helper()
	harness.Update(s.World, s.getPool, name, change)
}

// state is what a run must give back: the specs of all pools, and the marks of nodes and pools.
func (s *stage) state() string {
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

// restored checks that everything is as it was before the run.
func (s *stage) restored() {
	s.Helper()
	s.Eventually("everything is given back", func() error {
		if now := s.state(); now != s.before {
			return fmt.Errorf("there is\n%s\nbefore there was\n%s", now, s.before)
		}
		return nil
	})
}

// jobs lists the Jobs of the stage's namespace, as "rule kind node", in the order of their creation as far as a second tells.
func (s *stage) jobs() []batchv1.Job {
	s.Helper()
	list := &batchv1.JobList{}
	if err := s.Client.List(s.Context(), list, client.InNamespace(s.Name)); err != nil {
		s.Fatal(err)
	}
	return list.Items
}

// jobsOnce checks that each rule's Jobs ran exactly once for each node, and returns how many there are.
func (s *stage) jobsOnce() int {
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

// allWrites are the operator's since a mark, events, reviews and dry runs aside.
func (s *stage) allWrites(since cluster.AuditMark) []cluster.AuditEvent {
	s.Helper()
	if _, err := env.Audit().Sync(s.Context()); err != nil {
		s.Fatal(err)
	}
	all, err := env.Audit().Since(since)
	if err != nil {
		s.Fatal(err)
	}
	return slices.DeleteFunc(all, func(e cluster.AuditEvent) bool {
		told := e.Resource == "events" || strings.HasSuffix(e.Resource, "reviews") || strings.Contains(e.URI, "dryRun")
		return e.User != harness.User || !e.Write() || told
	})
}

// made names the Jobs that the operator has made since, in their order.
func (s *stage) made(since cluster.AuditMark) []string {
	s.Helper()
	var names []string
	for _, e := range s.allWrites(since) {
		if e.Verb == "create" && e.Resource == "jobs" && e.Code == http.StatusCreated {
			names = append(names, e.Name)
		}
	}
	return names
}

// failPod has the first pod of a Job end with an error.
func (s *stage) failPod() {
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

// versionOf is the version that a node has.
func (s *stage) versionOf(node string) string {
	s.Helper()
	return s.Node(node).Labels[plan.LabelVersion]
}

func pausedPool(pool *mcfgv1.MachineConfigPool) { pool.Spec.Paused = true }
