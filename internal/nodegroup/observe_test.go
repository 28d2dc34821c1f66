package nodegroup

import (
	"testing"
	"time"

	"github.com/drover-io/drover/internal/rollout"
)

// TestNoteLeft: the time counts from when a Node was first seen out of the group, and anew when it has come back meanwhile.
func TestNoteLeft(t *testing.T) {
	state, now := &groupState{}, time.Unix(1_700_000_000, 0)
	for _, step := range []struct {
		name  string
		after time.Duration
		nodes []string
		want  time.Duration
	}{
		{"it leaves", 0, []string{"n0"}, 0},
		{"it stays out", time.Minute, []string{"n1", "n0"}, -time.Minute},
		{"it comes back", time.Second, []string{"n1"}, -time.Second},
		{"it leaves again", time.Second, []string{"n0"}, 0},
		{"the clock is set back", -time.Hour, []string{"n0"}, 0},
	} {
		now = now.Add(step.after)
		var released []rollout.Node
		for _, name := range step.nodes {
			released = append(released, rollout.Node{Name: name})
		}
		state.noteLeft(released, now)
		if last := released[len(released)-1]; last.Left.Sub(now) != step.want || len(state.left) != len(released) {
			t.Errorf("%s: Node %s is out since %s, want %s; known are %v", step.name, last.Name, last.Left.Sub(now), step.want, state.left)
		}
	}
}
