package upgrade

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/record"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// heard takes the events that have been sent, and counts those with a reason and a text.
func (s *stage) heard(reason, text string) int {
	count := 0
	for {
		select {
		case event := <-s.events.Events:
			if strings.Contains(event, " "+reason+" ") && strings.Contains(event, text) {
				count++
			}
		default:
			return count
		}
	}
}

// series counts those of a metric.
func (s *stage) series(name string) int {
	s.t.Helper()
	families, err := s.registry.Gather()
	s.must(err)
	for _, family := range families {
		if family.GetName() == name {
			return len(family.GetMetric())
		}
	}
	return 0
}

// A run that is suspended or aborted says of nodes no more than which are done: nothing of the others is under way.
func TestWhatASuspendedRunSaysOfNodes(t *testing.T) {
	for phase, stop := range map[v1alpha1.Phase]func(*v1alpha1.MutexRunConfig){
		v1alpha1.PhaseSuspended: func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true },
		v1alpha1.PhaseAborted:   func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true },
	} {
		s := half(t)
		s.fails = func(*batchv1.Job) bool { return true }
		s.play()
		s.turns(func() bool { return s.run().Status.Phase == v1alpha1.PhaseStopped })
		if s.run().Status.Failed != 1 || s.series("drover_upgrade_nodes") != 2 {
			t.Errorf("%d have failed; there are %d series", s.run().Status.Failed, s.series("drover_upgrade_nodes"))
		}
		edit(s, s.run(), stop)
		s.rest(phase)
		status := s.run().Status
		if len(status.Nodes) != 1 || status.Nodes[0].Name != "n1" || status.Nodes[0].Finished == nil || status.Failed != 0 || status.Done != 1 {
			t.Errorf("%s: the status is %+v", phase, status)
		}
		if count := s.series("drover_upgrade_nodes"); count != 0 {
			t.Errorf("%s: there are %d series", phase, count)
		}
		// OpenShift goes on by itself.
		s.comes("n2")
		s.rest(phase)
		if status := s.run().Status; status.Done != 2 || status.Total != 2 {
			t.Errorf("%s: %d of %d are done", phase, status.Done, status.Total)
		}
	}
}

// More nodes than the status has room for: what comes of each is told all the same.
func TestEventsOfManyNodes(t *testing.T) {
	objects := cast()
	for i := range mostNodes + 10 {
		objects = append(objects, node(fmt.Sprintf("m%03d", i), "infra"))
	}
	for _, object := range objects {
		if run, ok := object.(*v1alpha1.MutexRunConfig); ok {
			run.Spec.MaxConcurrentNodes = 3
		}
	}
	s := newStage(t, objects...)
	s.turns(func() bool { return s.run().Status.Done >= 6 })
	if status := s.run().Status; len(status.Nodes) != mostNodes {
		t.Errorf("the status names %d nodes", len(status.Nodes))
	}
	if count := s.heard(EventNodeDone, "4.17.3"); count != int(s.run().Status.Done) {
		t.Errorf("%d of %d nodes were told of", count, s.run().Status.Done)
	}
	s.heard("", "")
	gone := func(first, last int) {
		for i := first; i < last; i++ {
			s.must(s.client.Delete(t.Context(), s.node(fmt.Sprintf("m%03d", i))))
		}
	}
	// When there is room again it says of those that were left out what it has said before.
	gone(20, mostNodes+10)
	s.turns(func() bool { return s.run().Status.Total == 22 })
	for _, n := range s.run().Status.Nodes {
		if n.Phase == v1alpha1.NodeDone && n.Finished == nil {
			t.Errorf("when node %s was done is not known any more", n.Name)
		}
	}
	if count := s.heard(EventNodeGone, ""); count != 0 {
		t.Errorf("%d nodes were told of that had not been begun", count)
	}
	gone(0, 20)
	s.turns(func() bool { return s.run().Status.Total == 2 })
	if count := s.heard(EventNodeGone, ""); count != 3 {
		t.Errorf("%d nodes were told of that were under way", count)
	}
}

// A Job fails while no process is at work: the next one tells it, and the one after that does not.
func TestAFailureIsToldAfterARestart(t *testing.T) {
	for _, action := range []v1alpha1.FailureAction{v1alpha1.FailureStop, v1alpha1.FailureRetry} {
		s := newStage(t, cast()...)
		edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.OnJobFailure.Action = action })
		s.turns(func() bool { return s.status("n1").Phase == v1alpha1.NodeRunningJobs })
		s.fails = func(*batchv1.Job) bool { return true }
		s.play()
		s.heard("", "")
		for i, want := range []int{1, 0, 0} {
			s.clock.SetTime(s.clock.Now().Add(time.Minute))
			s.restart()
			for range 3 {
				s.must(s.pass())
				s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
			}
			if count := s.heard(EventJobFailed, "n1"); count != want {
				t.Errorf("%s: process %d tells of %d failures", action, i+1, count)
			}
		}
	}
}

// A failure that has been dealt with is not told again.
func TestAFailureOfBeforeIsNotToldAgain(t *testing.T) {
	s := newStage(t, cast()...)
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.OnJobFailure.Action = v1alpha1.FailureSkipNode })
	s.fails = func(job *batchv1.Job) bool { return job.Annotations[plan.AnnotationRule] == "numo/b" }
	s.rest(v1alpha1.PhaseDone)
	if count := s.heard(EventJobFailed, ""); count != 2 {
		t.Errorf("%d failures were told", count)
	}
	for _, name := range []string{"", "n1", "n2"} {
		if name != "" {
			s.comes(name)
		}
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
		s.restart()
		s.rest(v1alpha1.PhaseDone)
		if count := s.heard(EventJobFailed, ""); count != 0 {
			t.Errorf("after %q has come to the version %d failures are told again", name, count)
		}
	}
}

// The API server takes so much of a message, and no half characters.
func TestALongMessage(t *testing.T) {
	found, all := conditions{}, []metav1.Condition{}
	found.no(ConditionJobs, strings.Repeat("node µ failed; ", 5000))
	found.apply(&all, 1, metav1.NewTime(start))
	message := meta.FindStatusCondition(all, ConditionJobs).Message
	if len(message) > status.MaxMessage || !utf8.ValidString(message) || !strings.HasSuffix(message, "node µ failed; ") {
		t.Errorf("%d bytes: %q", len(message), message)
	}
	for cut := range 4 {
		if text := clip(strings.Repeat("µ", 400+cut) + strings.Repeat("x", 300+cut)); !utf8.ValidString(text) || len(text) > mostEvent {
			t.Errorf("%d bytes: %q", len(text), text)
		}
	}
}

// Who reads the events of a run's namespace need not be allowed to read logs of the rule's.
func TestFailure_LogStaysInTheNamespaceOfTheRule(t *testing.T) {
	for namespace, want := range map[string]string{"numo": "MutexRunConfig", "other": "MutexRule"} {
		objects := cast()
		for _, object := range objects {
			if rule, ok := object.(*v1alpha1.MutexRule); ok {
				rule.Namespace = namespace
			}
		}
		s := newStage(t, objects...)
		edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
			run.Spec.MutexRules = []v1alpha1.Reference{{Name: "a", Namespace: namespace}}
		})
		s.Logs = func(context.Context, *batchv1.Job) (string, error) { return "a secret", nil }
		secrets := &secretEvents{EventRecorder: s.events}
		s.Recorder = secrets
		s.fails = func(*batchv1.Job) bool { return true }
		s.rest(v1alpha1.PhaseStopped)
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
