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
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// pass is one look at one Machine.
type pass struct {
	*Reconciler
	*gathered
	key      types.NamespacedName
	now      time.Time
	decision plan.Decision
	// wake is when the first withheld key may be written again; zero for none.
	wake time.Time
	// wroteMachine and wroteNode tell what this pass has written.
	wroteMachine, wroteNode bool
	// writing is the object of the last write, also of one that failed.
	writing client.Object
}

// newborn is how long a Node counts as new. One that is given its labels and taints only once pods have come is not what was asked for.
const newborn = 10 * time.Minute

// act writes what was decided, the Machine before its Node: on OpenShift nodelink carries what stands on the Machine to the Node, and
// would put back what was removed only there. What the Machine alone proves is claimed on the Node first.
func (p *pass) act(ctx context.Context) (reconcile.Result, error) {
	if !p.decision.Machine.Write && !p.decision.Node.Write {
		p.stale.Forget(p.key)
		p.report(ctx, p.decision.State)
		return p.again(), nil
	}
	urgent := p.decision.Drift || p.rewritesMachine() || p.newNode()
	if wait := p.pacer.admit(p.key, urgent, p.now); wait > 0 {
		p.unfinished(p.decision.State)
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	for _, write := range []func(context.Context) (status.Class, error){p.writeClaim, p.writeMachine, p.writeNode} {
		class, err := write(ctx)
		if class != status.OK {
			return p.failed(ctx, class, err)
		}
	}
	p.stale.Forget(p.key)
	p.told(ctx, p.report(ctx, p.decision.Settled))
	return p.again(), nil
}

// newNode tells that the Node has just registered and has nothing yet. It does not wait behind a roll-out to those that are there; the old
// Nodes of a first run do, for so many would take the turns of the hand edits.
func (p *pass) newNode() bool {
	return p.decision.FirstSight && p.now.Sub(p.node.CreationTimestamp.Time) < newborn
}

// again says when to look at this Machine without an event.
func (p *pass) again() reconcile.Result {
	if p.wake.IsZero() {
		return reconcile.Result{}
	}
	return reconcile.Result{RequeueAfter: max(p.wake.Sub(p.now), time.Millisecond)}
}

// writeClaim makes what is to be written to the Node Drover's before the proof of it goes. The rest of the pass goes on from there.
func (p *pass) writeClaim(ctx context.Context) (status.Class, error) {
	claim := p.decision.Claim
	if !claim.Write() {
		return status.OK, nil
	}
	p.writing = p.node
	patch, err := plan.ClaimPatch(p.node, claim)
	if err != nil {
		return status.Denied, err
	}
	target := partial(corev1.SchemeGroupVersion.WithKind("Node"), p.node)
	class, err := p.patch(ctx, "node", target, client.RawPatch(types.JSONPatchType, patch))
	if class == status.OK {
		p.versions.Expect(string(p.node.UID), expectations.Write{Version: target.ResourceVersion})
		p.node = plan.Claimed(p.node, claim)
	}
	return class, err
}

func (p *pass) writeMachine(ctx context.Context) (status.Class, error) {
	change := p.decision.Machine
	if !change.Write {
		return status.OK, nil
	}
	p.writing = p.machine
	patch, err := plan.MachinePatch(p.machine, change)
	if err != nil {
		return status.Denied, err
	}
	repair := p.rewritesMachine()
	target := partial(machinev1beta1.GroupVersion.WithKind("Machine"), p.machine)
	class, err := p.patch(ctx, "machine", target, client.RawPatch(types.MergePatchType, patch))
	if class == status.OK {
		p.versions.Expect(string(p.machine.UID), expectations.Write{Version: target.ResourceVersion})
		p.wroteMachine = true
		p.ledger.wrote(plan.OnMachine, p.key, p.revision())
		if repair {
			p.repaired(plan.OnMachine, change)
		}
	}
	return class, err
}

func (p *pass) writeNode(ctx context.Context) (status.Class, error) {
	change := p.decision.Node
	if !change.Write {
		return status.OK, nil
	}
	p.writing = p.node
	patch, err := plan.NodePatch(p.node, change)
	if err != nil {
		return status.Denied, err
	}
	repair := p.decision.Drift || p.rewritesRecord()
	target := partial(corev1.SchemeGroupVersion.WithKind("Node"), p.node)
	class, err := p.patch(ctx, "node", target, client.RawPatch(types.JSONPatchType, patch))
	if class == status.OK {
		p.versions.Expect(string(p.node.UID), expectations.Write{
			Version: target.ResourceVersion, Exact: plan.Foreseen(p.node, change, target), Taints: change.Results[ownership.Taint].Changed(),
		})
		p.wroteNode = true
		p.ledger.wrote(plan.OnNode, p.key, p.nodeRevision())
		if repair {
			p.repaired(plan.OnNode, change)
		}
	}
	return class, err
}

// patch sends one patch. Only metadata comes back, which is all that is needed of the answer.
func (p *pass) patch(
	ctx context.Context, kind string, target *metav1.PartialObjectMetadata, patch client.Patch,
) (status.Class, error) {
	err := p.writer.Patch(ctx, target, patch, FieldOwner)
	class := status.Classify(err)
	p.metrics.writes.WithLabelValues(kind, string(class)).Inc()
	if class == status.OK {
		log.FromContext(ctx).V(1).Info("patched", "kind", kind, "name", target.Name, "machineset", p.poolName())
	}
	return class, err
}

func partial(kind schema.GroupVersionKind, object client.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(kind)
	target.Name, target.Namespace = object.GetName(), object.GetNamespace()
	return target
}

// failed turns the class of a failed write into what happens next.
func (p *pass) failed(ctx context.Context, class status.Class, err error) (reconcile.Result, error) {
	switch class {
	case status.Stale:
		p.unfinished(p.decision.State)
		return reconcile.Result{RequeueAfter: p.stale.When(p.key)}, nil
	case status.Gone:
		// Its Deleted event is on the way, or here already.
		return reconcile.Result{RequeueAfter: catchUp}, nil
	case status.Denied:
		p.failure()
		log.FromContext(ctx).Error(err, "the API server refuses a write", "retryAfter", retryDenied.String())
		if p.unfinished(plan.Held).moved {
			p.notices.warning(p.writing, EventDenied, "cannot carry the metadata of MachineSet %s: %v", p.poolName(), err)
		}
		return reconcile.Result{RequeueAfter: retryDenied}, nil
	}
	p.failure()
	p.unfinished(p.decision.State)
	return reconcile.Result{}, err
}

func (p *pass) failure() {
	name := p.machine.Name
	if p.node != nil {
		name = p.node.Name
	}
	p.metrics.failures.WithLabelValues(name).Inc()
}

// rewritesMachine tells that the Machine was written for this revision before: somebody else has changed it since.
func (p *pass) rewritesMachine() bool {
	return p.decision.Machine.Write && p.ledger.rewrites(plan.OnMachine, p.key, p.revision())
}

// rewritesRecord tells that the Node's record alone has to be written and was written before for the same: somebody takes it away.
func (p *pass) rewritesRecord() bool {
	return p.decision.Node.RecordOnly() && p.ledger.rewrites(plan.OnNode, p.key, p.nodeRevision())
}

// repaired counts what was put back, and tells of a fight when it happens too often.
func (p *pass) repaired(target plan.Target, change plan.Change) {
	p.metrics.repairs.Inc()
	if change.RecordOnly() {
		p.fought(target, ownership.Annotation, ownership.AnnotationRecord, "which is the record of what is Drover's")
		return
	}
	for _, kind := range ownership.Kinds {
		result := change.Results[kind]
		keys := append(ownership.KeysOf(result.Set).Sorted(), result.Remove...)
		for _, key := range keys {
			p.fought(target, kind, key, "which MachineSet "+p.poolName()+" declares")
		}
	}
}

// fought counts one key that was put back.
func (p *pass) fought(target plan.Target, kind ownership.Kind, key, what string) {
	if !p.fights.repaired(p.fightKey(target, kind, key), p.now) {
		return
	}
	p.metrics.fights.Inc()
	// The next look finds the key withheld, and says so; it also knows when to end that.
	p.wake = p.now
	p.notices.warning(p.writing, EventFight,
		"another writer keeps changing %s %q, %s; Drover leaves it alone for a while", kind, key, what)
}

func (p *pass) fightKey(target plan.Target, kind ownership.Kind, key string) fightKey {
	object := p.key.String()
	if target == plan.OnNode {
		object = p.node.Name
	}
	return fightKey{target: target, object: object, kind: kind, key: key}
}

func (p *pass) revision() string {
	if p.declared == nil {
		return ""
	}
	return p.declared.pool.Revision
}

// nodeRevision tells what was declared for which Node.
func (p *pass) nodeRevision() string { return string(p.node.UID) + "/" + p.decision.Digest }

func (p *pass) poolName() string {
	if p.declared == nil {
		return "(none)"
	}
	return p.declared.pool.Key.Name
}
