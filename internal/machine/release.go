package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
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

// recordRequests returns the request for the Machine whose cordon record is on a Node, if there is one.
func recordRequests(node *corev1.Node) []reconcile.Request {
	key, found := recordOwner(node)
	if !found {
		return nil
	}
	return []reconcile.Request{{NamespacedName: key}}
}

// releaseOrphans undoes what a Machine of this key has done to Nodes that outlived it: one that was deleted by force, whose Node could not be
// deleted, or turned out to be another Machine's. Machine is the one that exists by the cache; nil for none. Again is when to look once more; zero
// for no need.
func (r *Reconciler) releaseOrphans(ctx context.Context, key types.NamespacedName, machine *machinev1beta1.Machine) (again time.Duration, err error) {
	var nodes corev1.NodeList
	if err := r.Cache.List(ctx, &nodes, client.MatchingFields{indexRecord: key.String()}); err != nil {
		return 0, fmt.Errorf("listing the Nodes with a cordon record of Machine %s: %w", key, err)
	}
	var failed []error
	for i := range nodes.Items {
		held, err := r.releaseOrphan(ctx, &nodes.Items[i], machine)
		switch {
		case err != nil:
			failed = append(failed, err)
		case held != nil:
			again = min(max(held.Until.Sub(r.clock.Now()), time.Second), retryDenied)
		}
	}
	return again, errors.Join(failed...)
}

// releaseFormer releases the Nodes that a former Machine of the name has cordoned. A Node that cannot be released does not hold up this Machine.
func (p *pass) releaseFormer(ctx context.Context) error {
	again, err := p.releaseOrphans(ctx, p.key, p.machine)
	if again > 0 {
		p.later(again)
	}
	switch status.Classify(err) {
	case status.OK:
		delete(p.memory.told, EventFailedRelease)
	case status.Denied, status.Transient:
		p.warn(EventFailedRelease, err.Error())
	}
	return err
}

// releaseOrphan releases one Node unless its Machine is at work, or another writer holds the node's lease: that one may rely on the cordon.
func (r *Reconciler) releaseOrphan(
	ctx context.Context, cached *corev1.Node, machine *machinev1beta1.Machine,
) (*nodelease.AlreadyHeldError, error) {
	hold, err := drain.ReadCordonRecord(cached)
	if err != nil || hold == nil || atWork(machine, hold) {
		return nil, nil //nolint:nilerr // a record that cannot be read has no owner that could be gone
	}
	gone, err := owner.Gone(ctx, r.Live, hold)
	switch {
	case apierrors.IsForbidden(err):
		// It may be a Machine of a namespace that another Drover serves.
		log.FromContext(ctx).V(1).Info("leaving a cordon record alone whose Machine may not be read", "node", cached.Name, "reason", err.Error())
		return nil, nil
	case err != nil || !gone:
		return nil, err
	}
	return r.releaseLive(ctx, cached.Name, hold)
}

// releaseLive releases a Node if the API server's has the record still. The Machine may be gone for a moment only, and its Node with it: the cache
// need not know yet.
func (r *Reconciler) releaseLive(ctx context.Context, name string, hold *drain.CordonRecord) (*nodelease.AlreadyHeldError, error) {
	node := &corev1.Node{}
	if err := r.Live.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return nil, client.IgnoreNotFound(err)
	}
	current, err := drain.ReadCordonRecord(node)
	if err != nil || current == nil || current.By != hold.By || node.DeletionTimestamp != nil {
		return nil, nil //nolint:nilerr // another controller has taken the node over, or it is going
	}
	if held, err := r.Lease.HeldByOther(ctx, node.Name); err != nil || held != nil {
		return held, err
	}
	return nil, r.undo(ctx, node, current)
}

// undo ends the drain, removes the cordon and the record, and releases the node's lease.
func (r *Reconciler) undo(ctx context.Context, node *corev1.Node, current *drain.CordonRecord) error {
	r.Engine.Withdraw(node.Name)
	change, err := drain.Uncordon(node, current, drain.Additions{})
	if err != nil || change.Patch == nil {
		return err
	}
	target := &corev1.Node{ObjectMeta: metaOf(node.Name)}
	err = r.Writer.Patch(ctx, target, client.RawPatch(types.JSONPatchType, change.Patch), fieldOwner)
	switch status.Classify(err) {
	case status.OK:
		log.FromContext(ctx).Info("node released; the Machine that cordoned it is gone", "node", node.Name, "undone", change.Parts)
		return r.Lease.ReleaseIfHolder(ctx, node.Name)
	case status.Gone:
		return nil
	}
	return fmt.Errorf("releasing node %s, whose Machine is gone: %w", node.Name, err)
}

// atWork reports whether a record is that of a Machine with which Drover is not finished.
func atWork(machine *machinev1beta1.Machine, hold *drain.CordonRecord) bool {
	return machine != nil && hold.By == owner.MachinePrefix+string(machine.UID) &&
		(machine.DeletionTimestamp == nil || slices.Contains(machine.Finalizers, machinev1beta1.MachineFinalizer))
}
