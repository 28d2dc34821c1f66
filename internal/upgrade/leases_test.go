package upgrade

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// TestReconcile_LeaseLost has another holder acquire the lease of a node in progress.
func TestReconcile_LeaseLost(t *testing.T) {
	f := newFixture(t, newObjects()...)
	for range 100 {
		if len(f.created) > 0 {
			break
		}
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	}
	ours := &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: f.clock}
	other := &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: "another", Clock: f.clock}
	f.must(ours.Release(t.Context(), "n1"))
	_, err := other.Acquire(t.Context(), newNode("n1", "infra"))
	f.must(err)
	f.simulate()
	count := len(f.created)
	for range 5 {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		f.simulate()
	}
	if len(f.created) != count {
		t.Errorf("the Jobs %v were created", f.created)
	}
	f.must(other.Release(t.Context(), "n1"))
	f.reconcileToRest(v1alpha1.PhaseDone)
}

// TestLeases_InvalidRun: an invalid run renews the leases of nodes in progress, and acquires none of nodes that are done.
func TestLeases_InvalidRun(t *testing.T) {
	f := newHalfDone(t)
	f.must(f.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	for range 3 {
		f.clock.SetTime(f.clock.Now().Add(30 * time.Minute))
		f.must(f.reconcile())
		if f.run().Status.Phase != v1alpha1.PhaseInvalid || f.lease("n1") != nil || !f.renewed("n2") {
			t.Fatalf("it is %s; the leases are %v and %v", f.run().Status.Phase, f.lease("n1"), f.lease("n2"))
		}
	}
}

// TestLeases_RunWaitsForLabels has a node join that cannot be labeled.
func TestLeases_RunWaitsForLabels(t *testing.T) {
	f := newHalfDone(t)
	f.fail["patch Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n3", errors.New("no"))
	f.must(f.client.Create(t.Context(), newNode("n3", "infra")))
	for range 3 {
		f.clock.SetTime(f.clock.Now().Add(30 * time.Minute))
		f.must(f.reconcile())
		if f.lease("n1") != nil || !f.renewed("n2") {
			t.Fatalf("the leases are %v and %v", f.lease("n1"), f.lease("n2"))
		}
	}
	delete(f.fail, "patch Node")
	f.reconcileToRest(v1alpha1.PhaseDone)
}

// TestLeases_CrashBeforeStatus ends the process after it acquired the lease of a node for a clean-up, and before the status shows that.
func TestLeases_CrashBeforeStatus(t *testing.T) {
	f := newResumed(t)
	f.fail["status MutexRunConfig"] = errCrash
	for range 3 {
		f.must(f.reconcile())
	}
	if f.lease("n1") == nil {
		t.Fatal("the lease is not taken")
	}
	delete(f.fail, "status MutexRunConfig")
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	f.reconcileUntil(func() bool { return f.run().Status.Phase == v1alpha1.PhaseSuspended })
	f.must(f.reconcile())
	if lease := f.lease("n1"); lease != nil {
		t.Errorf("the lease is held: %v", lease)
	}
}

// TestLeases_NodeOfOtherRun: all runs have one holder, so a run must not release the lease of another run's node.
func TestLeases_NodeOfOtherRun(t *testing.T) {
	f := newResumed(t)
	update(f, f.getNode("n2"), func(n *corev1.Node) { n.Labels[plan.LabelRun] = "another" })
	_, err := f.Leases.Acquire(t.Context(), f.getNode("n2"))
	f.must(err)
	f.reconcileToRest(v1alpha1.PhaseDone)
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	f.reconcileToRest(v1alpha1.PhaseSuspended)
	if f.lease("n2") == nil {
		t.Error("the lease was released")
	}
}
