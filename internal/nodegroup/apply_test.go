package nodegroup

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/rollout"
)

// TestHasEnded: the event says once that a roll-out has ended, not when a Node joins or is repaired later.
func TestHasEnded(t *testing.T) {
	running, ended := &v1alpha1.RolloutStatus{Revision: "a"}, &v1alpha1.RolloutStatus{Revision: "a", EndTime: &metav1.Time{}}
	for name, test := range map[string]struct {
		before, after *v1alpha1.RolloutStatus
		want          bool
	}{
		"it begins":                 {nil, running, false},
		"it goes on":                {running, running, false},
		"it ends":                   {running, ended, true},
		"it has ended before":       {ended, ended, false},
		"there is nothing to write": {nil, ended, false},
		"another revision":          {&v1alpha1.RolloutStatus{Revision: "b"}, ended, false},
	} {
		if got := hasEnded(test.before, test.after); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestAwaitGuards: a new process leaves the status alone until it knows which guarded taints are held back, unless something else has changed.
func TestAwaitGuards(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	for name, c := range map[string]struct {
		change func(rc *reconciliation, in *plan.Input, decision *plan.Decision)
		want   time.Duration
	}{
		"just started":        {func(*reconciliation, *plan.Input, *plan.Decision) {}, time.Second},
		"some time ago":       {func(rc *reconciliation, _ *plan.Input, _ *plan.Decision) { rc.state.begun = now.Add(-time.Minute) }, 0},
		"a new group":         {func(rc *reconciliation, _ *plan.Input, _ *plan.Decision) { rc.group.Status.Rollout = nil }, 0},
		"a changed group":     {func(rc *reconciliation, _ *plan.Input, _ *plan.Decision) { rc.group.Generation++ }, 0},
		"another declaration": {func(_ *reconciliation, in *plan.Input, _ *plan.Decision) { in.Declaration.Revision = "b" }, 0},
		"other keys": {func(_ *reconciliation, _ *plan.Input, decision *plan.Decision) {
			decision.OwnedKeys = []string{"label/a"}
		}, 0},
		"held back, as is known": {func(_ *reconciliation, in *plan.Input, _ *plan.Decision) {
			in.Nodes[0].Metadata.State = metadataplan.RefusedState
		}, 0},
		"nothing guarded": {func(_ *reconciliation, in *plan.Input, _ *plan.Decision) { in.Nodes[0].Metadata.Guarded = nil }, 0},
	} {
		group := &v1alpha1.NodeGroup{}
		group.Status.Rollout = &v1alpha1.RolloutStatus{Revision: "a"}
		rc := &reconciliation{
			observation: &observation{group: &members.Group{NodeGroup: group}}, state: &groupState{begun: now.Add(-time.Second)}, now: now,
		}
		in := &plan.Input{Declaration: &metadataplan.Declaration{Revision: "a"}, Nodes: []rollout.Node{{
			Metadata: metadataplan.GroupDecision{State: metadataplan.Pending, Guarded: []string{"k:NoExecute"}},
		}}}
		decision := &plan.Decision{}
		c.change(rc, in, decision)
		if got := rc.awaitGuards(in, decision); got != c.want {
			t.Errorf("%s: the status stays for %s, want %s", name, got, c.want)
		}
	}
}
