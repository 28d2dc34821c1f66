package machineconfig_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	testclock "k8s.io/utils/clock/testing"

	"github.com/drover-io/drover/sandbox/internal/machineconfig"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
)

func keyOf(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// is reports whether a Node is in a state.
func (s *stage) is(node, state string) error {
	s.Helper()
	if got := s.node(node).Annotations[openshift.AnnotationState]; got != state {
		return fmt.Errorf("%s is %s", node, got)
	}
	return nil
}

func TestPool_Paused(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.begin(openshift.Options{})
	s.pause("worker", true)
	trace := s.follow()
	s.upgrade(to)
	s.completed(to)
	message := s.condition("worker", mcfgv1.MachineConfigPoolUpdated, corev1.ConditionFalse)
	s.condition("worker", mcfgv1.MachineConfigPoolUpdating, corev1.ConditionFalse)
	pool := s.pool("worker")
	if pool.Spec.Configuration.Name == pool.Status.Configuration.Name || pool.Status.UpdatedMachineCount != 0 || message != "" {
		t.Errorf("the paused pool has the target %s and %+v", pool.Spec.Configuration.Name, pool.Status)
	}
	if trace.count("worker-") != 0 {
		t.Errorf("it happened that %v", trace.order)
	}
	s.pause("worker", false)
	s.reaches(to)
}

func TestPool_PausedDuringAnUpdate(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.begin(openshift.Options{})
	s.annotate("worker-0", openshift.AnnotationHang, string(openshift.StepReboot))
	s.upgrade(to)
	s.step("worker-0", openshift.StepReboot)
	s.eventually("worker-0 is down", func() error {
		if s.report().find("worker-0").Ready {
			return errors.New("it is Ready")
		}
		return nil
	})
	s.pause("worker", true)
	s.annotate("worker-0", openshift.AnnotationHang, "")
	s.runs("worker-0", to)
	s.eventually("the pool counts it", func() error {
		if pool := s.pool("worker"); pool.Status.UpdatedMachineCount != 1 || pool.Status.UnavailableMachineCount != 0 {
			return fmt.Errorf("%+v", pool.Status)
		}
		return nil
	})
	if got := s.report().find("worker-1"); got.Desired != from {
		t.Errorf("worker-1 is %+v", got)
	}
}

func TestPool_MaxUnavailable(t *testing.T) {
	names := []string{"worker-0", "worker-1", "worker-2", "worker-3", "worker-4", "worker-5", "worker-6", "worker-7"}
	for value, want := range map[string]int{`2`: 2, `"50%"`: 4} {
		t.Run(strings.Trim(value, `"%`), func(t *testing.T) {
			s := newStage(t)
			s.addNodes([]string{"worker"}, names...)
			s.patch(&mcfgv1.MachineConfigPool{}, "worker", `{"spec":{"maxUnavailable":%s}}`, value)
			s.begin(openshift.Options{})
			trace := s.follow()
			s.upgrade(to)
			s.reaches(to)
			if got := trace.atOnce("worker"); got < 1 || got > want {
				t.Errorf("%d were in an update at once, want at most %d", got, want)
			}
		})
	}
}

// A Node that is cordoned counts as unavailable and waits.
func TestPool_CordonedNode(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.patch(&mcfgv1.MachineConfigPool{}, "worker", `{"spec":{"maxUnavailable":2}}`)
	s.begin(openshift.Options{})
	s.patch(&corev1.Node{}, "worker-0", `{"spec":{"unschedulable":true}}`)
	s.upgrade(to)
	s.runs("worker-1", to)
	s.completed(to)
	if got := s.report().find("worker-0"); got.Desired != from || !got.Cordoned {
		t.Errorf("worker-0 is %+v", got)
	}
	s.patch(&corev1.Node{}, "worker-0", `{"spec":{"unschedulable":null}}`)
	s.reaches(to)
}

// What a gate does: the selectors of two pools hang on a label, both are edited, and a Node that loses the label moves.
func TestPool_NodesMoveBetweenPools(t *testing.T) {
	s := newStage(t, "target", "canary")
	s.addNodes([]string{"worker", "target"}, "n-0", "n-1", "n-2")
	s.begin(openshift.Options{})
	held := `{"key":"gate/held","operator":%q}`
	s.pause("target", true)
	for _, node := range []string{"n-0", "n-1", "n-2"} {
		s.label(node, "gate/held", true)
	}
	exists := `{"key":"node-role.kubernetes.io/target","operator":"Exists"}`
	s.patch(&mcfgv1.MachineConfigPool{}, "target", `{"spec":{"nodeSelector":{"matchExpressions":[%s]}}}`, fmt.Sprintf(held, "Exists"))
	s.patch(&mcfgv1.MachineConfigPool{}, "canary",
		`{"spec":{"nodeSelector":{"matchLabels":null,"matchExpressions":[%s,%s]}}}`, exists, fmt.Sprintf(held, "DoesNotExist"))
	s.upgrade(to)
	s.completed(to)
	if got := s.report().find("n-1"); got.Pool != "target" || got.Desired != from {
		t.Errorf("n-1 is %+v", got)
	}
	s.label("n-1", "gate/held", false)
	s.runs("n-1", to)
	if got := s.report().find("n-1"); got.Pool != "canary" {
		t.Errorf("n-1 is %+v", got)
	}
	config := s.node("n-1").Annotations[openshift.AnnotationCurrentConfig]
	if !strings.HasPrefix(config, "rendered-canary-") {
		t.Errorf("n-1 runs %s", config)
	}
	// The new pool is paused: who comes now waits there.
	s.pause("canary", true)
	s.label("n-0", "gate/held", false)
	s.eventually("n-0 is counted", func() error {
		if pool := s.pool("canary"); pool.Status.MachineCount != 2 || pool.Status.UpdatedMachineCount != 1 {
			return fmt.Errorf("%+v", pool.Status)
		}
		return nil
	})
	if got := s.report().find("n-0"); got.Desired != from || got.State != openshift.StateDone {
		t.Errorf("n-0 is %+v", got)
	}
	s.pause("canary", false)
	s.runs("n-0", to)
}

func TestPool_SeveralCustomPoolsOfANode(t *testing.T) {
	s := newStage(t, "infra", "canary")
	s.addNodes([]string{"worker", "infra"}, "n-0", "n-1")
	s.begin(openshift.Options{})
	s.label("n-0", "node-role.kubernetes.io/canary", true)
	for _, pool := range []string{"infra", "canary"} {
		message := s.condition(pool, mcfgv1.MachineConfigPoolDegraded, corev1.ConditionTrue)
		if !strings.Contains(message, "node n-0") || !strings.Contains(message, "canary and infra") {
			t.Errorf("pool %s says %q", pool, message)
		}
		s.condition(pool, mcfgv1.MachineConfigPoolNodeDegraded, corev1.ConditionTrue)
	}
	trace := s.follow()
	s.upgrade(to)
	s.completed(to)
	s.runs("n-1", to)
	if trace.count("n-0") != 0 {
		t.Errorf("it happened that %v", trace.order)
	}
	s.label("n-0", "node-role.kubernetes.io/infra", false)
	s.runs("n-0", to)
	for _, pool := range []string{"infra", "canary"} {
		s.condition(pool, mcfgv1.MachineConfigPoolDegraded, corev1.ConditionFalse)
	}
}

func TestPool_CustomPoolWithoutConfigurationsOfWorkers(t *testing.T) {
	s := newStage(t, "infra")
	s.patch(&mcfgv1.MachineConfigPool{}, "infra", `{"spec":{"machineConfigSelector":{"matchExpressions":null,"matchLabels":{%q:"infra"}}}}`,
		openshift.RoleLabel)
	s.must(s.client.Create(t.Context(), openshift.NewConfig("99-infra", "infra")))
	s.addNodes([]string{"worker", "infra"}, "n-0")
	s.play(openshift.Options{})
	message := s.condition("infra", mcfgv1.MachineConfigPoolRenderDegraded, corev1.ConditionTrue)
	s.condition("infra", mcfgv1.MachineConfigPoolDegraded, corev1.ConditionTrue)
	if !strings.Contains(message, "must select") {
		t.Errorf("it says %q", message)
	}
	if config := s.node("n-0").Annotations[openshift.AnnotationDesiredConfig]; config != "" {
		t.Errorf("n-0 is to run %s", config)
	}
	s.patch(&mcfgv1.MachineConfigPool{}, "infra", `{"spec":{"machineConfigSelector":{"matchLabels":{%q:"worker"}}}}`, openshift.RoleLabel)
	s.condition("infra", mcfgv1.MachineConfigPoolRenderDegraded, corev1.ConditionFalse)
	s.runs("n-0", from)
}

func TestPool_NodeFails(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0", "worker-1")
	s.begin(openshift.Options{Degrade: map[string]string{"worker-1": "by option"}})
	s.annotate("worker-0", openshift.AnnotationDegrade, "disk full")
	s.upgrade(to)
	message := s.condition("worker", mcfgv1.MachineConfigPoolNodeDegraded, corev1.ConditionTrue)
	s.condition("worker", mcfgv1.MachineConfigPoolDegraded, corev1.ConditionTrue)
	node, pool := s.node("worker-0"), s.pool("worker")
	if !strings.Contains(message, "worker-0: disk full") || node.Annotations[openshift.AnnotationReason] != "disk full" || !node.Spec.Unschedulable {
		t.Errorf("the pool says %q, the node %v", message, node.Annotations)
	}
	if pool.Status.DegradedMachineCount != 1 || pool.Status.UnavailableMachineCount != 1 {
		t.Errorf("the pool counts %+v", pool.Status)
	}
	if got := s.report().find("worker-1"); got.Desired != from {
		t.Errorf("maxUnavailable is 1, and worker-1 is %+v", got)
	}
	s.annotate("worker-0", openshift.AnnotationDegrade, "")
	s.runs("worker-0", to)
	s.eventually("worker-1 fails, too", func() error { return s.is("worker-1", openshift.StateDegraded) })
}

func TestPool_DrainWaitsForDisruptionBudget(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"worker"}, "worker-0")
	s.begin(openshift.Options{EvictionRetry: 10 * time.Millisecond})
	s.addPod("precious", "worker-0", nil)
	s.eventually("the pod runs", func() error {
		pod := &corev1.Pod{}
		s.must(s.client.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: "precious"}, pod))
		if pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", pod.Status.Phase)
		}
		return nil
	})
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "precious"},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: new(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "precious"}},
		},
	}
	s.must(s.client.Create(t.Context(), budget))
	allow := func(disruptions int32) {
		budget.Status = policyv1.PodDisruptionBudgetStatus{
			ObservedGeneration: budget.Generation, DisruptionsAllowed: disruptions, CurrentHealthy: 1, DesiredHealthy: 1, ExpectedPods: 1,
		}
		s.must(s.client.Status().Update(t.Context(), budget)) // kube-controller-manager does not run here
	}
	allow(0)
	mark, err := env.Audit().Sync(t.Context())
	s.must(err)
	s.upgrade(to)
	s.eventually("evictions are refused", func() error {
		counts, err := env.Audit().Counts(mark, func(e *cluster.AuditEvent) bool { return e.Subresource == "eviction" && e.Code == 429 })
		s.must(err)
		for _, count := range counts {
			if count >= 2 {
				return nil
			}
		}
		return fmt.Errorf("%v", counts)
	})
	s.step("worker-0", openshift.StepDrain)
	allow(1)
	s.reaches(to)
	if s.hasPod("precious") {
		t.Error("the pod is there still")
	}
}

// Delays go on where they were when the process comes back: in every step, by a clock that the test moves.
func TestSimulator_RestartInEveryStep(t *testing.T) {
	s := newStage(t)
	s.addNodes([]string{"master"}, "master-0")
	s.addNodes([]string{"worker"}, "worker-0")
	clock := testclock.NewFakeClock(time.Now())
	opts := openshift.Options{
		ControlPlane: time.Hour, Completion: time.Hour, Drain: time.Hour, Config: time.Hour, Reboot: time.Hour, Clock: clock,
	}
	s.begin(opts)
	nodes := []string{"master-0", "worker-0"}
	for _, node := range nodes {
		s.annotate(node, openshift.AnnotationHang, string(openshift.StepDrain))
	}
	trace := s.follow()
	s.upgrade(to)
	restart := func() {
		s.Helper()
		s.end()
		started := make(chan struct{})
		again := opts
		again.Started = func() { close(started) }
		s.play(again)
		<-started
	}
	stage := func(want machineconfig.Stage) {
		s.Helper()
		s.eventually("the cluster is at "+string(want), func() error {
			if got := s.report().Stage; got != want {
				return fmt.Errorf("it is at %s", got)
			}
			return nil
		})
	}
	// pass moves the clock until something is over. That each Node hangs in the step to come keeps it from being missed.
	pass := func(what string, over func() bool) {
		s.Helper()
		s.eventually(what, func() error {
			if over() {
				return nil
			}
			clock.Step(time.Hour)
			return errors.New("it goes on")
		})
	}
	stage(machineconfig.StageControlPlane)
	restart()
	stage(machineconfig.StageControlPlane)
	pass("the control plane", func() bool { return s.report().Stage == machineconfig.StageMasters })
	steps := []openshift.Step{openshift.StepDrain, openshift.StepConfig, openshift.StepReboot, openshift.StepBoot}
	for _, node := range nodes {
		for i, step := range steps {
			s.step(node, step)
			restart()
			s.step(node, step)
			if i+1 == len(steps) {
				break
			}
			next := steps[i+1]
			s.annotate(node, openshift.AnnotationHang, string(next))
			pass(string(step), func() bool { return s.report().find(node).Step == string(next) })
		}
		s.annotate(node, openshift.AnnotationHang, "")
		s.runs(node, to)
	}
	pass("the end", func() bool { return s.report().Reached(to) })
	want := []string{"Done", "Done", "Working", "Working", "Working", "Working", "Done"}
	for _, node := range nodes {
		s.eventually(node+" was seen through all of it", func() error {
			var states []string
			for _, line := range trace.seen(node) {
				states = append(states, strings.Fields(line)[0])
			}
			if !slices.Equal(states, want) {
				return fmt.Errorf("it went through %q", trace.seen(node))
			}
			return nil
		})
	}
}

// simulatorStatus returns the status of the simulator's process; the zero value if it was never started.
func simulatorStatus(t *testing.T) (status cluster.Status) {
	t.Helper()
	for _, one := range env.Status(t.Context()) {
		if one.Component == cluster.MachineConfig {
			status = one
		}
	}
	return status
}

// The process of the sandbox: killed in the middle of everything, and started again.
func TestProcess_KilledAndResumed(t *testing.T) {
	s := newStage(t)
	names := []string{"worker-0", "worker-1", "worker-2", "worker-3"}
	s.addNodes([]string{"worker"}, names...)
	if status := simulatorStatus(t); status.State == "" && env.StartComponent(t.Context(), cluster.MachineConfig) == nil {
		t.Error("it resumes what was never started")
	}
	s.must(env.StopSimulator(cluster.MachineConfig))
	s.must(env.StartMachineConfig(t.Context(), openshift.Options{Config: 10 * time.Millisecond}))
	t.Cleanup(func() { s.must(env.StopSimulator(cluster.MachineConfig)) })
	if status := simulatorStatus(t); status.State != "running" || status.PID == 0 {
		t.Errorf("it is %+v", status)
	}
	s.upgrade(to)
	for _, name := range names[:2] {
		s.runs(name, to)
		s.must(env.Kill(cluster.MachineConfig, syscall.SIGKILL))
		if status := simulatorStatus(t); status.State != "stopped" {
			t.Errorf("killed, it is %+v", status)
		}
		s.must(env.StartComponent(t.Context(), cluster.MachineConfig))
	}
	s.reaches(to)
	if err := env.StartMachineConfig(t.Context(), openshift.Options{}); err == nil {
		t.Error("it starts a second one")
	}
}
