package plan

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// TestDecide_ClockAhead: times that were recorded by a clock that was a day ahead do not hold a roll-out until then.
func TestDecide_ClockAhead(t *testing.T) {
	r := newRollout(3, &v1alpha1.Rollout{MaxInFlight: number(1), Pause: &metav1.Duration{Duration: time.Minute}, MinReadySeconds: 30})
	r.decide()
	r.now = r.now.Add(31 * time.Second)
	r.decide()
	ahead := &metav1.Time{Time: r.now.Add(24 * time.Hour)}
	r.group.Status.Rollout.StartTime = ahead
	if since := r.input().Rollout().Since(); since.After(r.now) {
		t.Errorf("Pods count from %s on", since)
	}
	r.group.Status.Rollout.WaveEndTime = ahead
	if written, d := r.decide(); written != "" || d.Rollout.WaveEndTime.After(r.now) {
		t.Fatalf("it writes %q, and the wave ended at %s", written, d.Rollout.WaveEndTime)
	}
	r.now = r.now.Add(time.Minute)
	if written, _ := r.decide(); written != "n2" {
		t.Errorf("after the pause it writes %q", written)
	}
	r.node("n2").ReadyChange = ahead.Time
	r.decide()
	r.now = r.now.Add(time.Minute)
	if written, _ := r.decide(); written != "n1" {
		t.Errorf("after a Node whose kubelet has a wrong clock it writes %q", written)
	}
	r.node("n1").Ready, r.node("n1").ReadyChange = false, r.now
	r.group.Status.Rollout.Stopped, r.group.Status.Rollout.StopTime, r.group.Status.Rollout.EndTime = "too many", ahead.DeepCopy(), nil
	if _, d := r.decide(); d.Rollout.StopTime.After(r.now) {
		t.Errorf("it has stopped at %s", d.Rollout.StopTime)
	}
	r.now = r.now.Add(time.Minute)
	r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Format(time.RFC3339)}
	if _, d := r.decide(); d.Rollout.Stopped != "" {
		t.Errorf("it cannot be resumed: %s", d.Rollout.Stopped)
	}
}

// TestDecide_Unseen: while a write is under way that may add a record, the group neither ends nor forgets a key that it has declared.
func TestDecide_Unseen(t *testing.T) {
	group := newRollout(0, nil).group
	group.Status.OwnedKeys = metadataplan.OwnedKeys(ownership.Section{}.With(ownership.Label, ownership.Keys{"old": {}}))
	in := func(unseen bool) *Input {
		return &Input{Group: group, Declaration: metadataplan.GroupDeclarationOf(group), Unseen: unseen, Now: start}
	}
	kept := func(d Decision) bool { return slices.Contains(d.OwnedKeys, group.Status.OwnedKeys[0]) }
	if d := Decide(in(true)); !kept(d) || d.Wake.IsZero() {
		t.Errorf("the keys are %v, and it wakes at %s", d.OwnedKeys, d.Wake)
	}
	if d := Decide(in(false)); kept(d) || !d.Wake.IsZero() {
		t.Errorf("afterwards the keys are %v, and it wakes at %s", d.OwnedKeys, d.Wake)
	}
	group.DeletionTimestamp = &metav1.Time{Time: start}
	if d := Decide(in(true)); d.Released || d.Wake.IsZero() {
		t.Errorf("released: %t, and it wakes at %s", d.Released, d.Wake)
	}
	if d := Decide(in(false)); !d.Released {
		t.Error("afterwards it is not released")
	}
}
