package machine

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// indexRecord holds the namespace and name of the Machine whose cordon record is on a Node.
const indexRecord = "node.cordonRecord.machine"

// recordOwner returns the key of the Machine whose cordon record is on a Node.
func recordOwner(node *corev1.Node) (types.NamespacedName, bool) {
	if node.Annotations[drain.AnnotationCordon] == "" {
		return types.NamespacedName{}, false
	}
	hold, err := drain.ReadCordonRecord(node)
	if err != nil || hold == nil {
		return types.NamespacedName{}, false
	}
	return owner.MachineOf(hold)
}

// recordToMachine returns the request for the Machine whose cordon record is on a Node, if there is one.
func recordToMachine(node *corev1.Node) []reconcile.Request {
	key, found := recordOwner(node)
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// releaseNodes undoes what a Machine of this key has done to Nodes that outlived it. The Machine was deleted by force, its Node could not be deleted,
// or the Node turned out to be another Machine's. machine is the Machine in the cache; nil for none.
func (r *Reconciler) releaseNodes(
	ctx context.Context, key types.NamespacedName, machine *machinev1beta1.Machine, requeue *controller.Requeue,
) error {
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.MatchingFields{indexRecord: key.String()}); err != nil {
		return fmt.Errorf("listing the Nodes with a cordon record of Machine %s: %w", key, err)
	}
	var failed []error
	for i := range nodes.Items {
		held, err := r.releaseNode(ctx, &nodes.Items[i], machine)
		switch {
		case err != nil:
			failed = append(failed, err)
		case held != nil:
			requeue.In(delay.UntilLease(held.Until, r.clock.Now()))
		}
	}
	return errors.Join(failed...)
}

// releaseFormer releases the Nodes that an earlier Machine of the name has cordoned. A Node that cannot be released does not block this Machine.
func (rc *reconciliation) releaseFormer(ctx context.Context, machine *machinev1beta1.Machine, requeue *controller.Requeue) error {
	err := rc.releaseNodes(ctx, rc.key, machine, requeue)
	switch status.Classify(err) {
	case status.OK:
		delete(rc.state.emitted, plan.EventFailedRelease)
	case status.Denied, status.Transient:
		rc.emit(machine, plan.Warning(plan.EventFailedRelease, err.Error()))
	}
	return err
}

// releaseNode releases one Node unless its Machine is being drained, or another controller holds the lease of the Node and may rely on the cordon.
func (r *Reconciler) releaseNode(
	ctx context.Context, cached *corev1.Node, machine *machinev1beta1.Machine,
) (*nodelease.AlreadyHeldError, error) {
	hold, err := drain.ReadCordonRecord(cached)
	if err != nil || hold == nil || isActive(machine, hold) {
		return nil, nil //nolint:nilerr // a record that cannot be read has no owner that could be gone
	}
	gone, err := owner.Gone(ctx, r.Live, hold)
	switch {
	case apierrors.IsForbidden(err):
		// It may be a Machine of a namespace that another Drover serves.
		log.FromContext(ctx).V(1).Info("ignoring a cordon record whose Machine Drover may not read", "node", cached.Name, "reason", err.Error())
		return nil, nil
	case err != nil || !gone:
		return nil, err
	}
	return r.releaseLive(ctx, cached.Name, hold)
}

// releaseLive releases a Node if the API server still shows the record. The Machine may just have been deleted, and its Node with it, which the cache
// does not show yet.
func (r *Reconciler) releaseLive(ctx context.Context, name string, hold *drain.CordonRecord) (*nodelease.AlreadyHeldError, error) {
	node := &corev1.Node{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	current, err := drain.ReadCordonRecord(node)
	if err != nil || current == nil || current.By != hold.By || node.DeletionTimestamp != nil {
		return nil, nil //nolint:nilerr // another controller has taken the Node over, or it is being deleted
	}
	if held, err := r.Lease.HeldByOther(ctx, node.Name); err != nil || held != nil {
		return held, err
	}
	return nil, r.undo(ctx, node, current)
}

// undo ends the drain, removes the cordon and the record, and releases the lease of the Node.
func (r *Reconciler) undo(ctx context.Context, node *corev1.Node, current *drain.CordonRecord) error {
	r.Engine.Withdraw(node.Name)
	change, err := drain.Uncordon(node, current, drain.Additions{})
	if err != nil || change.Patch == nil {
		return err
	}
	_, err = controller.PatchCordon(ctx, r.Writer, node.Name, change.Patch, fieldOwner)
	switch status.Classify(err) {
	case status.OK:
		log.FromContext(ctx).Info("released a Node: the Machine that cordoned it is gone", "node", node.Name, "undone", change.Parts)
		return r.Lease.ReleaseIfHolder(ctx, node.Name)
	case status.Gone:
		return nil
	}
	return fmt.Errorf("releasing Node %s, whose Machine is gone: %w", node.Name, err)
}

// isActive reports whether a cordon record belongs to a Machine that Drover has not finished with.
func isActive(machine *machinev1beta1.Machine, hold *drain.CordonRecord) bool {
	return machine != nil && hold.By == owner.MachinePrefix+string(machine.UID) &&
		(machine.DeletionTimestamp == nil || plan.HasFinalizer(machine))
}
