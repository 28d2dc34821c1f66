package metadata

import (
	"context"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// newNodeAge is how long a Node counts as new. Labels and taints that it gets only after its first Pods come too late.
const newNodeAge = 10 * time.Minute

// isDue reports whether what was decided is to be written now, or how long it waits for its turn.
func (rc *reconciliation) isDue(decision *plan.Decision) (due bool, wait time.Duration) {
	if !decision.Machine.Write && !decision.Node.Write {
		return false, 0
	}
	urgent := decision.Drift || rc.rewritesMachine(decision) || rc.isNewNode(decision)
	wait = rc.limiter.Reserve(rc.key, urgent, rc.now)
	return wait == 0, wait
}

// writeMachine writes the Machine, before its Node: on OpenShift nodelink copies the Machine's entries to the Node, and would put back what was
// removed only there. Before both, the Node's ownership record is written where only the Machine's value shows that the Node's is Drover's.
func (w *work) writeMachine(ctx context.Context) {
	if !w.due {
		return
	}
	w.applied = w.applied.and(w.rc.writeRecord(ctx, &w.decision))
	if w.applied.class == status.OK {
		if w.decision.RecordUpdate.Write() {
			w.node = plan.WithRecord(w.rc.node, w.decision.RecordUpdate)
		}
		w.applied = w.applied.and(w.rc.writeMachine(ctx, &w.decision))
	}
}

// isNewNode reports whether the Node has just registered and has nothing yet. Such a Node does not wait behind a roll-out to existing Nodes. The
// existing Nodes of a first run do wait, since so many would use up what is reserved for manual edits.
func (rc *reconciliation) isNewNode(decision *plan.Decision) bool {
	return decision.FirstWrite && rc.now.Sub(rc.node.CreationTimestamp.Time) < newNodeAge
}

// rewritesMachine reports whether Drover writes the Machine again for the same revision: another writer has changed it since.
func (rc *reconciliation) rewritesMachine(decision *plan.Decision) bool {
	return decision.Machine.Write && rc.tracker.wasWritten(plan.OnMachine, rc.key, rc.revision())
}

// rewritesRecord reports whether only the Node's record is written, and was written for the same before: another writer removes it.
func (rc *reconciliation) rewritesRecord(decision *plan.Decision) bool {
	return decision.Node.RecordOnly() && rc.tracker.wasWritten(plan.OnNode, rc.key, rc.nodeRevision(decision))
}

// rewritesNode reports whether entries of the Node are written that were written for the same before, and its record does not show that, or claims
// that all is as declared: another writer has changed the record, too.
func (rc *reconciliation) rewritesNode(decision *plan.Decision) bool {
	return decision.Node.Changed() && (rc.gate != nil || !decision.Reached) &&
		rc.tracker.wasWritten(plan.OnNode, rc.key, rc.nodeRevision(decision))
}

// writeRecord records on the Node that entries are Drover's which so far only the Machine's value shows to be.
func (rc *reconciliation) writeRecord(ctx context.Context, decision *plan.Decision) written {
	if !decision.RecordUpdate.Write() {
		return written{class: status.OK}
	}
	patch, err := plan.RecordPatch(rc.node, decision.RecordUpdate)
	if err != nil {
		return written{class: status.Denied, err: err, object: rc.node}
	}
	target := metadataOf(corev1.SchemeGroupVersion.WithKind("Node"), rc.node)
	class, err := rc.patch(ctx, "node", rc.node.UID, target, client.RawPatch(types.JSONPatchType, patch), func() expectations.Write {
		return expectations.Write{Version: target.ResourceVersion}
	})
	return written{class: class, err: err, object: rc.node}
}

func (rc *reconciliation) writeMachine(ctx context.Context, decision *plan.Decision) written {
	change := decision.Machine
	if !change.Write {
		return written{class: status.OK}
	}
	patch, err := plan.MachinePatch(rc.machine, change)
	if err != nil {
		return written{class: status.Denied, err: err, object: rc.machine}
	}
	repairs := rc.rewritesMachine(decision)
	target := metadataOf(machinev1beta1.GroupVersion.WithKind("Machine"), rc.machine)
	class, err := rc.patch(ctx, "machine", rc.machine.UID, target, client.RawPatch(types.MergePatchType, patch), func() expectations.Write {
		return expectations.Write{Version: target.ResourceVersion}
	})
	out := written{class: class, err: err, object: rc.machine, wroteMachine: class == status.OK}
	if out.wroteMachine {
		rc.tracker.recordWrite(plan.OnMachine, rc.key, rc.revision())
		if repairs && rc.recordRepair(plan.OnMachine, rc.machine, change, true) {
			out.requeue.In(0)
		}
	}
	return out
}

// finishNode notes what has come of the write of the Node.
func (w *work) finishNode(ctx context.Context, err error) {
	rc, change := w.rc, w.decision.Node
	class := rc.count(ctx, "node", rc.node.Name, err)
	rewrites := rc.rewritesRecord(&w.decision) || rc.rewritesNode(&w.decision)
	out := written{class: class, err: err, object: rc.node, wroteNode: class == status.OK}
	if out.wroteNode {
		rc.tracker.recordWrite(plan.OnNode, rc.key, rc.nodeRevision(&w.decision))
		if (rewrites || w.decision.Drift) && rc.recordRepair(plan.OnNode, rc.node, change, rewrites) {
			out.requeue.In(0)
		}
	}
	w.applied = w.applied.and(out)
}

// sendTimeout bounds a write; the API server ends requests after a minute
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/, --request-timeout).
const sendTimeout = time.Minute

// patch is send for an object of the reconciliation, and counts it.
func (rc *reconciliation) patch(
	ctx context.Context, kind string, uid types.UID, target *metav1.PartialObjectMetadata, patch client.Patch, expected func() expectations.Write,
) (status.Class, error) {
	err := rc.send(ctx, uid, target, patch, expected)
	return rc.count(ctx, kind, target.Name, err), err
}

// count counts and logs a write for the MachineSet.
func (rc *reconciliation) count(ctx context.Context, kind, name string, err error) status.Class {
	class := status.Classify(err)
	rc.metrics.writes.WithLabelValues(kind, string(class)).Inc()
	if class == status.OK {
		log.FromContext(ctx).V(1).Info("patched", "kind", kind, "name", name, "machineset", rc.setName())
	}
	return class
}

// metadataOf returns an object for requests that ask the API server for metadata only.
func metadataOf(kind schema.GroupVersionKind, object client.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(kind)
	target.Name, target.Namespace = object.GetName(), object.GetNamespace()
	return target
}

// recordRepair counts what has been put back, and reports whether one of the keys is contended now. The next reconciliation then leaves it alone,
// reports that, and knows when to write it again. rewritten reports that the same was written before.
func (rc *reconciliation) recordRepair(target plan.Target, object client.Object, change plan.Change, rewritten bool) (contended bool) {
	if change.RecordOnly() {
		rc.metrics.repairs.Inc()
		return rc.recordRepairOf(target, object, ownership.Annotation, ownership.AnnotationRecord, "which records what Drover owns")
	}
	repaired := change.Repairs(rewritten)
	if !repaired.Empty() {
		rc.metrics.repairs.Inc()
	}
	for _, kind := range ownership.Kinds {
		for _, key := range repaired.Of(kind).Sorted() {
			contended = rc.recordRepairOf(target, object, kind, key, "which MachineSet "+rc.setName()+" declares") || contended
		}
	}
	return contended
}

func (rc *reconciliation) recordRepairOf(target plan.Target, object client.Object, kind ownership.Kind, key, what string) bool {
	if !rc.contention.Repaired(rc.entry(target, kind, key), rc.now) {
		return false
	}
	rc.metrics.contention.Inc()
	rc.recorder.Eventf(object, corev1.EventTypeWarning, EventContention,
		"another writer keeps changing %s %q, %s; Drover leaves it alone for a while", kind, key, what)
	return true
}

func (rc *reconciliation) entry(target plan.Target, kind ownership.Kind, key string) pace.Key {
	object := rc.key.String()
	if target == plan.OnNode {
		object = rc.node.Name
	}
	return pace.Key{Target: target, Object: object, Kind: kind, Key: key}
}

func (rc *reconciliation) revision() string {
	if rc.set == nil {
		return ""
	}
	return rc.set.declaration.Revision
}

// nodeRevision identifies the Node and what was declared for it.
func (rc *reconciliation) nodeRevision(decision *plan.Decision) string {
	return string(rc.node.UID) + "/" + decision.Digest
}

func (rc *reconciliation) setName() string {
	if rc.set == nil {
		return "(none)"
	}
	return rc.set.key.Name
}
