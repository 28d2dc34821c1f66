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

// hangs has the upgrade of a node stay in a step until goesOn.
func (s *stage) hangs(node, step string) {
	s.Helper()
	harness.Update(s.World, s.Node, node, func(node *corev1.Node) {
		metav1.SetMetaDataAnnotation(&node.ObjectMeta, openshift.AnnotationHang, step)
	})
}

func (s *stage) goesOn(node string) {
	s.Helper()
	harness.Update(s.World, s.Node, node, func(node *corev1.Node) { delete(node.Annotations, openshift.AnnotationHang) })
}

// A run is suspended while a node is being upgraded, and OpenShift upgrades that one and the other. When the run goes on the first one is
// cleaned up, since its Job had run, and the other one is not; no pool is paused for that.
func TestACleanUpIsOwed(t *testing.T) {
	s := newStage(t, plot{})
	s.hangs(s.nodes[0], "drain")
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	s.stop("suspend")
	s.restored()
	s.goesOn(s.nodes[0])
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
	s.restored()
	kinds := map[string]string{}
	for _, job := range s.jobs() {
		kinds[job.Labels[plan.LabelKind]] = job.Annotations[plan.AnnotationNode]
	}
	if count := s.jobsOnce(); count != 2 || kinds[string(plan.BeforeUpgrade)] != s.nodes[0] || kinds[string(plan.AfterUpgrade)] != s.nodes[0] {
		t.Errorf("%d Jobs: %v", count, kinds)
	}
	for _, event := range s.allWrites(mark) {
		if event.Resource == "machineconfigpools" {
			t.Errorf("a pool was written: %s %s", event.Verb, event.Name)
		}
	}
}

// A target is taken out of a run while one of its nodes is being upgraded: its pool is given back, and the run goes on with the other.
func TestATargetIsTakenOutInTheMiddle(t *testing.T) {
	s := newStage(t, plot{pools: 2, nodes: 1})
	s.hangs(s.nodes[0], "drain")
	s.upgrade()
	s.awaitPhase(s.nodes[0], v1alpha1.NodeUpgrading)
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexTargets = run.Spec.MutexTargets[1:] })
	s.Eventually("the pool is given back", func() error {
		pool := s.getPool(s.pools[0])
		if pool.Spec.Paused || pool.Annotations[plan.AnnotationReservation] != "" {
			return fmt.Errorf("paused %t, claim %q", pool.Spec.Paused, pool.Annotations[plan.AnnotationReservation])
		}
		return nil
	})
	s.goesOn(s.nodes[0])
	s.await(v1alpha1.PhaseDone)
	s.restored()
	s.jobsOnce()
	for _, node := range s.nodes {
		if version := s.versionOf(node); node != s.nodes[0] && version != s.to {
			t.Errorf("node %s has version %s", node, version)
		}
	}
}

// No node is begun while no window is open; the pools are paused meanwhile.
func TestAWindow(t *testing.T) {
	s := newStage(t, plot{run: func(run *v1alpha1.MutexRunConfig) {
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
	if !s.getPool(s.pools[0]).Spec.Paused || len(s.jobs()) > 0 {
		t.Errorf("the pool is paused: %t; %d Jobs", s.getPool(s.pools[0]).Spec.Paused, len(s.jobs()))
	}
	s.change(func(run *v1alpha1.MutexRunConfig) {
		run.Spec.Windows[0] = v1alpha1.Window{Schedule: "* * * * *", Duration: metav1.Duration{Duration: time.Minute}}
	})
	s.await(v1alpha1.PhaseDone)
	s.restored()
	s.jobsOnce()
}

// A node that takes too long stops the run, which goes on when the node has come to its version.
func TestANodeTakesTooLong(t *testing.T) {
	s := newStage(t, plot{run: func(run *v1alpha1.MutexRunConfig) { run.Spec.NodeTimeout = &metav1.Duration{Duration: 2 * time.Second} }})
	s.hangs(s.nodes[0], "config")
	s.upgrade()
	if run := s.await(v1alpha1.PhaseStopped); !strings.Contains(run.Status.Message, "does not have version") {
		t.Errorf("it says %q", run.Status.Message)
	}
	if version := s.versionOf(s.nodes[1]); version == s.to {
		t.Errorf("node %s has version %s", s.nodes[1], version)
	}
	s.change(func(run *v1alpha1.MutexRunConfig) { run.Spec.NodeTimeout = nil })
	s.goesOn(s.nodes[0])
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if count := s.jobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
}

// Somebody holds the lease of a node and never comes back: when it has run out the node has its turn.
func TestALeaseThatRunsOut(t *testing.T) {
	s := newStage(t, plot{})
	s.TakeLease(s.nodes[0], "somebody", 3*time.Second)
	s.upgrade()
	s.await(v1alpha1.PhaseDone)
	s.restored()
	if count := s.jobsOnce(); count != 4 {
		t.Errorf("%d Jobs", count)
	}
	for _, node := range s.nodes {
		s.NoLease(node)
	}
}
