package plan

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/rollout"
)

// TestDecide_PodsPending: a roll-out stops, says why, and goes on when a user resumes it.
func TestDecide_PodsPending(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{FirstWave: new(int32(1)), StopWhen: &v1alpha1.StopConditions{PendingPods: new(int32(2))}})
	r.decide()
	r.now = r.now.Add(time.Minute)
	decide := func(pods ...string) Decision {
		in := r.input()
		in.PendingPods = pods
		d := Decide(in)
		r.group.Status.Rollout = d.Rollout
		return d
	}
	if !r.input().Rollout().CountsPending() {
		t.Error("Pods are not counted")
	}
	if d := decide("shop/a"); d.Phase == v1alpha1.PhaseStopped {
		t.Errorf("one Pod stops it: %+v", d)
	}
	d := decide("shop/a", "shop/b")
	blocked := d.Conditions[2]
	if d.Phase != v1alpha1.PhaseStopped || blocked.Reason != rollout.ReasonPodsPending || !strings.Contains(blocked.Message, "shop/a, shop/b") {
		t.Errorf("%+v", d)
	}
	if r.input().Rollout().CountsPending() {
		t.Error("Pods are counted although it has stopped")
	}
	r.group.Generation++
	if !r.input().Rollout().CountsPending() {
		t.Error("Pods are not counted when a change of the spec has it judged again")
	}
	r.group.Generation--
	r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Add(time.Second).Format(time.RFC3339)}
	r.now = r.now.Add(2 * time.Second)
	if d := decide(); d.Phase == v1alpha1.PhaseStopped || d.Rollout.StopReason != "" || d.Rollout.ResumeTime == nil {
		t.Errorf("after it was resumed: %+v", d)
	}
}
