package upgrade

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// hangs has the upgrade of a node stay in a step until resume.
func (s *scenario) hangs(node, step string) {
	s.Helper()
	harness.Update(s.World, s.Node, node, func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, step)
	})
}

func (s *scenario) resume(node string) {
	s.Helper()
	harness.Update(s.World, s.Node, node, func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
}

// TestCleanUp_UpgradedWhileSuspended suspends a run while a node is being upgraded, and OpenShift upgrades that node and the other one. After the
// run is resumed, the first one is cleaned up, because its Job had run, and no MachineConfigPool is paused for that.
func TestCleanUp_UpgradedWhileSuspended(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	s.hangs(s.nodes[0], "drain")
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	s.stop("suspend")
	s.expectRestored()
	s.resume(s.nodes[0])
	s.Eventually("OpenShift upgrades both", func() error {
		for _, node := range s.nodes {
			if version := s.versionOf(node); version != s.to {
				return fmt.Errorf("node %s has version %s", node, version)
			}
		}
		return nil
	})
	mark := s.AuditMark()
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	kinds := map[string]string{}
	for _, job := range s.jobs() {
		kinds[job.Labels[plan.LabelKind]] = job.Annotations[plan.AnnotationNode]
	}
	if count := s.expectJobsOnce(); count != 2 || kinds[string(plan.BeforeUpgrade)] != s.nodes[0] || kinds[string(plan.AfterUpgrade)] != s.nodes[0] {
		t.Errorf("%d Jobs: %v", count, kinds)
	}
	for _, event := range s.AllWrites(mark) {
		if event.Resource == "machineconfigpools" {
			t.Errorf("a pool was written: %s %s", event.Verb, event.Name)
		}
	}
}

// TestTargetRemovedDuringRun removes a target from a run while one of its nodes is being upgraded: its MachineConfigPool is restored, and the run
// continues with the other target.
func TestTargetRemovedDuringRun(t *testing.T) {
	s := newScenario(t, scenarioOptions{pools: 2, nodes: 1})
	s.hangs(s.nodes[0], "drain")
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexTargets = run.Spec.MutexTargets[1:] })
	s.Eventually("the pool is given back", func() error {
		pool := s.getMCP(s.targets[0])
		if pool.Spec.Paused || pool.Annotations[plan.AnnotationReservation] != "" {
			return fmt.Errorf("paused %t, claim %q", pool.Spec.Paused, pool.Annotations[plan.AnnotationReservation])
		}
		return nil
	})
	s.resume(s.nodes[0])
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	s.expectJobsOnce()
	for _, node := range s.nodes {
		if version := s.versionOf(node); node != s.nodes[0] && version != s.to {
			t.Errorf("node %s has version %s", node, version)
		}
	}
}

// TestWindow_Closed checks that no node is started while no window is open; the MachineConfigPools are paused.
func TestWindow_Closed(t *testing.T) {
	s := newScenario(t, scenarioOptions{run: func(run *v1alpha1.MutexRunConfig) {
		// There is no 30th of February.
		run.Spec.Windows = []v1alpha1.Window{{Schedule: "0 0 30 2 *", Duration: metav1.Duration{Duration: time.Minute}}}
	}})
	s.upgrade()
	s.Eventually("the run waits for its window", func() error {
		if status := s.get("run").Status; status.Phase != v1alpha1.PhaseWaiting || !strings.Contains(status.Message, "no maintenance window is open") {
			return fmt.Errorf("it is %s: %s", status.Phase, status.Message)
		}
		return nil
	})
	if !s.getMCP(s.targets[0]).Spec.Paused || len(s.jobs()) > 0 {
		t.Errorf("the pool is paused: %t; %d Jobs", s.getMCP(s.targets[0]).Spec.Paused, len(s.jobs()))
	}
	s.change(func(run *v1alpha1.MutexRunConfig) {
		run.Spec.Windows[0] = v1alpha1.Window{Schedule: "* * * * *", Duration: metav1.Duration{Duration: time.Minute}}
	})
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	s.expectJobsOnce()
}

// TestNodeTimeout stops the run when a node takes too long. It continues when the node has the version.
func TestNodeTimeout(t *testing.T) {
	s := newScenario(t, scenarioOptions{run: func(run *v1alpha1.MutexRunConfig) { run.Spec.NodeTimeout = &metav1.Duration{Duration: 2 * time.Second} }})
	s.hangs(s.nodes[0], "config")
	s.upgrade()
	if run := s.await(v1alpha1.PhaseStopped); !strings.Contains(run.Status.Message, "does not have version") {
		t.Errorf("it says %q", run.Status.Message)
	}
	if version := s.versionOf(s.nodes[1]); version == s.to {
		t.Errorf("node %s has version %s", s.nodes[1], version)
	}
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.NodeTimeout = nil })
	s.resume(s.nodes[0])
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if count := s.expectJobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// TestLease_Expires has another holder acquire the lease of a node and never release it.
func TestLease_Expires(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	s.TakeLease(s.nodes[0], "another", 3*time.Second)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	if count := s.expectJobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
	for _, node := range s.nodes {
		s.NoLease(node)
	}
}
