package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

func TestDecide_Stop(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1), StopWhen: &v1alpha1.StopConditions{NotReady: number(2)}})
	// A Node that is not Ready before the roll-out is no reason to stop, and the roll-out does not wait for it.
	r.node("n0").Ready = false
	r.decide()
	fail := func(name string) {
		r.now = r.now.Add(2 * time.Second)
		r.node(name).Ready, r.node(name).ReadyChange = false, r.now
	}
	r.node("n0").Leaving = true
	fail("n0") // its Machine is being deleted
	fail("n1")
	if written, d := r.decide(); written != "n2" || d.Rollout.Stopped != "" {
		t.Fatalf("after one Node it writes %q, stopped: %q", written, d.Rollout.Stopped)
	}
	fail("n3")
	written, d := r.decide()
	if written != "" || !strings.Contains(d.Rollout.Stopped, "n1, n3") || d.Phase != v1alpha1.PhaseStopped || len(d.Admitted) > 0 {
		t.Fatalf("after two Nodes it writes %q, stopped: %q", written, d.Rollout.Stopped)
	}
	r.node("n1").Ready, r.node("n3").Ready = true, true
	if _, d := r.decide(); d.Rollout.Stopped == "" {
		t.Error("it continues although no user has resumed it")
	}
	r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Add(time.Hour).Format(time.RFC3339)}
	if _, d := r.decide(); d.Rollout.Stopped == "" {
		t.Error("a time in the future resumes it")
	}
	r.now = r.now.Add(time.Second)
	r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Format(time.RFC3339)}
	if _, d := r.decide(); d.Rollout.Stopped != "" {
		t.Errorf("it stays stopped when it is resumed: %s", d.Rollout.Stopped)
	}
	fail("n1")
	fail("n3")
	if _, d := r.decide(); d.Rollout.Stopped == "" {
		t.Error("the same annotation resumes it for ever")
	}
	// Another declaration begins a roll-out of its own.
	r.group.Spec.Metadata.Labels["team"] = "red"
	if _, d := r.decide(); d.Rollout.Stopped != "" {
		t.Errorf("the roll-out of another declaration has stopped: %s", d.Rollout.Stopped)
	}
}

// TestDecide_StopAfterChange: a change of the spec has a roll-out that has stopped judged again.
func TestDecide_StopAfterChange(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(r *played)
		stopped bool
	}{
		"nothing":                  {func(r *played) { r.group.Generation-- }, true},
		"something else":           {func(r *played) { r.group.Spec.Disruption = &v1alpha1.Disruption{} }, true},
		"more may be NotReady":     {func(r *played) { r.group.Spec.Rollout.StopWhen.NotReady = number(2) }, false},
		"something, they are back": {func(r *played) { r.node("n0").Ready = true }, false},
		"something, it is resumed": {func(r *played) {
			r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Format(time.RFC3339)}
		}, false},
		"suspended for a while": {func(r *played) {
			r.group.Spec.Suspend = true
			r.decide()
			r.group.Generation++
			r.group.Spec.Suspend = false
		}, true},
		"suspended, they are back": {func(r *played) {
			r.group.Spec.Suspend = true
			r.decide()
			r.group.Generation++
			r.group.Spec.Suspend = false
			r.node("n0").Ready = true
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(4, &v1alpha1.Rollout{MaxInFlight: number(1), StopWhen: &v1alpha1.StopConditions{NotReady: number(1)}})
			r.decide()
			r.now = r.now.Add(2 * time.Second)
			r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now
			_, d := r.decide()
			at := d.Rollout.StopTime
			if d.Rollout.Stopped == "" {
				t.Fatal("it has not stopped")
			}
			r.now = r.now.Add(2 * time.Second)
			r.group.Generation++
			c.change(r)
			_, d = r.decide()
			if (d.Rollout.Stopped != "") != c.stopped || c.stopped != (d.Rollout.StopTime != nil) || (d.Rollout.StopReason != "") != c.stopped {
				t.Fatalf("then: stopped %q, reason %s, at %v", d.Rollout.Stopped, d.Rollout.StopReason, d.Rollout.StopTime)
			}
			if c.stopped && (!d.Rollout.StopTime.Equal(at) || d.Rollout.ResumeTime != nil) {
				t.Errorf("it stopped at %v, and says %v, resumed at %v", at, d.Rollout.StopTime, d.Rollout.ResumeTime)
			}
		})
	}
}

// TestDecide_StopInTheLastWave: Nodes that fail after the last write stop the roll-out, which ends when they have recovered, or a user resumes it.
func TestDecide_StopInTheLastWave(t *testing.T) {
	for name, goesOn := range map[string]func(*played){
		"recovered": func(r *played) { r.node("n0").Ready = true },
		"resumed": func(r *played) {
			r.now = r.now.Add(time.Second)
			r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Format(time.RFC3339)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRollout(4, nil)
			r.node("n0").Ready, r.node("n0").ReadyChange = false, r.now.Add(time.Second)
			r.decide()
			r.now = r.now.Add(2 * time.Second)
			r.node("n0").ReadyChange = r.now
			_, d := r.decide()
			if d.Rollout.Stopped == "" || d.Rollout.EndTime != nil || d.Phase != v1alpha1.PhaseStopped {
				t.Fatalf("after the last write: stopped %q, ended %v, phase %s", d.Rollout.Stopped, d.Rollout.EndTime, d.Phase)
			}
			goesOn(r)
			r.decide()
			if _, d := r.decide(); d.Rollout.Stopped != "" || d.Rollout.EndTime == nil || d.Phase != v1alpha1.PhaseIdle {
				t.Errorf("then: stopped %q, ended %v, phase %s", d.Rollout.Stopped, d.Rollout.EndTime, d.Phase)
			}
		})
	}
}
