package plan

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// The Jobs of a node take hours, and another node goes out of service meanwhile: the node is let go when that one is back.
func TestTheBudgetWhenANodeIsLetGo(t *testing.T) {
	g := newGated(t, 2)
	g.node("n1").Pool, g.node("n2").Pool = "a", "a"
	for range 2 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n2").Unavailable = true
	g.expect("Running n1:RunningJobs n2:Pending")
	if message := Decide(g.in).Steps[0].Status.Message; !strings.Contains(message, "1 of 1 nodes that pool a may have out of service are") {
		t.Errorf("it waits for %q", message)
	}
	// One that is out of service itself takes no more of it.
	g.node("n1").Unavailable, g.node("n2").Unavailable = true, false
	g.expect("Running n1:Released n2:Pending")
}

// Of several nodes that are ready at once as many are let go as there is room for: those whose Jobs run are in service still.
func TestTheBudgetWhenSeveralNodesAreLetGo(t *testing.T) {
	g := newGated(t, 3)
	g.in.Run.Spec.MaxConcurrentNodes = 2
	for range 2 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n3").Unavailable = true
	g.expect("Running n1:Released n2:RunningJobs n3:Pending")
	g.expect("Running n1:Released n2:RunningJobs n3:Pending")
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Released n3:Pending")
}

// A node that is back with the version, and whose clean-up has failed, is out of service no more.
func TestTheBudgetAfterAFailedCleanUp(t *testing.T) {
	g := newGated(t, 2)
	g.in.Run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	for range 3 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.end(batchv1.JobFailed)
	for range 2 {
		g.pass()
		g.end(batchv1.JobComplete)
	}
	g.expect("Running n1:Failed n2:Released")
}

// Another version is aimed at while a Job for the first one runs: the Job of the second does not run beside it.
func TestAnotherVersionWhileAJobRuns(t *testing.T) {
	g := newGated(t, 2)
	g.in.Run.Spec.JobTimeout = &metav1.Duration{Duration: time.Hour}
	g.pass()
	g.in.Desired = "4.17.4"
	g.expect("Running n1:RunningJobs n2:Pending")
	step := Decide(g.in).Steps[0]
	if !strings.Contains(step.Status.Message, "of version 4.17.3") || !strings.HasPrefix(step.Status.Job, "jobs/a-") || step.Status.Started == nil {
		t.Errorf("its status is %+v", step.Status)
	}
	if !step.Wake.Equal(start.Add(time.Hour)) {
		t.Errorf("it looks again at %s", step.Wake)
	}
	g.in.Now = start.Add(time.Hour)
	g.expect("Stopped n1:Failed n2:Pending")
	g.end(batchv1.JobFailed)
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	if len(g.in.Jobs) != 2 {
		t.Errorf("%d Jobs", len(g.in.Jobs))
	}
}

// Who asks for a repetition and does not say how often has one.
func TestARetryWithoutANumber(t *testing.T) {
	g := newGated(t, 1)
	g.in.Run.Spec.OnJobFailure.Action = v1alpha1.FailureRetry
	g.pass()
	g.end(batchv1.JobFailed)
	g.expect("Running n1:RunningJobs+a-before")
	g.end(batchv1.JobFailed)
	g.expect("Stopped n1:Failed")
}

// A node that was left out and does not have the version is counted as such, one that has come to it by itself is not.
func TestNodesThatAreLeftOut(t *testing.T) {
	g := newGated(t, 2)
	g.in.Run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode
	for range 3 {
		g.pass()
		g.end(batchv1.JobFailed)
	}
	if d := Decide(g.in); d.Failed != 2 || d.LeftOut != 2 || d.Phase != v1alpha1.PhaseDone {
		t.Errorf("%s, %d failed, %d left out", d.Phase, d.Failed, d.LeftOut)
	}
	g.node("n1").Version = "4.17.3"
	if d := Decide(g.in); d.Failed != 1 || d.LeftOut != 1 || d.Done != 1 {
		t.Errorf("%d failed, %d left out, %d done", d.Failed, d.LeftOut, d.Done)
	}
	g.in.Run.Spec.OnJobFailure.Action = v1alpha1.FailureStop
	if d := Decide(g.in); d.LeftOut != 0 || d.Phase != v1alpha1.PhaseStopped {
		t.Errorf("%s, %d left out", d.Phase, d.LeftOut)
	}
}
