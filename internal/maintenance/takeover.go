package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
	"github.com/drover-io/drover/internal/status"
)

// inFront returns the cordon record to go on from, and reports whether it is this maintenance's own. It is that, the one of an owner that is gone, or
// what the replaced operator left; nil for none. Anything else is recorded as an obstacle: before is then the record of another owner, or nil if it
// cannot be read.
func (p *pass) inFront(ctx context.Context, node *corev1.Node) (before *drain.CordonRecord, ours bool, err error) {
	p.found.cordon = step{}
	before, err = drain.ReadCordonRecord(node)
	switch {
	case err != nil:
		p.obstacle(step{reason: reasonBadRecord, message: err.Error()})
		return nil, false, nil //nolint:nilerr // the obstacle tells it, and trying again would not help
	case before == nil:
		return p.flavour.inherited(node), false, nil
	case before.By == p.by():
		return before, true, nil
	}
	return before, false, p.checkOwner(ctx, node, before)
}

// errNoOwner is why the owner of a record cannot be asked for.
var errNoOwner = errors.New("the record names no object that can exist")

// checkOwner records an obstacle unless the owner in a node's record is gone, so that the record may be taken over.
func (p *pass) checkOwner(ctx context.Context, node *corev1.Node, record *drain.CordonRecord) error {
	living, err := p.recordOwner(ctx, node.Name, record)
	switch {
	case errors.Is(err, errNoOwner):
		p.obstacle(step{reason: reasonBadRecord, message: fmt.Sprintf(
			"annotation %s of node %s names no object that can have cordoned it; remove the annotation when nothing else works on the node: by %q, object %q",
			drain.AnnotationCordon, node.Name, record.By, record.Object)})
		return nil
	case status.Classify(err) == status.Denied:
		living = fmt.Sprintf("%s, of which the API server does not say whether it exists (%v),", record.By, err)
	case err != nil:
		return err
	case living == "":
		return nil
	}
	p.obstacle(step{reason: reasonForeign, message: fmt.Sprintf("node %s is cordoned for %s since %s; the maintenance begins when that is over",
		node.Name, living, record.Since.Format(time.RFC3339))})
	// Its end need not be an event here.
	p.requeue.In(retryDenied)
	return nil
}

// recordOwner returns the object that wrote a cordon record, in words; empty if that is gone. What the cache does not show is not gone: the group of
// a NodeMaintenance may not be served yet, so that the API server is asked.
func (p *pass) recordOwner(ctx context.Context, node string, record *drain.CordonRecord) (living string, err error) {
	if uid, found := strings.CutPrefix(record.By, recordPrefix); found {
		return p.findMaintenance(ctx, node, types.UID(uid))
	}
	machine, found := owner.MachineOf(record)
	if uid, older := strings.CutPrefix(record.By, owner.MachinePrefix); older && record.Object == "" {
		// An older Drover recorded no name; the controller of Machines adds it to the record of a Machine at work.
		return fmt.Sprintf("the Machine with UID %q (remove the annotation %s if that is gone)", uid, drain.AnnotationCordon), nil
	}
	if !found {
		return "", errNoOwner
	}
	if gone, err := owner.Gone(ctx, p.APIReader, record); err != nil || gone {
		return "", err
	}
	return "Machine " + machine.String(), nil
}

// findMaintenance returns the NodeMaintenance of a node that has a UID, in words; empty if there is none in either group.
func (p *pass) findMaintenance(ctx context.Context, node string, uid types.UID) (living string, err error) {
	claims, err := p.Registry.claims(ctx, node)
	if err != nil {
		return "", err
	}
	for _, c := range claims {
		if c.uid == uid {
			return c.String(), nil
		}
	}
	for _, flavour := range Flavours() {
		list := flavour.list()
		err := p.APIReader.List(ctx, list)
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			continue // its CRD is gone
		case err != nil:
			return "", fmt.Errorf("listing %s: %w", flavour.Resource.GroupResource(), err)
		}
		for _, object := range flavour.items(list) {
			if object.GetUID() == uid && flavour.view(object).spec.NodeName == node && !ended(object) {
				return claimOf(flavour, object).String(), nil
			}
		}
	}
	return "", nil
}

// standAside leaves the node to the owner of its cordon record. The lease is released for a Machine; NodeMaintenances share it. A nil record is one
// that cannot be read: it may be this maintenance's own, so that a lease which it has is renewed.
func (p *pass) standAside(ctx context.Context, node *corev1.Node, record *drain.CordonRecord) error {
	switch {
	case record == nil && meta.IsStatusConditionTrue(p.status.Conditions, ConditionLeaseHeld):
		_, err := p.lease(ctx, node)
		return err
	case record == nil, strings.HasPrefix(record.By, recordPrefix):
		return nil // all NodeMaintenances have the lease as one holder
	}
	return p.yieldLease(ctx, node)
}

// yieldLease releases the leases of a node that this maintenance cannot work on now, if they were acquired: a lease keeps those away who could help
// the node, and those who have cordoned it. The leases themselves say so: a pass that acquires one and then fails writes no status.
func (p *pass) yieldLease(ctx context.Context, node *corev1.Node) error {
	err := p.Lease.ReleaseIfHolder(ctx, node.Name)
	if err == nil && p.flavour.OwnLease {
		err = p.OwnLease.ReleaseIfHolder(ctx, node.Name)
	}
	if status.Classify(err) == status.Denied {
		p.leaseDenied(node, err)
		return nil
	}
	return err
}
