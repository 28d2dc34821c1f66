package plan

import (
	"math"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

func TestDecideNodes_JobFails(t *testing.T) {
	for name, c := range map[string]struct {
		on   v1alpha1.JobFailure
		want []string
	}{
		"stop": {v1alpha1.JobFailure{}, []string{"Stopped n1:Failed n2:Pending", "Stopped n1:Failed n2:Pending"}},
		"skip": {
			v1alpha1.JobFailure{Action: v1alpha1.FailureSkipNode},
			[]string{"Running n1:Failed n2:RunningJobs+a-before", "Done n1:Failed n2:Failed"},
		},
		"retry": {
			v1alpha1.JobFailure{Action: v1alpha1.FailureRetry, Retries: 1},
			[]string{"Running n1:RunningJobs+a-before n2:Pending", "Stopped n1:Failed n2:Pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRun(t, 2)
			g.run.Config.Spec.OnJobFailure = c.on
			g.reconcile()
			for _, want := range c.want {
				g.finishJobs(batchv1.JobFailed)
				g.expect(want)
			}
		})
	}
}

func TestDecideNodes_RetryDefault(t *testing.T) {
	g := newRun(t, 1)
	g.run.Config.Spec.OnJobFailure.Action = v1alpha1.FailureRetry
	g.reconcile()
	g.finishJobs(batchv1.JobFailed)
	g.expect("Running n1:RunningJobs+a-before")
	g.finishJobs(batchv1.JobFailed)
	g.expect("Stopped n1:Failed")
}

func TestDecideNodes_Timeouts(t *testing.T) {
	g := newRun(t, 1)
	g.run.Config.Spec.JobTimeout, g.run.Config.Spec.NodeTimeout = &metav1.Duration{Duration: time.Minute}, &metav1.Duration{Duration: time.Hour}
	g.reconcile()
	if wake := DecideNodes(g.run).Wake; !wake.Equal(testTime.Add(time.Minute)) {
		t.Errorf("it decides again at %s", wake)
	}
	g.run.Now = testTime.Add(time.Minute)
	g.expect("Stopped n1:Failed")
	// A Job that ends later counts.
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:RunningJobs+b-before")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Running n1:Released")
	if wake := DecideNodes(g.run).Wake; !wake.Equal(g.run.Now.Add(time.Hour)) {
		t.Errorf("it decides again at %s", wake)
	}
	g.run.Now = g.run.Now.Add(time.Hour)
	g.expect("Stopped n1:Failed")
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after")
}

// TestDecideNodes_LongTimeouts has timeouts whose sum with any time overflows.
func TestDecideNodes_LongTimeouts(t *testing.T) {
	g := newRun(t, 1)
	longest := &metav1.Duration{Duration: math.MaxInt64}
	g.run.Config.Spec.JobTimeout, g.run.Config.Spec.NodeTimeout = longest, longest
	g.reconcile()
	g.expect("Running n1:RunningJobs")
	for range 2 {
		g.finishJobs(batchv1.JobComplete)
		g.reconcile()
	}
	g.expect("Running n1:Released")
}

func TestDecideNodes_DegradedNodeStopsRun(t *testing.T) {
	g := newRun(t, 2)
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n1").Annotations["machineconfiguration.openshift.io/state"] = "Degraded"
	g.expect("Stopped n1:Failed n2:Pending")
	delete(g.node("n1").Annotations, "machineconfiguration.openshift.io/state")
	g.expect("Running n1:Released n2:Pending")
}

// TestDecideNodes_OtherVersionAfterRelease changes the desired version while a node is being upgraded.
func TestDecideNodes_OtherVersionAfterRelease(t *testing.T) {
	g := newRun(t, 2)
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.expect("Running n1:Released n2:Pending")
	g.run.Desired = "4.17.4"
	keys := []string{g.run.Rules[0].Key, g.run.Rules[1].Key}
	// The upgrade continues, and takes the slot.
	g.node("n1").Annotations[annotationState] = stateWorking
	if change := gateNode(g.node("n1").Node, "uid", keys, nil, g.run.Desired); !change.Empty() {
		t.Errorf("change %v", change)
	}
	g.expect("Running n1:Upgrading n2:Pending")
	delete(g.node("n1").Annotations, annotationState)
	g.node("n1").Version = "4.17.3"
	g.apply(gateNode(g.node("n1").Node, "uid", keys, nil, g.run.Desired))
	// The clean-up for the first upgrade precedes the next one, and waits for nothing.
	g.run.Wait = "the control plane does not have it yet"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Waiting n1:Pending n2:Pending")
	g.run.Wait = ""
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	if len(g.run.Jobs) != 4 {
		t.Errorf("%d Jobs", len(g.run.Jobs))
	}
}

// TestDecideNodes_OtherVersionWhileJobRuns: the Job for the new version does not run at the same time.
func TestDecideNodes_OtherVersionWhileJobRuns(t *testing.T) {
	g := newRun(t, 2)
	g.run.Config.Spec.JobTimeout = &metav1.Duration{Duration: time.Hour}
	g.reconcile()
	g.run.Desired = "4.17.4"
	g.expect("Running n1:RunningJobs n2:Pending")
	step := DecideNodes(g.run).Steps[0]
	if !strings.Contains(step.Status.Message, "for version 4.17.3") || !strings.HasPrefix(step.Status.Job, "jobs/a-") || step.Status.Started == nil {
		t.Errorf("its status is %+v", step.Status)
	}
	if !step.Wake.Equal(testTime.Add(time.Hour)) {
		t.Errorf("it decides again at %s", step.Wake)
	}
	g.run.Now = testTime.Add(time.Hour)
	g.expect("Stopped n1:Failed n2:Pending")
	g.finishJobs(batchv1.JobFailed)
	g.expect("Running n1:RunningJobs+a-before n2:Pending")
	if len(g.run.Jobs) != 2 {
		t.Errorf("%d Jobs", len(g.run.Jobs))
	}
}

// TestDecideNodes_CleanUpOfOtherVersionFails has a clean-up Job fail for a version that is not desired any more: the next upgrade does not wait for
// it.
func TestDecideNodes_CleanUpOfOtherVersionFails(t *testing.T) {
	g := newRun(t, 1)
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after")
	g.finishJobs(batchv1.JobFailed)
	g.expect("Stopped n1:Failed")
	g.run.Desired = "4.17.4"
	g.apply(gateNode(g.node("n1").Node, "uid", []string{g.run.Rules[0].Key, g.run.Rules[1].Key}, nil, g.run.Desired))
	g.expect("Running n1:RunningJobs+a-before")
}

// TestDecideNodes_CleanUpWithoutRelease has a node upgraded while its run was suspended: it is cleaned up once, until the run is settled.
func TestDecideNodes_CleanUpWithoutRelease(t *testing.T) {
	g := newRun(t, 1)
	g.reconcile()
	g.finishJobs(batchv1.JobComplete)
	g.node("n1").Version = "4.17.3"
	g.apply(stripNode(g.node("n1").Node, "uid"))
	g.expect("Running n1:CleaningUp+a-after")
	g.finishJobs(batchv1.JobComplete)
	g.expect("Done n1:Done")
	for key, job := range g.run.Jobs {
		if job.Labels[LabelKind] == string(AfterUpgrade) {
			delete(g.run.Jobs, key)
		}
	}
	g.run.Config.Status.Settled = &metav1.Time{Time: testTime}
	g.expect("Done n1:Done")
	g.run.Config.Status.Settled = &metav1.Time{Time: testTime.Add(-time.Second)}
	g.expect("Running n1:CleaningUp+a-after")
}

// TestDecideNodes_RuleEdited: no Job runs again, and a rule that was added cleans up only where its first Job has run.
func TestDecideNodes_RuleEdited(t *testing.T) {
	g := newRun(t, 2)
	for range 3 {
		g.reconcile()
		g.finishJobs(batchv1.JobComplete)
	}
	g.node("n1").Version = "4.17.3"
	g.expect("Running n1:CleaningUp+a-after n2:Pending")
	g.finishJobs(batchv1.JobComplete)
	for i := range g.run.Rules {
		g.run.Rules[i].Object = g.run.Rules[i].Object.DeepCopy()
		g.run.Rules[i].Object.Spec.JobName, g.run.Rules[i].Object.Spec.JobNamespace = "other", "elsewhere"
	}
	added := g.run.Rules[0]
	added.Object = added.Object.DeepCopy()
	added.Object.Name = "c"
	g.run.Rules = append(g.run.Rules, added)
	g.expect("Running n1:Done n2:RunningJobs+a-before")
	if len(g.run.Jobs) != 4 {
		t.Errorf("%d Jobs", len(g.run.Jobs))
	}
}
