package machineconfig

import (
	"fmt"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/test/openshift"
)

func (p Phase) text() string {
	return fmt.Sprintf("%s %s masters=%s workers=%s", p.Version, p.Stage, p.Masters, p.Workers)
}

// clusterUpdate is an update of a cluster under a clock of the test.
type clusterUpdate struct {
	t     *testing.T
	opts  openshift.Options
	phase Phase
	now   time.Time
	cv    *configv1.ClusterVersion

	unrendered bool
}

func newClusterUpdate(t *testing.T, opts openshift.Options) *clusterUpdate {
	t.Helper()
	if err := complete(&opts); err != nil {
		t.Fatal(err)
	}
	s := &clusterUpdate{t: t, opts: opts, now: start, cv: openshift.NewClusterVersion("1")}
	var err error
	if s.phase, err = PhaseOf(s.cv, start); err != nil {
		t.Fatal(err)
	}
	s.cv.Status = s.phase.Status(s.cv, s.now)
	return s
}

// after moves on by some time and returns how long the update then waits.
func (s *clusterUpdate) after(d time.Duration, desired string, mastersUpdated bool, want string) time.Duration {
	s.t.Helper()
	s.now = s.now.Add(d)
	var wait time.Duration
	s.phase, wait = s.phase.Next(desired, Progress{Masters: mastersUpdated, Rendered: !s.unrendered}, s.now, &s.opts)
	s.cv.Annotations = map[string]string{openshift.AnnotationPhase: s.phase.Format()}
	read, err := PhaseOf(s.cv, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	s.phase = read // every step goes through the cluster
	s.cv.Status = s.phase.Status(s.cv, s.now)
	if got := s.phase.text(); got != want {
		s.t.Errorf("at %s it is %q, want %q", s.now.Sub(start), got, want)
	}
	return wait
}

func (s *clusterUpdate) history(want string) {
	s.t.Helper()
	var parts []string
	for _, update := range s.cv.Status.History {
		part := update.Version + " " + string(update.State)
		if update.CompletionTime == nil {
			part += " open"
		}
		parts = append(parts, part)
	}
	if got := strings.Join(parts, ", "); got != want {
		s.t.Errorf("the history is %q, want %q", got, want)
	}
}

func TestPhaseNext(t *testing.T) {
	s := newClusterUpdate(t, openshift.Options{ControlPlane: time.Minute, Completion: time.Second})
	s.history("1 Completed")
	if wait := s.after(0, "", true, "1 Completed masters=1 workers=1"); wait != 0 {
		t.Errorf("at rest it waits %s", wait)
	}
	if wait := s.after(0, "2", true, "2 ControlPlane masters=1 workers=1"); wait != time.Minute {
		t.Errorf("it waits %s for the control plane", wait)
	}
	s.history("2 Partial open, 1 Completed")
	if wait := s.after(20*time.Second, "2", true, "2 ControlPlane masters=1 workers=1"); wait != 40*time.Second {
		t.Errorf("after 20 s it waits %s", wait)
	}
	s.after(40*time.Second, "2", true, "2 Masters masters=2 workers=1")
	if wait := s.after(time.Hour, "2", false, "2 Masters masters=2 workers=1"); wait != 0 {
		t.Errorf("it waits %s for masters; their watch has to wake it up", wait)
	}
	if wait := s.after(0, "2", true, "2 Completion masters=2 workers=2"); wait != time.Second {
		t.Errorf("it waits %s for the end", wait)
	}
	s.history("2 Partial open, 1 Completed")
	s.after(time.Second, "2", true, "2 Completed masters=2 workers=2")
	s.history("2 Completed, 1 Completed")
	s.after(time.Hour, "2", false, "2 Completed masters=2 workers=2")
}

func TestPhaseNext_WorkersAt(t *testing.T) {
	cases := map[openshift.Moment][3]string{
		openshift.BeforeCompleted: {"2 Masters masters=2 workers=1", "2 Completion masters=2 workers=2", "2 Completed masters=2 workers=2"},
		openshift.WithMasters:     {"2 Masters masters=2 workers=2", "2 Completion masters=2 workers=2", "2 Completed masters=2 workers=2"},
		openshift.AfterCompleted:  {"2 Masters masters=2 workers=1", "2 Completion masters=2 workers=1", "2 Completed masters=2 workers=2"},
	}
	for moment, want := range cases {
		s := newClusterUpdate(t, openshift.Options{Completion: time.Second, WorkersAt: moment})
		s.after(0, "2", true, "2 ControlPlane masters=1 workers=1")
		s.after(0, "2", true, want[0])
		s.after(0, "2", true, want[1])
		s.after(time.Second, "2", true, want[2])
	}
}

func TestPhaseNext_NoDelays(t *testing.T) {
	s := newClusterUpdate(t, openshift.Options{})
	for _, want := range []string{
		"2 ControlPlane masters=1 workers=1", "2 Masters masters=2 workers=1", "2 Completion masters=2 workers=2", "2 Completed masters=2 workers=2",
	} {
		if wait := s.after(0, "2", true, want); wait != 0 {
			t.Errorf("it waits %s", wait)
		}
	}
	s.history("2 Completed, 1 Completed")
}

// The history does not say Completed before the pools have what they are to get before that.
func TestPhaseNext_PoolsNotRendered(t *testing.T) {
	for moment, want := range map[openshift.Moment]string{
		openshift.BeforeCompleted: "2 Completion masters=2 workers=2", openshift.AfterCompleted: "2 Completed masters=2 workers=2",
	} {
		s := newClusterUpdate(t, openshift.Options{WorkersAt: moment})
		s.unrendered = true
		s.after(0, "2", true, "2 ControlPlane masters=1 workers=1")
		s.after(0, "2", true, "2 Masters masters=2 workers=1")
		workers := map[openshift.Moment]string{openshift.BeforeCompleted: "2", openshift.AfterCompleted: "1"}[moment]
		s.after(0, "2", true, "2 Completion masters=2 workers="+workers)
		s.after(time.Hour, "2", true, want)
		s.unrendered = false
		s.after(0, "2", true, "2 Completed masters=2 workers=2")
	}
}

func TestPhaseNext_AnotherVersion(t *testing.T) {
	s := newClusterUpdate(t, openshift.Options{ControlPlane: time.Minute})
	s.after(0, "2", true, "2 ControlPlane masters=1 workers=1")
	s.after(time.Minute, "2", true, "2 Masters masters=2 workers=1")
	s.after(time.Minute, "1", false, "1 ControlPlane masters=2 workers=1")
	s.history("1 Partial open, 2 Partial, 1 Completed")
	s.after(time.Second, "3", false, "3 ControlPlane masters=2 workers=1")
	s.after(time.Minute, "3", false, "3 Masters masters=3 workers=1")
	s.after(0, "3", true, "3 Completion masters=3 workers=3")
	s.after(0, "3", true, "3 Completed masters=3 workers=3")
	s.history("3 Completed, 1 Partial, 2 Partial, 1 Completed")
	s.after(0, "2", true, "2 ControlPlane masters=3 workers=3")
}

func TestPhaseStatus(t *testing.T) {
	s := newClusterUpdate(t, openshift.Options{ControlPlane: time.Minute})
	again := s.phase.Status(s.cv, start.Add(time.Hour))
	if !apiequality.Semantic.DeepEqual(again, s.cv.Status) {
		t.Errorf("an hour later it is another one: %+v", again)
	}
	s.after(time.Hour, "2", false, "2 ControlPlane masters=1 workers=1")
	if s.cv.Status.Desired.Version != "2" || s.cv.Status.Desired.Image == "" {
		t.Errorf("it says that %v is desired", s.cv.Status.Desired)
	}
	for _, condition := range s.cv.Status.Conditions {
		want := configv1.ConditionTrue
		if condition.Type == "Failing" {
			want = configv1.ConditionFalse
		}
		progressing := condition.Type == configv1.OperatorProgressing
		if condition.Status != want || progressing != condition.LastTransitionTime.After(start) {
			t.Errorf("%+v", condition)
		}
	}
}

func TestPhaseOf(t *testing.T) {
	cv := &configv1.ClusterVersion{}
	if _, err := PhaseOf(cv, start); err == nil {
		t.Error("it knows the version of nothing")
	}
	cv.Spec.DesiredUpdate = &configv1.Update{Version: "5"}
	if phase, err := PhaseOf(cv, start); err != nil || phase != Completed("5", start) {
		t.Errorf("from the desired version: %+v, %v", phase, err)
	}
	cv.Status.History = []configv1.UpdateHistory{{Version: "4", State: configv1.PartialUpdate}, {Version: "3", State: configv1.CompletedUpdate}}
	if phase, err := PhaseOf(cv, start); err != nil || phase != Completed("3", start) {
		t.Errorf("from the history: %+v, %v", phase, err)
	}
	cv.Annotations = map[string]string{openshift.AnnotationPhase: "{"}
	if _, err := PhaseOf(cv, start); err == nil {
		t.Error("it reads what cannot be read")
	}
}
