package metadata

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/status"
)

// writeNode writes a Node for its MachineSet and its NodeGroup, in one patch if both have something to write. w and group may be nil. inSet reports
// that the Node has a MachineSet. version and err are the result for the group.
func (r *Reconciler) writeNode(ctx context.Context, w *work, group *grouplayer.Work, inSet bool) (version string, err error) {
	set, ofGroup := w.nodeWrite(), groupWrite(group)
	if set != nil && group != nil && group.Concerned() {
		set.awaited = true // what one layer changes, the other may wait for
	}
	if ofGroup != nil && inSet {
		ofGroup.awaited = true
	}
	if set != nil && ofGroup != nil {
		set.change.Group = ofGroup.change.Group
		version, err = r.patchNode(ctx, set)
		if status.Classify(err) != status.Denied {
			w.finishNode(ctx, err)
			return version, err
		}
		// The API server may deny what one layer declares. The other layer does not wait for that.
		set.change.Group = nil
	}
	if set != nil {
		_, err := r.patchNode(ctx, set)
		w.finishNode(ctx, err)
	}
	if ofGroup != nil {
		return r.patchNode(ctx, ofGroup)
	}
	return "", nil
}

// nodeWrite returns the write of a Node for its MachineSet; nil for none.
func (w *work) nodeWrite() *nodeWrite {
	if w == nil || w.applied.class != status.OK {
		return nil
	}
	return &nodeWrite{node: w.node, change: plan.NodeChange{Set: &w.decision.Node}}
}

// groupWrite returns the write of a Node for its NodeGroup; nil for none.
func groupWrite(w *grouplayer.Work) *nodeWrite {
	if w == nil || w.Node() == nil {
		return nil
	}
	return &nodeWrite{node: w.Node(), change: plan.NodeChange{Group: w.Change()}, awaited: w.Awaited()}
}

// nodeWrite is a write of a Node.
type nodeWrite struct {
	node   *corev1.Node
	change plan.NodeChange
	// awaited reports whether a reconciliation is to follow when the cache shows the write.
	awaited bool
}

// patchNode sends one patch of a Node, and returns its version then.
func (r *Reconciler) patchNode(ctx context.Context, write *nodeWrite) (version string, err error) {
	patch, err := write.change.Patch(write.node)
	if err != nil {
		return "", apierrors.NewBadRequest(err.Error())
	}
	target := metadataOf(corev1.SchemeGroupVersion.WithKind("Node"), write.node)
	err = r.send(ctx, write.node.UID, target, client.RawPatch(types.JSONPatchType, patch), func() expectations.Write {
		return expectations.Write{
			Version: target.ResourceVersion, Exact: write.change.AsPlanned(write.node, target), Taints: write.change.ChangesTaints(), Awaited: write.awaited,
		}
	})
	return target.ResourceVersion, err
}

// send sends one patch of the object with a UID. The API server returns only metadata, which is all that is needed of its answer; expected returns
// what is expected of the cache then. The end of a run does not cancel the request: the next run would not know whether the API server has carried it
// out.
func (r *Reconciler) send(
	ctx context.Context, uid types.UID, target *metav1.PartialObjectMetadata, patch client.Patch, expected func() expectations.Write,
) (err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), sendTimeout)
	defer cancel()
	r.versions.Send(string(uid), func() (expectations.Write, bool) {
		if err = r.writer.Patch(ctx, target, patch, FieldOwner); err != nil {
			return expectations.Write{}, false
		}
		return expected(), true
	})
	return err
}
