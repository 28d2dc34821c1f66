package upgrade

import (
	"errors"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// turns goes on for so many passes, OpenShift too, until something is so.
func (s *stage) turns(until func() bool) {
	s.t.Helper()
	for range 100 {
		if until() {
			return
		}
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		if !until() {
			s.play()
		}
	}
	s.t.Fatalf("it never comes: %s, %s", s.run().Status.Phase, s.run().Status.Message)
}

// node reads a Node.
func (s *stage) node(name string) *corev1.Node {
	s.t.Helper()
	n := &corev1.Node{}
	s.must(s.client.Get(s.t.Context(), types.NamespacedName{Name: name}, n))
	return n
}

// A run is suspended when a node has been let go, and the node comes to the version by itself: its clean-up is owed when the run goes on,
// and no pool is needed for that.
func TestACleanUpIsOwedAfterASuspension(t *testing.T) {
	s := newStage(t, cast()...)
	s.turns(func() bool { return plan.ReleaseOf(s.node("n1")) != nil })
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	s.turns(func() bool { return s.run().Status.Phase == v1alpha1.PhaseSuspended })
	for _, name := range []string{"n1", "n2"} {
		edit(s, s.node(name), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
	}
	before := s.state()
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	s.turns(func() bool {
		if now := s.state(); now != before {
			t.Fatalf("there is\n%s\nbefore there was\n%s", now, before)
		}
		return s.run().Status.Phase == v1alpha1.PhaseDone
	})
	if len(s.made) != 3 {
		t.Errorf("the Jobs %v were made", s.made)
	}
	held, err := s.Lease.HeldByOther(t.Context(), "n1")
	if s.must(err); held != nil {
		t.Errorf("the lease is held: %v", held)
	}
	// What is settled stays so, also without the Jobs that show it.
	s.must(s.client.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace("numo"),
		client.MatchingLabels{plan.LabelKind: string(plan.AfterUpgrade)}))
	s.rest(v1alpha1.PhaseDone)
	if len(s.made) != 3 {
		t.Errorf("the Jobs %v were made", s.made)
	}
}

// A target is taken out of the run when one of its nodes has been let go: each is in one pool at each moment, and the pool is as it was.
func TestATargetIsTakenOut(t *testing.T) {
	objects := append(cast(), pool("other", byRole("other")),
		&v1alpha1.MutexTarget{ObjectMeta: named("second"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"other"}}})
	s := newStage(t, objects...)
	before := s.state()
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
		run.Spec.MutexTargets = append(run.Spec.MutexTargets, v1alpha1.Reference{Name: "second"})
	})
	s.turns(func() bool { return plan.ReleaseOf(s.node("n1")) != nil })
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexTargets = run.Spec.MutexTargets[1:] })
	s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	s.each = func() { s.inOnePool(3) }
	for range 20 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	infra := pool("infra", nil)
	s.must(s.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
	if infra.Spec.Paused || infra.Annotations[plan.AnnotationClaim] != "" || s.node("n1").Labels[plan.LabelRun] != "" {
		t.Errorf("the pool is %+v %v, the node has %v", infra.Spec, infra.Annotations, s.node("n1").Labels)
	}
	s.rest(v1alpha1.PhaseDone)
	if now := s.state(); now != before {
		t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
	}
}

// While a run cannot go on, a node that joins its pool is held back like the others, and one that joins the canary pool stays there.
func TestANodeJoinsARunThatCannotGoOn(t *testing.T) {
	s := newStage(t, cast()...)
	before := s.state()
	s.turns(func() bool { return len(s.made) > 0 })
	s.must(s.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	own := node("n4", "other")
	own.Labels["isCanary"] = ""
	for _, n := range []*corev1.Node{node("n3", "infra"), own} {
		s.must(s.client.Create(t.Context(), n))
	}
	s.must(s.pass())
	s.must(s.pass())
	if s.run().Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("it is %s", s.run().Status.Phase)
	}
	s.inOnePool(4)
	s.must(s.client.Delete(t.Context(), s.run()))
	for range 30 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	for _, name := range []string{"n3", "n4"} {
		s.must(s.client.Delete(t.Context(), s.node(name)))
	}
	if now := s.state(); now != before {
		t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
	}
}

// A dry run that is asked for in the middle begins no other node, and brings those to their end that were begun.
func TestADryRunInTheMiddle(t *testing.T) {
	s := newStage(t, cast()...)
	s.turns(func() bool { return plan.ReleaseOf(s.node("n1")) != nil })
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = true })
	for range 20 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		s.play()
	}
	run := s.run()
	if run.Status.Phase != v1alpha1.PhaseWaiting || run.Status.Done != 1 || len(s.made) != 3 || !strings.Contains(run.Status.Message, "dryRun") {
		t.Errorf("it is %s, %d done: %s; the Jobs %v", run.Status.Phase, run.Status.Done, run.Status.Message, s.made)
	}
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = false })
	s.rest(v1alpha1.PhaseDone)
}

// A run that cannot be given back says so while it is being deleted.
func TestADeletionThatIsRefused(t *testing.T) {
	s := newStage(t, cast()...)
	s.turns(func() bool { return len(s.made) > 0 })
	s.fail["patch MachineConfigPool"] = apierrors.NewForbidden(mcfgv1.Resource("machineconfigpools"), "infra", errors.New("no"))
	s.must(s.client.Delete(t.Context(), s.run()))
	for range 3 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if message := s.run().Status.Message; !strings.Contains(message, "it is being deleted") || !strings.Contains(message, "forbidden") {
		t.Errorf("it says %q", message)
	}
	delete(s.fail, "patch MachineConfigPool")
	for range 10 {
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
	}
	if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{}); !apierrors.IsNotFound(err) {
		t.Errorf("the run is still there: %v", err)
	}
}
