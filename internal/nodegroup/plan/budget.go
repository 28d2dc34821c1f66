package plan

import (
	"slices"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/status"
)

// Budget is what the budget of a group is compared with.
type Budget struct {
	disruptionplan.Counts

	// Waiting is how many disruptions wait, for the budget or for a window.
	Waiting int
	// Disrupted are the Nodes that capabilities disrupt.
	Disrupted []v1alpha1.Reservation
	// Explanation says why they wait, and which Nodes are unavailable.
	Explanation disruptionplan.Explanation
	// Window is whether disruptions may begin.
	Window disruptionplan.Window
}

// blockedByBudget returns the condition Blocked of a group whose budget or window keeps disruptions from beginning, or is exceeded.
func (in *Input) blockedByBudget() (blocked Condition, found bool) {
	const kind = v1alpha1.ConditionBlocked
	b := in.Budget
	switch {
	case b == nil:
	case b.Unavailable > b.Limit:
		return isTrue(kind, disruptionplan.ReasonBudgetExceeded,
			"%d of %d Nodes are unavailable, and the budget is %d; %d disruptions wait; unavailable are %s",
			b.Unavailable, b.Expected, b.Limit, b.Waiting, b.Explanation.Unavailable), true
	case b.Waiting == 0:
	case b.Window.Closed:
		return isTrue(kind, b.Window.Reason, "%d disruptions wait: %s", b.Waiting, b.Window.Message), true
	case b.Unavailable == b.Limit:
		return isTrue(kind, disruptionplan.ReasonBudgetExhausted,
			"%d of %d Nodes are unavailable, which is the budget; %d disruptions wait; unavailable are %s",
			b.Unavailable, b.Expected, b.Waiting, b.Explanation.Unavailable), true
	case b.Explanation.Reason != "" && b.Explanation.Reason != disruptionplan.ReasonSuspended:
		return isTrue(kind, b.Explanation.Reason, "%d disruptions wait; the first: %s", b.Waiting, b.Explanation.Message), true
	}
	return Condition{}, false
}

// maxWindowReason bounds status.window.reason, as its schema does.
const maxWindowReason = 512

// WindowStatus returns status.window; nil for a group without windows and freezes.
func (in *Input) WindowStatus() *v1alpha1.WindowStatus {
	if in.Budget == nil || !hasWindows(in.Group) {
		return nil
	}
	window := in.Budget.Window
	out := &v1alpha1.WindowStatus{Open: !window.Closed, Reason: status.Shorten(window.Message, maxWindowReason)}
	if !window.Changes.IsZero() && bounded.IsEncodable(window.Changes) {
		out.NextChange = timestamp(window.Changes)
	}
	return out
}

// decideBudget has the decision made again when a window opens or closes.
func (in *Input) decideBudget(d *Decision) {
	if in.Budget != nil && !in.Budget.Window.Changes.IsZero() {
		d.WakeAt(in.Budget.Window.Changes)
	}
}

// disrupts reports whether a capability that a condition holds for disrupts a Node.
func (in *Input) disrupts(node *rollout.Node, condition func(v1alpha1.Capability) bool) bool {
	return in.Budget != nil && slices.ContainsFunc(in.Budget.Disrupted, func(r v1alpha1.Reservation) bool {
		return r.Node == node.Name && condition(r.Capability)
	})
}

// defaultDeadline is how long a Machine that is made in place of another one is waited for where the group does not say: the default of
// spec.replacement.progressDeadline.
const defaultDeadline = 30 * time.Minute

// PaceOf returns how long to wait for the Nodes of a group. rollout applies to a group without spec.rollout; nil means the schema's defaults.
func PaceOf(group *v1alpha1.NodeGroup, rollout *v1alpha1.Rollout) disruptionplan.Pace {
	pace := disruptionplan.Pace{Deadline: defaultDeadline}
	if group.Spec.Rollout != nil {
		rollout = group.Spec.Rollout
	}
	if rollout != nil {
		pace.MinReady = time.Duration(rollout.MinReadySeconds) * time.Second
	}
	if r := group.Spec.Replacement; r != nil && r.ProgressDeadline != nil {
		pace.Deadline = r.ProgressDeadline.Duration
	}
	return pace
}
