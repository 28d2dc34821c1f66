package upgrade

import (
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

func minute() *metav1.Duration { return &metav1.Duration{Duration: time.Minute} }

// lease reads the lease of a node; nil for none.
func (s *stage) lease(node string) *coordinationv1.Lease {
	s.t.Helper()
	lease := &coordinationv1.Lease{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name(node)}, lease)
	if apierrors.IsNotFound(err) {
		return nil
	}
	s.must(err)
	return lease
}

// renewed tells that the run has a node's lease, and has renewed it now.
func (s *stage) renewed(node string) bool {
	lease := s.lease(node)
	return lease != nil && nodelease.HolderOf(lease) == Holder && lease.Spec.RenewTime.Time.Equal(s.clock.Now())
}

// status is where a node stands, as the run says.
func (s *stage) status(node string) v1alpha1.NodeStatus {
	s.t.Helper()
	for _, n := range s.run().Status.Nodes {
		if n.Name == node {
			return n
		}
	}
	return v1alpha1.NodeStatus{}
}

// half has n1 done, and a Job run for n2.
func half(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, cast()...)
	s.turns(func() bool { return s.status("n2").Phase == v1alpha1.NodeRunningJobs })
	if s.status("n1").Phase != v1alpha1.NodeDone || plan.ReleaseOf(s.node("n1")) == nil {
		t.Fatalf("node n1 is %s, %v", s.status("n1").Phase, s.node("n1").Annotations)
	}
	return s
}

// A run that cannot go on keeps the leases of the nodes under way, those whose Jobs run among them, and takes none of a node that is done.
func TestTheLeasesOfARunThatCannotGoOn(t *testing.T) {
	s := half(t)
	s.must(s.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(30 * time.Minute))
		s.must(s.pass())
		if s.run().Status.Phase != v1alpha1.PhaseInvalid || s.lease("n1") != nil || !s.renewed("n2") {
			t.Fatalf("it is %s; the leases are %v and %v", s.run().Status.Phase, s.lease("n1"), s.lease("n2"))
		}
	}
}

// A node joins that cannot be labelled: the run waits for that, and keeps the leases meanwhile.
func TestTheLeasesOfARunThatWaits(t *testing.T) {
	s := half(t)
	s.fail["patch Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n3", errors.New("no"))
	s.must(s.client.Create(t.Context(), node("n3", "infra")))
	for range 3 {
		s.clock.SetTime(s.clock.Now().Add(30 * time.Minute))
		s.must(s.pass())
		if s.lease("n1") != nil || !s.renewed("n2") {
			t.Fatalf("the leases are %v and %v", s.lease("n1"), s.lease("n2"))
		}
	}
	delete(s.fail, "patch Node")
	s.rest(v1alpha1.PhaseDone)
}

// The process ends between taking the lease of a node that is cleaned up and saying so in the status: it is given back for all that.
func TestTheLeaseOfANodeThatIsOnlyCleanedUp(t *testing.T) {
	s := owing(t)
	s.fail["status MutexRunConfig"] = errCrash
	for range 3 {
		s.must(s.pass())
	}
	if s.lease("n1") == nil {
		t.Fatal("the lease is not taken")
	}
	delete(s.fail, "status MutexRunConfig")
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	s.turns(func() bool { return s.run().Status.Phase == v1alpha1.PhaseSuspended })
	s.must(s.pass())
	if lease := s.lease("n1"); lease != nil {
		t.Errorf("the lease is held: %v", lease)
	}
}

// All runs have one holder: a run that has nothing to do with a node leaves its lease to the run that has.
func TestTheLeaseOfAnothersNode(t *testing.T) {
	s := owing(t)
	edit(s, s.node("n2"), func(n *corev1.Node) { n.Labels[plan.LabelRun] = "another" })
	_, err := s.Lease.Acquire(t.Context(), s.node("n2"))
	s.must(err)
	s.rest(v1alpha1.PhaseDone)
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	s.rest(v1alpha1.PhaseSuspended)
	if s.lease("n2") == nil {
		t.Error("the lease is given back")
	}
}
