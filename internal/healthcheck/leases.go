package healthcheck

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// leases are those that a MachineHealthCheck has acquired for Machines that it has not deleted yet.
type leases map[types.UID]acquiredLease

// acquiredLease is the lease of the node of a Machine.
type acquiredLease struct {
	machine *machinev1beta1.Machine
	node    string
}

func newLeases() *leases { return &leases{} }

func (l *leases) forget(machine types.UID) { delete(*l, machine) }

// acquireLease acquires the lease of the Machine's node.
func (rc *reconciliation) acquireLease(ctx context.Context, r *plan.Remediation) outcome {
	if r.Node == nil || rc.options.Leases == nil {
		return outcome{}
	}
	_, err := rc.options.Leases.Acquire(ctx, r.Node)
	var other *nodelease.AlreadyHeldError
	switch {
	case err == nil:
		(*rc.leases.Get(rc.key, ""))[r.Machine.UID] = acquiredLease{machine: r.Machine, node: r.Node.Name}
		return outcome{}
	case errors.As(err, &other):
		return rc.blockedByLease(r, other)
	case status.Classify(err) == status.Stale:
		return outcome{conflict: true}
	}
	return outcome{err: err}
}

// checkLease checks whether another controller has the lease of the Machine's node. Who remediates externally acquires a lease or does not; but a
// node that another controller works on is not handed over.
func (rc *reconciliation) checkLease(ctx context.Context, r *plan.Remediation) outcome {
	if r.Node == nil || rc.options.Leases == nil {
		return outcome{}
	}
	other, err := rc.options.Leases.HeldByOther(ctx, r.Node.Name)
	if err != nil || other == nil {
		return outcome{err: err}
	}
	return rc.blockedByLease(r, other)
}

func (rc *reconciliation) blockedByLease(r *plan.Remediation, other *nodelease.AlreadyHeldError) outcome {
	out := blocked(r.Machine, plan.ReasonLease, fmt.Sprintf("the lease of node %s is held by %q", other.Node, other.Holder))
	out.requeue.In(min(max(other.Until.Sub(rc.now), controller.CatchUp), retryLease))
	return out
}

// releaseLeases releases the leases of a MachineHealthCheck, except those that are needed for a Machine that it is about to delete: a lease keeps
// other controllers from the node. The lease of a Machine that is being deleted is the machine controller's.
func (r *Reconciler) releaseLeases(ctx context.Context, key types.NamespacedName, needed map[types.UID]bool) error {
	acquired := r.leases.Get(key, "")
	var first error
	for uid, lease := range *acquired {
		if needed[uid] {
			continue
		}
		err := r.releaseLease(ctx, lease)
		switch status.Classify(err) {
		case status.OK:
			acquired.forget(uid)
		case status.Denied:
			log.FromContext(ctx).Error(err, "cannot release a lease; it expires", "node", lease.node)
			acquired.forget(uid)
		default:
			if first == nil {
				first = err
			}
		}
	}
	return first
}

// releaseLease releases a lease unless the API server has it that the Machine is being deleted, or gone.
func (r *Reconciler) releaseLease(ctx context.Context, lease acquiredLease) error {
	machine := &metav1.PartialObjectMetadata{}
	machine.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
	switch err := r.options.Live.Get(ctx, client.ObjectKeyFromObject(lease.machine), machine); {
	case client.IgnoreNotFound(err) != nil:
		return fmt.Errorf("reading Machine %s: %w", lease.machine.Name, err)
	case machine.UID != lease.machine.UID || machine.DeletionTimestamp != nil:
		return nil
	}
	return r.options.Leases.Release(ctx, lease.node)
}
