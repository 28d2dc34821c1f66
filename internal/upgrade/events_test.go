package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

func TestEvents_MoreNodesThanStatusLists(t *testing.T) {
	objects := newObjects()
	for i := range plan.MaxNodes + 10 {
		objects = append(objects, newNode(fmt.Sprintf("m%03d", i), "infra"))
	}
	for _, object := range objects {
		if run, ok := object.(*v1alpha1.MutexRunConfig); ok {
			run.Spec.MaxConcurrentNodes = 3
		}
	}
	f := newFixture(t, objects...)
	f.reconcileUntil(func() bool { return f.run().Status.Done >= 6 })
	if status := f.run().Status; len(status.Nodes) != plan.MaxNodes {
		t.Errorf("the status names %d nodes", len(status.Nodes))
	}
	if count := f.countEvents(EventNodeDone, "4.17.3"); count != int(f.run().Status.Done) {
		t.Errorf("%d events, %d nodes are done", count, f.run().Status.Done)
	}
	f.countEvents("", "")
	gone := func(first, last int) {
		for i := first; i < last; i++ {
			f.must(f.client.Delete(t.Context(), f.getNode(fmt.Sprintf("m%03d", i))))
		}
	}
	// When the status can list all nodes again, it has the times of the nodes that it did not list.
	gone(20, plan.MaxNodes+10)
	f.reconcileUntil(func() bool { return f.run().Status.Total == 22 })
	for _, n := range f.run().Status.Nodes {
		if n.Phase == v1alpha1.NodeDone && n.Finished == nil {
			t.Errorf("when node %s was done is not known any more", n.Name)
		}
	}
	if count := f.countEvents(EventNodeLeft, ""); count != 0 {
		t.Errorf("%d events for nodes that had not been started", count)
	}
	gone(0, 20)
	f.reconcileUntil(func() bool { return f.run().Status.Total == 2 })
	if count := f.countEvents(EventNodeLeft, ""); count != 3 {
		t.Errorf("%d events for nodes in progress", count)
	}
}

// TestEvents_JobFailsBeforeRestart has a Job fail while no process runs: the next process reports it, and the one after that does not.
func TestEvents_JobFailsBeforeRestart(t *testing.T) {
	for _, action := range []v1alpha1.FailureAction{v1alpha1.FailureStop, v1alpha1.FailureRetry} {
		f := newFixture(t, newObjects()...)
		update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.OnJobFailure.Action = action })
		f.reconcileUntil(func() bool { return f.nodeStatus("n1").Phase == v1alpha1.NodeRunningJobs })
		f.fails = func(*batchv1.Job) bool { return true }
		f.simulate()
		f.countEvents("", "")
		for i, want := range []int{1, 0, 0} {
			f.clock.SetTime(f.clock.Now().Add(time.Minute))
			f.restart()
			f.reconcileTimes(3)
			if count := f.countEvents(EventJobFailed, "n1"); count != want {
				t.Errorf("%s: process %d reports %d failures", action, i+1, count)
			}
		}
	}
}

// TestEvents_FailureReportedOnce restarts the process after failures that were reported.
func TestEvents_FailureReportedOnce(t *testing.T) {
	f := newFixture(t, newObjects()...)
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode })
	f.fails = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationRule] == "numo/b" }
	f.reconcileToRest(v1alpha1.PhaseDone)
	if count := f.countEvents(EventJobFailed, ""); count != 2 {
		t.Errorf("%d failures were reported", count)
	}
	for _, name := range []string{"", "n1", "n2"} {
		if name != "" {
			f.upgrade(name)
		}
		f.clock.SetTime(f.clock.Now().Add(time.Minute))
		f.restart()
		f.reconcileToRest(v1alpha1.PhaseDone)
		if count := f.countEvents(EventJobFailed, ""); count != 0 {
			t.Errorf("after %q was upgraded, %d failures are reported again", name, count)
		}
	}
}

// TestEvents_LogOnlyInNamespaceOfRule: a user who may read events of the run's namespace may not be allowed to read logs of the rule's.
func TestEvents_LogOnlyInNamespaceOfRule(t *testing.T) {
	for namespace, want := range map[string]string{"numo": "MutexRunConfig", "other": "MutexRule"} {
		objects := newObjects()
		for _, object := range objects {
			if rule, ok := object.(*v1alpha1.MutexRule); ok {
				rule.Namespace = namespace
			}
		}
		f := newFixture(t, objects...)
		update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
			run.Spec.MutexRules = []v1alpha1.Reference{{Name: "a", Namespace: namespace}}
		})
		f.Logs = func(context.Context, *batchv1.Job) (string, error) { return "a secret", nil }
		secrets := &secretEvents{EventRecorder: f.events}
		f.Recorder = secrets
		f.fails = func(*batchv1.Job) bool { return true }
		f.reconcileToRest(v1alpha1.PhaseStopped)
		if len(secrets.on) != 1 || secrets.on[0] != want {
			t.Errorf("rule in namespace %s: the log is in events of %q, want one of a %s", namespace, secrets.on, want)
		}
	}
}

// secretEvents records what kinds the events with a log are on.
type secretEvents struct {
	record.EventRecorder
	on []string
}

func (r *secretEvents) Event(object runtime.Object, kind, reason, message string) {
	if strings.Contains(message, "a secret") {
		name := fmt.Sprintf("%T", object)
		r.on = append(r.on, name[strings.LastIndex(name, ".")+1:])
	}
	r.EventRecorder.Event(object, kind, reason, message)
}

func TestShorten(t *testing.T) {
	for cut := range 4 {
		if text := shorten(strings.Repeat("µ", 400+cut) + strings.Repeat("x", 300+cut)); !utf8.ValidString(text) || len(text) > maxEvent {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}
