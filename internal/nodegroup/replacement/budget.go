package replacement

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// request asks for the permission to delete a Machine. The machine controller has the same holder, and needs the lease for the drain.
func (rc *reconciliation) request(m *machine) *disruption.Request {
	name := disruptionplan.MachineName(client.ObjectKeyFromObject(m.Machine))
	request := &disruption.Request{
		Request: disruptionplan.Request{Capability: v1alpha1.CapabilityReplacement, Object: name, ObjectUID: m.UID},
		Leases:  rc.Leases, Trial: true, Target: m.node,
	}
	request.Node, request.UID = m.node.Name, m.node.UID
	if rc.Guard != nil && rc.Guard.Applies(m.node) {
		request.Guard, request.Protected = rc.Guard, m.node
	}
	return request
}

// begin asks for the permission to delete a Machine. Without a Node nothing is disrupted.
func (rc *reconciliation) begin(ctx context.Context, m *machine) (disruption.Permit, context.Context, error) {
	if m.node == nil {
		return disruption.Permit{Answer: disruptionplan.Answer{Allowed: true}}, ctx, nil
	}
	asked := rc.request(m)
	permit, ctx, err := rc.Budgets.Begin(ctx, asked)
	rc.State.waiting = nil
	if err == nil && !permit.Allowed {
		rc.State.waiting = asked
	}
	return permit, ctx, err
}

// withdraw ends the request for a Machine that is not replaced now: another one may have its turn before, or the group may have been suspended.
func (rc *reconciliation) withdraw(ctx context.Context, replaced []types.UID) error {
	waiting := rc.State.waiting
	if waiting == nil || slices.Contains(replaced, waiting.ObjectUID) {
		return nil
	}
	err := rc.Budgets.End(ctx, waiting)
	if err == nil {
		rc.State.waiting = nil
	}
	return err
}
