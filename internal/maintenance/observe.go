package maintenance

import (
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/status"
)

// observe reads the node and its cordon record.
func (rc *reconciliation) observe(ctx context.Context, object plan.Object) (*plan.Input, error) {
	in := &plan.Input{
		Object: object, Additions: rc.group.additions, OwnLease: rc.group.OwnLease, Settings: &rc.options.Settings,
		LossCounted: rc.state.lossCounted, Now: rc.clock.Now(),
	}
	var err error
	if in.Node, err = rc.readNode(ctx, object.GetSpec().NodeName); err != nil {
		return nil, err
	}
	if in.Node != nil {
		in.Record, in.RecordErr = drain.ReadCordonRecord(in.Node)
	}
	return in, nil
}

// observePeers reads the NodeMaintenances of the node, and the owner of the cordon record if the decision depends on it.
func (rc *reconciliation) observePeers(ctx context.Context, in *plan.Input) (err error) {
	if in.Peers, err = rc.Registry.peersOf(ctx, in.Object.GetSpec().NodeName); err != nil {
		return err
	}
	if in.NeedsOwner() {
		in.Owner, err = rc.observeOwner(ctx, in)
	}
	return err
}

// errPending and errBehind are why nothing can be decided about a node yet.
var (
	errPending = errors.New("the cache does not show the last write of it yet")
	errBehind  = errors.New("the cache does not show it yet")
)

// readNode returns a node, nil when there is none. The error is a conflict while the cache does not show the node, or the last write of it: without
// the cordon and its record there would be nothing to undo.
func (rc *reconciliation) readNode(ctx context.Context, name string) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := rc.Cache.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, rc.confirmMissing(ctx, name)
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", name, err)
	case rc.Nodes.Pending(ctx, node):
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errPending)
	}
	return node, nil
}

// confirmMissing asks the API server whether there really is no node of a name. Who creates a node and a NodeMaintenance of it may have the event of
// the second one come first.
func (rc *reconciliation) confirmMissing(ctx context.Context, name string) error {
	found, err := expectations.Find(ctx, rc.Live, corev1.SchemeGroupVersion.WithKind("Node"), types.NamespacedName{Name: name})
	if err != nil || found == nil {
		return err
	}
	return apierrors.NewConflict(corev1.Resource("nodes"), name, errBehind)
}

// observeOwner returns the owner of the cordon record on the node. If the API server does not say whether an owner exists, it counts as existing.
func (rc *reconciliation) observeOwner(ctx context.Context, in *plan.Input) (found plan.Owner, err error) {
	record := in.Record
	machine, ofMachine := owner.MachineOf(record)
	if uid, ofMaintenance := strings.CutPrefix(record.By, plan.RecordPrefix); ofMaintenance {
		found.Name, err = rc.findMaintenance(ctx, in, types.UID(uid))
	} else if uid, ofOldMachine := strings.CutPrefix(record.By, owner.MachinePrefix); ofOldMachine && record.Object == "" {
		// An older Drover recorded no name; the controller of Machines adds it to the record of a Machine at work.
		found.Name = fmt.Sprintf("the Machine with UID %q (remove the annotation %s if that is gone)", uid, drain.AnnotationCordon)
	} else if found.Invalid = !ofMachine; ofMachine {
		var gone bool
		if gone, err = owner.Gone(ctx, rc.Live, record); !gone {
			found.Name = "Machine " + machine.String()
		}
	}
	if status.Classify(err) == status.Denied {
		return plan.Owner{Name: fmt.Sprintf("%s, of which the API server does not say whether it exists (%v),", record.By, err)}, nil
	}
	return found, err
}

// findMaintenance describes the NodeMaintenance of the node that has a UID; empty if there is none in either group. What the cache does not show need
// not be gone, because its group may not be served yet: then the API server is asked.
func (rc *reconciliation) findMaintenance(ctx context.Context, in *plan.Input, uid types.UID) (string, error) {
	for i := range in.Peers {
		if in.Peers[i].UID == uid {
			return in.Peers[i].Name, nil
		}
	}
	for _, group := range Groups() {
		objects, err := group.ListLive(ctx, rc.Live)
		switch {
		case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
			continue // its CRD is gone
		case err != nil:
			return "", err
		}
		for _, object := range objects {
			if object.GetUID() == uid && object.GetSpec().NodeName == in.Node.Name && !hasReleased(object) {
				return describe(group, object), nil
			}
		}
	}
	return "", nil
}
