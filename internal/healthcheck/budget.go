package healthcheck

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/status"
)

// startWithinBudget starts one remediation with a place in the budget of the node's NodeGroup, also of the one that a Machine was to have which never
// had one. It withdraws if the remediation does not start.
func (rc *reconciliation) startWithinBudget(ctx context.Context, current *snapshot, r *plan.Remediation) outcome {
	if rc.options.Budgets == nil {
		return rc.start(ctx, current, r, &disruption.Answer{})
	}
	if out := rc.checkFree(ctx, r); !out.isClear() {
		return out
	}
	request := requestFor(r)
	place, err := rc.options.Budgets.Reserve(ctx, request)
	switch {
	case err != nil:
		return failed(err)
	case !place.Allowed:
		out := blocked(r.Machine, plan.ReasonBudget, place.Message)
		if place.After > 0 {
			out.requeue.In(place.After)
		}
		return out
	}
	out := rc.start(ctx, current, r, &place)
	if out.started == 0 && out.err == nil && !out.conflict {
		return out.and(failed(rc.options.Budgets.Withdraw(ctx, request)))
	}
	return out
}

// checkFree checks whether another holder has the lease of the node, and whether the control plane can spare it. Both are checked again when a place
// is reserved: this check spares the writes of a reservation that would be withdrawn.
func (rc *reconciliation) checkFree(ctx context.Context, r *plan.Remediation) outcome {
	if out := rc.checkLease(ctx, r); !out.isClear() {
		return out
	}
	if node := rc.protectedNode(r.Machine, r.Node); node != nil {
		return rc.checkQuorum(ctx, r.Machine, node)
	}
	return outcome{}
}

func requestFor(r *plan.Remediation) disruption.Request {
	request := disruptionplan.Request{Capability: v1alpha1.CapabilityRemediation, Object: objectOf(r.Machine), Since: r.Assessment.Due}
	ref := r.Machine.Status.NodeRef
	if ref != nil {
		// The writer of the status must not name the place of another Machine.
		if _, isMachine := disruptionplan.ParseMachineName(ref.Name); isMachine {
			ref = nil
		}
	}
	switch {
	case r.Node != nil:
		request.Node, request.UID = r.Node.Name, r.Node.UID
	case ref != nil:
		request.Node, request.UID = ref.Name, ref.UID
	default:
		request.Node, request.UID = objectOf(r.Machine), r.Machine.UID
	}
	return disruption.Request{Request: request}
}

// objectOf returns what the reservation of a Machine's Node names.
func objectOf(machine *machinev1beta1.Machine) string {
	return disruptionplan.MachineName(client.ObjectKeyFromObject(machine))
}

// nodeNameToHealthChecks returns the MachineHealthChecks that select the Machine of a Node, or one that has none.
func (r *Reconciler) nodeNameToHealthChecks(ctx context.Context, name string) []reconcile.Request {
	if key, found := disruptionplan.ParseMachineName(name); found {
		machine := &machinev1beta1.Machine{}
		if err := r.cache.Get(ctx, key, machine); err != nil {
			return nil
		}
		return r.machineToHealthChecks(ctx, machine)
	}
	node := &corev1.Node{}
	node.Name = name
	return r.nodeToHealthChecks(ctx, node, nil)
}

// finishRecovered ends the reservations of Machines that are healthy again.
func (rc *reconciliation) finishRecovered(ctx context.Context, current *snapshot) (out outcome) {
	if rc.options.Budgets == nil {
		return out
	}
	for i := range current.decision.Assessments {
		a, target := &current.decision.Assessments[i], &current.input.Targets[i]
		if a.Health != plan.Healthy || target.Node == nil || target.Deleted {
			continue
		}
		err := rc.options.Budgets.Finish(ctx, disruption.Request{Request: disruptionplan.Request{
			Node: target.Node.Name, UID: target.Node.UID, Capability: v1alpha1.CapabilityRemediation, Object: objectOf(target.Machine),
		}})
		if status.Classify(err) != status.OK {
			return failed(err)
		}
	}
	return out
}
