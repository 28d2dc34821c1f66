// Package grouplayer decides what Nodes get from their NodeGroups, and guards their taints with the effect NoExecute.
//
// It is a layer of the controller of metadata, which writes the Nodes: Begin observes a Node and its group in caches that show all of Drover's own
// writes, and has package metadata/plan decide; End reports what has come of the write. A manual edit is undone at once, and a Node that has just
// registered is written at once; a change of the group reaches a Node when the group's roll-out has admitted it (gate.Gate).
package grouplayer

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/pace"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/undecodable"
)

// Dependencies are what a Layer works with.
type Dependencies struct {
	// Cache reads Nodes and, where they are served, Machines and MachineSets.
	Cache    client.Reader
	Recorder record.EventRecorder
	Metrics  *Metrics
	Finder   *members.Finder
	// Gate says which Nodes a roll-out has reached.
	Gate *gate.Gate
	// Guard evicts Pods before taints with the effect NoExecute; nil where Drover drains no nodes.
	Guard *Guard
	// Memory is shared with the controller of metadata; nil is a new one.
	Memory *Memory
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
}

// Memory is what Drover remembers of its writes of Nodes and Machines, for all layers. It outlives a run of the controller: the next run knows which
// writes the cache may not show yet.
type Memory struct {
	// Versions are Drover's last writes.
	Versions *expectations.Objects
	// Contention has the keys that another writer keeps changing.
	Contention *pace.Contention
}

// NewMemory returns an empty Memory. live asks the API server about writes that the cache does not show for long; with nil they are dropped after a
// minute. A nil clock is the real one.
func NewMemory(live *expectations.Live, passive clock.PassiveClock) *Memory {
	return &Memory{Versions: expectations.NewObjects(live, passive), Contention: pace.NewContention()}
}

// Options configure a Layer.
type Options struct {
	// Limiter bounds the rate of all writes of metadata.
	Limiter *pace.Limiter
	// Protected are the keys that belong to the system.
	Protected ownership.Protected
	// Machines reports whether Machines are served.
	Machines func() bool
}

// Layer is what Nodes get from their NodeGroups. It decides; the controller of metadata writes.
type Layer struct {
	Dependencies
	options    Options
	contention *pace.Contention
	versions   *expectations.Objects
	conflicts  *controller.Conflicts
	states     *controller.States[nodeState]
	// guarded has the names of the Nodes that lack guarded taints, and for each whether this process evicts Pods of it for them.
	guarded sync.Map
	// heldIn has the names of the Nodes whose guarded taints are held back, and for each the namespaces of the Pods that would have to leave. The set is
	// nil until the first decision.
	heldIn sync.Map
}

// nodeState is what is known of a Node between two reconciliations, so that events mark transitions.
type nodeState struct {
	// problems are the problems that events have reported.
	problems map[string]bool
	// denied reports that the API server denied the last write.
	denied bool
	// failing is since when other writers have been faster each time; zero while they have not.
	failing time.Time
	// failingRevision is the declaration whose last write to the Node failed; empty if the last write succeeded.
	failingRevision string
	// guardedSince is since when the guard has the Node's lease; zero while it has not.
	guardedSince time.Time
	// announced is when the announcement of the guarded taints was first seen on the Node without Pods that have to leave; zero while it has not.
	announced time.Time
	// timedOut is what the Node's record gets after a timeout; nil for none. It applies while the declaration is still timedOutRevision.
	timedOut         *ownership.Timeout
	timedOutRevision string
}

// NewLayer returns a Layer.
func NewLayer(dependencies Dependencies, options Options) *Layer {
	if dependencies.Clock == nil {
		dependencies.Clock = clock.RealClock{}
	}
	if dependencies.Memory == nil {
		dependencies.Memory = NewMemory(nil, dependencies.Clock)
	}
	return &Layer{
		Dependencies: dependencies, options: options, versions: dependencies.Memory.Versions, contention: dependencies.Memory.Contention,
		conflicts: controller.NewConflicts(),
		states:    controller.NewStates(func() *nodeState { return &nodeState{problems: map[string]bool{}} }, nil),
	}
}

// reconciliation is what one reconciliation of a Node works on. Only decide sets begun, withheld and lost.
type reconciliation struct {
	*Layer
	members.Assignment
	key   types.NamespacedName
	state *nodeState
	now   time.Time
	// begun reports that Pods are leaving, or have left, for a guarded taint.
	begun bool
	// withheld reports that guarded taints are in the decision, and may not be written whatever has changed since.
	withheld bool
	// lost says which Pods Kubernetes deletes when the taints are set, regardless of their PodDisruptionBudgets; empty for none.
	lost string
}

// written is what has come of writing what was decided.
type written struct {
	wrote bool
	// version is the Node's resourceVersion after the write.
	version string
	// postponed reports that there is something to write, and that it has to wait for its turn.
	postponed bool
	class     status.Class
	err       error
	requeue   controller.Requeue
}

// Work is what a reconciliation does for a Node's NodeGroup. The caller writes the Change if Node is not nil, and calls End in any case.
type Work struct {
	rc       *reconciliation
	decision metadataplan.GroupDecision
	applied  written
	due      bool
	result   reconcile.Result
	err      error
}

// Begin decides what a Node gets from its NodeGroup, and what a NodeGroup that the Node has left takes back. isTurn reports that the Node is written
// for its MachineSet anyway, and need not wait for a turn of its own.
func (l *Layer) Begin(ctx context.Context, observed *Observation, isTurn bool) *Work {
	name, node := observed.name, observed.node
	switch {
	case node == nil, node.DeletionTimestamp != nil:
		return l.leave(ctx, name)
	case observed.err != nil:
		if undecodable.Is(observed.err) {
			// Only a user can correct that: the roll-out does not wait for the Node. The next write of the Node ends it.
			l.Gate.SetTrouble(name, func(t *gate.Trouble) { t.Failing = observed.err.Error() })
		}
		l.Gate.KeepWrite(name)
		return &Work{err: observed.err}
	}
	switch pending := l.versions.Pending(ctx, node); {
	case !observed.isOfGroup(pending):
		return l.leave(ctx, name)
	case pending:
		if observed.assignment.Group == nil {
			// No more Pods leave; its lease is given back when the cache shows whether it has a record.
			l.forgetGuard(name)
		}
		l.Gate.KeepWrite(name)
		return &Work{result: reconcile.Result{RequeueAfter: controller.CatchUp}}
	}
	rc := l.reconciliationOf(observed.assignment)
	decision, requeue, err := rc.decide(ctx)
	if err != nil {
		l.Gate.EndWrite(name, nil, rc.now)
		w := &Work{}
		w.result, w.err = l.conflicts.Result(rc.key, requeue, err)
		return w
	}
	w := &Work{rc: rc, decision: decision}
	w.applied, w.due = rc.prepare(&decision, requeue, isTurn)
	return w
}

// reconciliationOf begins the reconciliation of a Node.
func (l *Layer) reconciliationOf(assignment members.Assignment) *reconciliation {
	if assignment.Group != nil && assignment.MachineSet != nil && l.Gate.IsUnfit(assignment.Group.UID, assignment.MachineSet.UID) {
		assignment.Hold()
	}
	key := types.NamespacedName{Name: assignment.Node.Name}
	return &reconciliation{Layer: l, Assignment: assignment, key: key, state: l.states.Get(key, assignment.Node.UID), now: l.Clock.Now()}
}

// leave forgets a Node that has, and had, no group.
func (l *Layer) leave(ctx context.Context, name string) *Work {
	if err := l.abandonGuard(ctx, name); err != nil {
		l.Gate.KeepWrite(name)
		return &Work{err: err}
	}
	key := types.NamespacedName{Name: name}
	l.states.Forget(key)
	l.conflicts.Forget(key)
	l.Gate.ForgetNode(name)
	l.Gate.EndWrite(name, nil, l.Clock.Now())
	return &Work{}
}

// Node returns the Node as it was observed, if it is to be written; nil if not.
func (w *Work) Node() *corev1.Node {
	if !w.due {
		return nil
	}
	return w.rc.Node
}

// Change returns what is to be written to Node.
func (w *Work) Change() *metadataplan.Change { return &w.decision.Change }

// Awaited reports whether a reconciliation is to follow when the cache shows the write: the guard goes on, or ends, with that.
func (w *Work) Awaited() bool { return len(w.decision.Guarded) > 0 }

// Concerned reports whether the Node has, or has had, a NodeGroup.
func (w *Work) Concerned() bool { return w.rc != nil }

// End notes what has come of the write of Node, if there was one: the version of the Node, or an error.
func (w *Work) End(ctx context.Context, version string, err error) (reconcile.Result, error) {
	if w.rc == nil {
		return w.result, w.err
	}
	if w.due {
		w.rc.finish(ctx, &w.decision, &w.applied, version, err)
	}
	w.rc.Gate.EndWrite(w.rc.key.Name, w.rc.inFlight(&w.applied), w.rc.now)
	w.rc.report(&w.decision, &w.applied)
	return w.rc.result(&w.applied)
}

// decide returns what is to be written, and when the first key may be written again that is left alone until then.
func (rc *reconciliation) decide(ctx context.Context) (decision metadataplan.GroupDecision, requeue controller.Requeue, err error) {
	in := rc.Input(rc.options.Protected, rc.now)
	in.Guard, in.Contended = metadataplan.GuardClear, rc.paused(&requeue)
	decision = metadataplan.DecideGroup(in)
	rc.reportContention(&requeue)
	guarded := decision.Guarded
	if len(guarded) == 0 {
		rc.setHeld(rc.Node.Name, "")
		rc.state.timedOut = nil
		return decision, requeue, rc.endGuard(ctx)
	}
	if rc.begun, err = rc.hasBegun(ctx, guarded); err != nil {
		return decision, requeue, err
	}
	if !rc.mayWrite(&decision) || !rc.begun && !rc.isOwned() {
		// A place and a lease that it does not use now are for others. The turn may come while they are given back: this is decided without the guard.
		rc.withheld = true
		return decision, requeue, rc.endGuard(ctx)
	}
	rc.guarded.LoadOrStore(rc.Node.Name, false)
	// Before the budgets are read: a change of one meanwhile counts.
	rc.heldIn.LoadOrStore(rc.Node.Name, sets.Set[string](nil))
	v, err := rc.guardTaints(ctx, guarded)
	if v.held == "" {
		rc.heldIn.Delete(rc.Node.Name)
	}
	if err != nil {
		return decision, requeue, err
	}
	requeue.Merge(v.requeue)
	rc.setHeld(rc.Node.Name, v.held)
	in.Guard, in.Held, in.TimedOut = v.guard, v.held, rc.timedOut()
	decision = metadataplan.DecideGroup(in)
	return decision, requeue, nil
}

// isOwned reports whether the status of the group names all that the Node is to carry.
func (rc *reconciliation) isOwned() bool {
	return rc.Group == nil || rc.Group.OwnsAll(rc.Declaration())
}

// result turns what has come of the writes into what Reconcile returns.
func (rc *reconciliation) result(applied *written) (reconcile.Result, error) {
	switch {
	case applied.postponed:
		// Nothing says that the API server takes what it has denied.
		return reconcile.Result{RequeueAfter: applied.requeue.Delay()}, nil
	case applied.class == status.Denied:
		return reconcile.Result{RequeueAfter: rc.conflicts.Denied(rc.key)}, nil
	}
	return rc.conflicts.Result(rc.key, applied.requeue, applied.err)
}
