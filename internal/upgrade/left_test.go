package upgrade

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// jobs lists the Jobs that there are.
func (s *stage) jobs() []batchv1.Job {
	s.t.Helper()
	list := &batchv1.JobList{}
	s.must(s.client.List(s.t.Context(), list))
	return list.Items
}

// comes has OpenShift bring a node to the version by itself.
func (s *stage) comes(name string) {
	s.t.Helper()
	edit(s, s.node(name), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
}

// lives counts the Jobs that have a time to live.
func (s *stage) lives() int {
	count := 0
	for _, job := range s.jobs() {
		if job.Spec.TTLSecondsAfterFinished != nil {
			count++
		}
	}
	return count
}

// Both nodes are left out after their first Job has succeeded, and OpenShift upgrades them when the pool is given back. That Job stays until
// it is cleaned up after, so that it is not run again; no pool is paused any more for the one while the other one waits.
func TestNodesThatWereLeftOutAreCleanedUp(t *testing.T) {
	objects := cast()
	for _, object := range objects {
		switch o := object.(type) {
		case *v1alpha1.MutexRule:
			o.Spec.JobSpec.Raw = []byte(strings.Replace(string(o.Spec.JobSpec.Raw), "{", `{"ttlSecondsAfterFinished":60,`, 1))
		case *v1alpha1.MutexRunConfig:
			o.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
		}
	}
	s := newStage(t, objects...)
	s.fails = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationRule] == "numo/b" }
	before := s.state()
	s.rest(v1alpha1.PhaseDone)
	if run := s.run(); run.Status.Failed != 2 || run.Status.Settled != nil || len(s.made) != 4 || s.lives() > 0 {
		t.Fatalf("%d failed, settled %v, the Jobs %v, %d with a time to live", run.Status.Failed, run.Status.Settled, s.made, s.lives())
	}
	s.each = func() {
		if now := s.state(); now != before {
			t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
		}
	}
	s.comes("n1")
	s.rest(v1alpha1.PhaseDone)
	if run := s.run(); run.Status.Failed != 1 || run.Status.Settled != nil || len(s.made) != 5 || s.lives() > 0 {
		t.Fatalf("%d failed, settled %v, the Jobs %v, %d with a time to live", run.Status.Failed, run.Status.Settled, s.made, s.lives())
	}
	s.comes("n2")
	s.rest(v1alpha1.PhaseDone)
	if run := s.run(); run.Status.Done != 2 || run.Status.Settled == nil || len(s.made) != 6 || s.lives() != 2 {
		t.Errorf("%d done, settled %v, the Jobs %v, %d with a time to live", run.Status.Done, run.Status.Settled, s.made, s.lives())
	}
	for name, count := range s.made {
		if count != 1 {
			t.Errorf("Job %s was made %d times", name, count)
		}
	}
}

// A node is left out since its Job takes too long, and comes to the version by itself: nothing is settled while that Job runs, since it may
// end well yet, and then it is cleaned up after.
func TestALateJobOfANodeThatWasLeftOut(t *testing.T) {
	s := newStage(t, cast()...)
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
		run.Spec.OnJobFailure.Action, run.Spec.JobTimeout = v1alpha1.FailureSkipNode, minute()
	})
	s.hangs = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationNode] == "n1" }
	s.turns(func() bool { return s.status("n1").Phase == v1alpha1.NodeRunningJobs })
	s.clock.SetTime(s.clock.Now().Add(time.Hour))
	s.rest(v1alpha1.PhaseDone)
	s.comes("n1")
	s.rest(v1alpha1.PhaseDone)
	if run := s.run(); run.Status.Done != 2 || run.Status.Settled != nil || len(s.made) != 4 {
		t.Fatalf("%d done, settled %v, the Jobs %v", run.Status.Done, run.Status.Settled, s.made)
	}
	s.hangs = nil
	s.play()
	s.rest(v1alpha1.PhaseDone)
	if run := s.run(); run.Status.Done != 2 || run.Status.Settled == nil || len(s.made) != 5 {
		t.Errorf("%d done, settled %v, the Jobs %v", run.Status.Done, run.Status.Settled, s.made)
	}
}

// owing is a run that was suspended when n1 had been let go, and goes on when both nodes have the version.
func owing(t *testing.T) *stage {
	t.Helper()
	s := newStage(t, cast()...)
	s.turns(func() bool { return plan.ReleaseOf(s.node("n1")) != nil })
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	s.turns(func() bool { return s.run().Status.Phase == v1alpha1.PhaseSuspended })
	s.comes("n1")
	s.comes("n2")
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	return s
}

// A clean-up Job that no pool is needed for fails, or takes too long: the run stops, and says so until somebody has put it right.
func TestACleanUpThatIsOwedFails(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(job *batchv1.Job) bool
		text  string
	}{
		"fails":          {func(job *batchv1.Job) bool { return job.Labels[plan.LabelKind] == string(plan.AfterUpgrade) }, "has failed"},
		"takes too long": {nil, "has not ended within 1m0s"},
	} {
		s := owing(t)
		before := s.state()
		s.fails = c.fails
		s.turns(func() bool { return len(s.made) == 3 })
		if c.fails == nil {
			edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.JobTimeout = minute() })
			s.clock.SetTime(s.clock.Now().Add(time.Hour))
		} else {
			s.play()
		}
		for range 5 {
			s.must(s.pass())
			s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		}
		if run := s.run(); run.Status.Phase != v1alpha1.PhaseStopped || !strings.Contains(run.Status.Message, c.text) {
			t.Errorf("%s: it is %s: %s", name, run.Status.Phase, run.Status.Message)
		}
		if now := s.state(); now != before {
			t.Errorf("%s: there is\n%s\nbefore there was\n%s", name, now, before)
		}
		s.fails = nil
		for _, job := range s.jobs() {
			if job.Labels[plan.LabelKind] == string(plan.AfterUpgrade) {
				s.must(s.client.Delete(t.Context(), &job))
			}
		}
		s.rest(v1alpha1.PhaseDone)
		if run := s.run(); run.Status.Done != 2 || run.Status.Settled == nil {
			t.Errorf("%s: %d done, settled %v", name, run.Status.Done, run.Status.Settled)
		}
	}
}

// A clean-up Job has failed, and its rule cleans up no more: with that the run is done.
func TestACleanUpThatIsOwedIsDropped(t *testing.T) {
	s := owing(t)
	s.fails = func(*batchv1.Job) bool { return true }
	s.rest(v1alpha1.PhaseStopped)
	edit(s, &v1alpha1.MutexRule{ObjectMeta: named("a")}, func(rule *v1alpha1.MutexRule) { rule.Spec.CleanUpJobSpec = nil })
	s.rest(v1alpha1.PhaseDone)
}

// What a pool was before cannot be read any more: nothing is given back until somebody has put that right, since its nodes would leave it.
func TestAClaimThatCannotBeRead(t *testing.T) {
	for _, how := range []string{"suspend", "delete"} {
		s := newStage(t, cast()...)
		before := s.state()
		s.turns(func() bool { return len(s.made) > 0 })
		infra, claim := pool("infra", nil), ""
		s.must(s.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
		claim = infra.Annotations[plan.AnnotationClaim]
		infra.Annotations[plan.AnnotationClaim] = "?"
		s.must(s.client.Update(t.Context(), infra))
		held := s.state()
		if how == "suspend" {
			edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
		} else {
			s.must(s.client.Delete(t.Context(), s.run()))
		}
		for range 5 {
			s.must(s.pass())
			s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		}
		if run := s.run(); run.Status.Phase == v1alpha1.PhaseSuspended || !strings.Contains(run.Status.Message, "infra: annotation "+plan.AnnotationClaim) {
			t.Errorf("%s: it is %s: %s", how, run.Status.Phase, run.Status.Message)
		}
		if now := s.state(); now != held {
			t.Errorf("%s: there is\n%s\nbefore there was\n%s", how, now, held)
		}
		s.must(s.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
		infra.Annotations[plan.AnnotationClaim] = claim
		s.must(s.client.Update(t.Context(), infra))
		for range 20 {
			s.must(s.pass())
			s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		}
		if now := s.state(); now != before {
			t.Errorf("%s: there is\n%s\nbefore there was\n%s", how, now, before)
		}
		run := &v1alpha1.MutexRunConfig{}
		err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, run)
		if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != (how == "delete") || !gone && run.Status.Phase != v1alpha1.PhaseSuspended {
			t.Errorf("%s: it is %s (%v)", how, run.Status.Phase, err)
		}
	}
}
