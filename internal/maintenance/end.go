package maintenance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/status"
)

// finish uncordons the node, releases its leases and removes the finalizer.
func (p *pass) finish(ctx context.Context) error {
	p.withdraw(p.state)
	if !slices.Contains(p.GetFinalizers(), medik8s.Finalizer) {
		// Somebody else's finalizer keeps it; nothing is ours here any more.
		return nil
	}
	node, err := p.readNode(ctx)
	if err != nil {
		return err
	}
	if node != nil {
		if err := p.give(ctx, node); err != nil {
			return err
		}
	}
	if err := p.release(ctx, node); err != nil {
		return err
	}
	changed, ok := p.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object of the API", p.Object)
	}
	changed.SetFinalizers(slices.DeleteFunc(slices.Clone(p.GetFinalizers()), func(f string) bool { return f == medik8s.Finalizer }))
	patch := client.MergeFromWithOptions(p.Object, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	p.wrote(changed)
	p.state.ended = true
	p.Recorder.Event(p.Object, corev1.EventTypeNormal, EventRemoved, "Removed a node maintenance")
	log.FromContext(ctx).Info("maintenance is over")
	return nil
}

// give undoes what this maintenance has done to the node. What another one holds is left alone.
func (p *pass) give(ctx context.Context, node *corev1.Node) error {
	hold, err := drain.ReadCordonRecord(node)
	if err != nil {
		// What was before is not known any more; what the incumbent would undo is undone, so that the object can go.
		log.FromContext(ctx).Error(err, "giving the node back without its record")
		hold = nil
	}
	if hold != nil && hold.By != p.by() {
		return nil
	}
	if hold == nil {
		if hold = p.flavour.inherited(node); hold == nil {
			return nil
		}
	}
	change, err := drain.Uncordon(node, hold, p.flavour.marks(true))
	if err != nil || change.Patch == nil {
		return err
	}
	if err := p.patchNode(ctx, node, change.Patch); err != nil {
		return fmt.Errorf("giving node %s back: %w", node.Name, err)
	}
	p.Recorder.Event(node, corev1.EventTypeNormal, EventUncordon, "Uncordon a node")
	log.FromContext(ctx).Info("node given back", "undone", change.Parts)
	return nil
}

// release releases the node's leases unless another NodeMaintenance needs them. All of them have the same holder, so the last one releases.
func (p *pass) release(ctx context.Context, node *corev1.Node) error {
	claims, err := p.Registry.claims(ctx, p.spec.NodeName)
	if err != nil {
		return err
	}
	recorded := recordedHolder(node)
	others := slices.DeleteFunc(claims, func(c claim) bool {
		// Of several that are deleted together the one with the cordon record releases after it has uncordoned the node.
		return c.uid == p.GetUID() || c.deleting && recordPrefix+string(c.uid) != recorded
	})
	if len(others) == 0 {
		if err := p.releaseShared(ctx, recorded); err != nil {
			return err
		}
	}
	if p.flavour.OwnLease && !slices.ContainsFunc(others, func(c claim) bool { return c.flavour.OwnLease }) {
		return p.OwnLease.Release(ctx, p.spec.NodeName)
	}
	return nil
}

// releaseShared releases the node's lease unless the cordon record is that of another NodeMaintenance which exists: its group need not be served
// yet, and the holder of the lease is the same.
func (p *pass) releaseShared(ctx context.Context, recorded string) error {
	if uid, found := strings.CutPrefix(recorded, recordPrefix); found && recorded != p.by() {
		living, err := p.findMaintenance(ctx, p.spec.NodeName, types.UID(uid))
		if status.Classify(err) == status.Denied {
			log.FromContext(ctx).Info("leaving the lease of the node to another NodeMaintenance that cannot be read", "owner", recorded, "reason", err.Error())
			return nil
		}
		if err != nil || living != "" {
			return err
		}
	}
	return p.Lease.Release(ctx, p.spec.NodeName)
}

// recordedHolder returns who the cordon record of a node names; empty without a node or a readable record.
func recordedHolder(node *corev1.Node) string {
	if node == nil {
		return ""
	}
	hold, err := drain.ReadCordonRecord(node)
	if err != nil || hold == nil {
		return ""
	}
	return hold.By
}
