package replacement

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// objectOf returns the name of a Machine in a reservation.
func objectOf(m *machine) string { return "Machine/" + m.Namespace + "/" + m.Name }

// request asks for a place to disrupt the Node of a Machine.
func request(m *machine) disruption.Request {
	return disruption.Request{Request: disruptionplan.Request{
		Node: m.node.Name, UID: m.node.UID, Capability: v1alpha1.CapabilityReplacement, Object: objectOf(m),
	}}
}

// reserve reserves a place in the budget for the Node of a Machine. Without a Node nothing is disrupted.
func (rc *reconciliation) reserve(ctx context.Context, m *machine) (disruption.Answer, error) {
	if rc.Budgets == nil || m.node == nil {
		return disruption.Answer{Answer: disruptionplan.Answer{Allowed: true}}, nil
	}
	asked := request(m)
	answer, err := rc.Budgets.Reserve(ctx, asked)
	rc.state.waiting = nil
	if err == nil && !answer.Allowed {
		rc.state.waiting = &asked
	}
	return answer, err
}

// withdraw ends the requests for Nodes of Machines that are not replaced now: another one may have its turn before, the group may have been
// suspended, or a predecessor of this process may have reserved a place and ended.
func (rc *reconciliation) withdraw(ctx context.Context, replaced []types.UID) error {
	if rc.Budgets == nil {
		return nil
	}
	wanted := map[string]bool{}
	for _, uid := range replaced {
		wanted[objectOf(rc.machines[uid])] = true
	}
	if waiting := rc.state.waiting; waiting != nil && !wanted[waiting.Object] {
		if err := rc.Budgets.Withdraw(ctx, *waiting); err != nil {
			return err
		}
		rc.state.waiting = nil
	}
	return rc.releaseUnused(ctx, wanted)
}

// releaseUnused releases the reservations of Machines that are neither being deleted nor among those that are replaced now.
func (rc *reconciliation) releaseUnused(ctx context.Context, wanted map[string]bool) error {
	unused := map[string]bool{}
	for _, m := range rc.machines {
		if object := objectOf(m); m.DeletionTimestamp == nil && !wanted[object] {
			unused[object] = true
		}
	}
	for _, r := range rc.group.Status.Reservations {
		if r.Capability != v1alpha1.CapabilityReplacement || !unused[r.Object] {
			continue
		}
		unneeded := disruption.Request{Group: rc.group.Name, Request: disruptionplan.Request{
			Node: r.Node, UID: r.UID, Capability: r.Capability, Object: r.Object,
		}}
		if err := rc.Budgets.Withdraw(ctx, unneeded); err != nil {
			return err
		}
	}
	return nil
}
