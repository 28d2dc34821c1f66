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
)

// request asks for the permission to remediate a Machine. The machine controller has the same holder, and needs the lease for the drain. Who
// remediates externally acquires a lease or does not; but a node that another controller works on is not handed over.
func (rc *reconciliation) request(r *plan.Remediation) *disruption.Request {
	request := &disruption.Request{
		Request: requestFor(r.Machine, r.Node), Target: r.Node,
		Leases: rc.options.Leases, Borrowed: r.Method != plan.ByDeletion, Trial: true,
	}
	request.Since = r.Assessment.Due
	if request.Protected = rc.protectedNode(r.Machine, r.Node); request.Protected != nil {
		request.Guard = rc.options.Guard
		request.Peer = func(ctx context.Context) (string, error) { return rc.findDeletedPeer(ctx, r.Machine) }
	}
	return request
}

// requestFor names the Node of a Machine, nil for none, and what it is disrupted for.
func requestFor(machine *machinev1beta1.Machine, node *corev1.Node) disruptionplan.Request {
	name := disruptionplan.MachineName(client.ObjectKeyFromObject(machine))
	request := disruptionplan.Request{
		Capability: v1alpha1.CapabilityRemediation, Object: name, ObjectUID: machine.UID, Node: name, UID: machine.UID,
	}
	ref := machine.Status.NodeRef
	if node != nil {
		request.Node, request.UID = node.Name, node.UID
	} else if ref != nil {
		// The writer of the status must not name the place of another Machine.
		if _, isMachine := disruptionplan.ParseMachineName(ref.Name); !isMachine {
			request.Node, request.UID = ref.Name, ref.UID
		}
	}
	return request
}

// blockedBy returns the outcome for a Machine whose remediation is not permitted now.
func blockedBy(machine *machinev1beta1.Machine, permit *disruption.Permit) outcome {
	reasons := map[string]string{
		disruptionplan.ReasonLease: plan.ReasonLease, disruptionplan.ReasonQuorum: plan.ReasonQuorum,
		disruptionplan.ReasonQuorumUnknown: plan.ReasonQuorumUnknown,
	}
	reason, found := reasons[permit.Reason]
	if !found {
		reason = plan.ReasonBudget
	}
	out := blocked(machine, reason, permit.Message)
	out.Requeue.In(permit.After)
	return out
}

// nodeNameToHealthChecks returns the MachineHealthChecks that select the Machine of a Node. The name may also be a disruptionplan.MachineName, of a
// Machine without a Node.
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
