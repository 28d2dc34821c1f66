package upgrade

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// TestCleanUp_AfterSuspension suspends a run after a node was released: the node is cleaned up when the run is resumed, and no MachineConfigPool is
// needed.
func TestCleanUp_AfterSuspension(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.reconcileUntil(func() bool { return plan.ReleaseOf(f.getNode("n1")) != nil })
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
	f.reconcileUntil(func() bool { return f.run().Status.Phase == v1alpha1.PhaseSuspended })
	for _, name := range []string{"n1", "n2"} {
		update(f, f.getNode(name), func(n *corev1.Node) { n.Labels[plan.LabelVersion] = "4.17.3" })
	}
	before := f.snapshot()
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
	f.reconcileUntil(func() bool {
		if now := f.snapshot(); now != before {
			t.Fatalf("there is\n%s\nbefore there was\n%s", now, before)
		}
		return f.run().Status.Phase == v1alpha1.PhaseDone
	})
	if len(f.created) != 3 {
		t.Errorf("the Jobs %v were created", f.created)
	}
	held, err := f.Leases.HeldByOther(t.Context(), "n1")
	if f.must(err); held != nil {
		t.Errorf("the lease is held: %v", held)
	}
	// What is settled stays so, also without the Jobs that show it.
	f.must(f.client.DeleteAllOf(t.Context(), &batchv1.Job{}, client.InNamespace("numo"),
		client.MatchingLabels{plan.LabelKind: string(plan.AfterUpgrade)}))
	f.reconcileToRest(v1alpha1.PhaseDone)
	if len(f.created) != 3 {
		t.Errorf("the Jobs %v were created", f.created)
	}
}

// TestCleanUp_NodesLeftOut leaves two nodes out after their first Job has succeeded; both are upgraded when their MachineConfigPool is restored. The
// Job stays until the clean-up, and no MachineConfigPool is paused for the first node while the second one waits.
func TestCleanUp_NodesLeftOut(t *testing.T) {
	objects := newObjects()
	for _, object := range objects {
		switch o := object.(type) {
		case *v1alpha1.MutexRule:
			o.Spec.JobSpec.Raw = []byte(strings.Replace(string(o.Spec.JobSpec.Raw), "{", `{"ttlSecondsAfterFinished":60,`, 1))
		case *v1alpha1.MutexRunConfig:
			o.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
		}
	}
	f := newFixture(t, objects...)
	f.fails = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationRule] == "numo/b" }
	before := f.snapshot()
	f.reconcileToRest(v1alpha1.PhaseDone)
	if run := f.run(); run.Status.Failed != 2 || run.Status.Settled != nil || len(f.created) != 4 || f.countTimesToLive() > 0 {
		t.Fatalf("%d failed, settled %v, the Jobs %v, %d with a time to live", run.Status.Failed, run.Status.Settled, f.created, f.countTimesToLive())
	}
	f.afterWrite = func() {
		f.expectState(before)
	}
	f.upgrade("n1")
	f.reconcileToRest(v1alpha1.PhaseDone)
	if run := f.run(); run.Status.Failed != 1 || run.Status.Settled != nil || len(f.created) != 5 || f.countTimesToLive() > 0 {
		t.Fatalf("%d failed, settled %v, the Jobs %v, %d with a time to live", run.Status.Failed, run.Status.Settled, f.created, f.countTimesToLive())
	}
	f.upgrade("n2")
	f.reconcileToRest(v1alpha1.PhaseDone)
	if run := f.run(); run.Status.Done != 2 || run.Status.Settled == nil || len(f.created) != 6 || f.countTimesToLive() != 2 {
		t.Errorf("%d done, settled %v, the Jobs %v, %d with a time to live", run.Status.Done, run.Status.Settled, f.created, f.countTimesToLive())
	}
	for name, count := range f.created {
		if count != 1 {
			t.Errorf("Job %s was created %d times", name, count)
		}
	}
}

// TestCleanUp_JobEndsAfterTimeout leaves a node out because its Job takes too long: the run is not settled while that Job runs.
func TestCleanUp_JobEndsAfterTimeout(t *testing.T) {
	f := newFixture(t, newObjects()...)
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
		run.Spec.OnJobFailure.Action, run.Spec.JobTimeout = v1alpha1.FailureSkipNode, minute()
	})
	f.hangs = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationNode] == "n1" }
	f.reconcileUntil(func() bool { return f.nodeStatus("n1").Phase == v1alpha1.NodeRunningJobs })
	f.clock.SetTime(f.clock.Now().Add(time.Hour))
	f.reconcileToRest(v1alpha1.PhaseDone)
	f.upgrade("n1")
	f.reconcileToRest(v1alpha1.PhaseDone)
	if run := f.run(); run.Status.Done != 2 || run.Status.Settled != nil || len(f.created) != 4 {
		t.Fatalf("%d done, settled %v, the Jobs %v", run.Status.Done, run.Status.Settled, f.created)
	}
	f.hangs = nil
	f.simulate()
	f.reconcileToRest(v1alpha1.PhaseDone)
	if run := f.run(); run.Status.Done != 2 || run.Status.Settled == nil || len(f.created) != 5 {
		t.Errorf("%d done, settled %v, the Jobs %v", run.Status.Done, run.Status.Settled, f.created)
	}
}

// TestCleanUp_Fails: the run stops until a user acts.
func TestCleanUp_Fails(t *testing.T) {
	for name, c := range map[string]struct {
		fails func(job *batchv1.Job) bool
		text  string
	}{
		"fails":          {func(job *batchv1.Job) bool { return job.Labels[plan.LabelKind] == string(plan.AfterUpgrade) }, "has failed"},
		"takes too long": {nil, "has not ended within 1m0s"},
	} {
		f := newResumed(t)
		before := f.snapshot()
		f.fails = c.fails
		f.reconcileUntil(func() bool { return len(f.created) == 3 })
		if c.fails == nil {
			update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.JobTimeout = minute() })
			f.clock.SetTime(f.clock.Now().Add(time.Hour))
		} else {
			f.simulate()
		}
		f.reconcileTimes(5)
		if run := f.run(); run.Status.Phase != v1alpha1.PhaseStopped || !strings.Contains(run.Status.Message, c.text) {
			t.Errorf("%s: the run is %s: %s", name, run.Status.Phase, run.Status.Message)
		}
		f.expectState(before, name)
		f.fails = nil
		for _, job := range f.listJobs() {
			if job.Labels[plan.LabelKind] == string(plan.AfterUpgrade) {
				f.must(f.client.Delete(t.Context(), &job))
			}
		}
		f.reconcileToRest(v1alpha1.PhaseDone)
		if run := f.run(); run.Status.Done != 2 || run.Status.Settled == nil {
			t.Errorf("%s: %d done, settled %v", name, run.Status.Done, run.Status.Settled)
		}
	}
}

// TestCleanUp_RemovedFromRule removes the clean-up Job from the rule after it has failed.
func TestCleanUp_RemovedFromRule(t *testing.T) {
	f := newResumed(t)
	f.fails = func(*batchv1.Job) bool { return true }
	f.reconcileToRest(v1alpha1.PhaseStopped)
	update(f, &v1alpha1.MutexRule{ObjectMeta: named("a")}, func(rule *v1alpha1.MutexRule) { rule.Spec.CleanUpJobSpec = nil })
	f.reconcileToRest(v1alpha1.PhaseDone)
}
