package maintenance

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// acquireWithinBudget is acquireNode for a node that the maintenance has not cordoned yet: it reserves a place in the budget of the node's NodeGroup
// first, and withdraws if the node cannot be acquired after all.
func (rc *reconciliation) acquireWithinBudget(ctx context.Context, in *plan.Input, progress *plan.Progress) (*drain.CordonRecord, error) {
	request := placeFor(in)
	switch free, err := rc.isFree(ctx, in, progress); {
	case err != nil:
		return nil, err
	case !free: // one that failed after its reservation has a place
		return nil, rc.Budgets.Withdraw(ctx, request)
	}
	answer, err := rc.Budgets.Reserve(ctx, request)
	switch {
	case err != nil:
		return nil, err
	case !answer.Allowed:
		progress.BlockCordon(plan.ReasonWaitingForBudget, answer.Message, answer.After)
		return nil, rc.releaseOwn(ctx, in, progress)
	case answer.Reason == disruptionplan.ReasonBudgetExceeded && !answer.Recorded:
		rc.Recorder.Event(in.Object, corev1.EventTypeWarning, EventBudgetExceeded, answer.Message)
	}
	record, err := rc.acquireNode(ctx, in, nil, &answer, progress)
	if record == nil && err == nil {
		err = rc.Budgets.Withdraw(ctx, request)
	}
	return record, err
}

// isFree reports whether the control plane can spare the node, and no other holder has its lease. Both are checked again when a place is reserved:
// this check spares the writes of a reservation that would be withdrawn.
func (rc *reconciliation) isFree(ctx context.Context, in *plan.Input, progress *plan.Progress) (free bool, err error) {
	if rc.Budgets == nil {
		return true, nil
	}
	if free, err = rc.checkQuorum(ctx, in, progress); err != nil || !free {
		return false, err
	}
	other, err := rc.Lease.HeldByOther(ctx, in.Node.Name)
	if err != nil || other == nil {
		return err == nil, err
	}
	if err := rc.setLease(in, progress, 0, other); err != nil {
		return false, err
	}
	return false, rc.giveUp(ctx, in, progress)
}

// placeFor returns the request for a place in the budget.
func placeFor(in *plan.Input) disruption.Request {
	request := disruption.Request{Request: disruptionplan.Request{
		Node: in.Object.GetSpec().NodeName, Capability: v1alpha1.CapabilityMaintenance, Object: "NodeMaintenance/" + in.Object.GetName(),
		Person: metav1.GetControllerOfNoCopy(in.Object) == nil, Since: in.Object.GetCreationTimestamp().Time,
	}}
	if in.Node != nil {
		request.UID = in.Node.UID
	}
	return request
}
