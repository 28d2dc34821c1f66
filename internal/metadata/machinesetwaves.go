package metadata

import (
	"context"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/undecodable"
)

// WavesName is the name in logs and metrics of the controller of waves.
const WavesName = "metadata-waves"

// wavesWorkers is how many MachineSets are reconciled at once.
const wavesWorkers = 4

// waves is the controller that decides, wave after wave, which Nodes get what their MachineSet declares. It reconciles MachineSets.
type waves struct {
	*Reconciler
	settings  *v1alpha1.Rollout
	store     *RolloutStore
	states    *controller.States[wavesState]
	conflicts *controller.Conflicts
}

// wavesState is what is known of a MachineSet between two reconciliations.
type wavesState struct {
	// reconciled is when the MachineSet was last reconciled, and interval how long after that it is reconciled again at the earliest.
	reconciled time.Time
	interval   time.Duration
	// revision identifies what it declared then.
	revision string
}

func newWaves(r *Reconciler, settings *v1alpha1.Rollout, store *RolloutStore) *waves {
	return &waves{
		Reconciler: r, settings: settings, store: store, conflicts: controller.NewConflicts(),
		states: controller.NewStates(func() *wavesState { return &wavesState{} }, func(key types.NamespacedName, uid types.UID, _ *wavesState) {
			r.gate.Forget(uid)
			r.metrics.setStopped(key, nil)
			store.forget(uid)
		}),
	}
}

var _ reconcile.Reconciler = (*waves)(nil)

// Reconcile admits the Nodes of a MachineSet that its roll-out has reached.
func (w *waves) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	key, now := request.NamespacedName, w.clock.Now()
	if err := w.store.load(ctx, w.exists(ctx)); err != nil {
		return reconcile.Result{}, err
	}
	set := &machinev1beta1.MachineSet{}
	if goesOn, result, err := controller.Begin(ctx, w.cache, key, set, nil, w.states, w.conflicts); !goesOn {
		return result, err
	}
	parsed, state := w.machineSets.parse(set), w.states.Get(key, set.UID)
	if wait := state.wait(parsed, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	underWay, waiting := w.store.get(set.UID) != nil, w.gate.TakeWaiting(set.UID)
	if !underWay && !waiting {
		return reconcile.Result{}, nil
	}
	if !parsed.isWritten() {
		// The roll-out goes on from where it is; no Machine is written meanwhile.
		w.gate.Await(set.UID, "")
		return reconcile.Result{}, nil
	}
	var requeue controller.Requeue
	if err := w.admit(ctx, parsed, now, &requeue); err != nil {
		w.gate.Await(set.UID, "")
		return w.conflicts.Result(key, requeue, err)
	}
	state.reconciled, state.revision, state.interval = now, parsed.declaration.Revision, controller.IntervalAfter(w.clock.Since(now))
	return w.conflicts.Result(key, requeue, nil)
}

// wait returns how long a MachineSet is to be left alone; zero for not at all. A change of what it declares does not wait.
func (s *wavesState) wait(set *machineSet, now time.Time) time.Duration {
	wait := s.interval - now.Sub(s.reconciled)
	if s.revision != set.declaration.Revision || wait > s.interval {
		return 0
	}
	return max(wait, 0)
}

// admit decides which Nodes the roll-out has reached, records where it is, and admits them.
func (w *waves) admit(ctx context.Context, set *machineSet, now time.Time, requeue *controller.Requeue) error {
	nodes, held, err := w.nodesOf(ctx, set)
	if err != nil {
		return err
	}
	before := w.store.get(set.UID)
	decision := rollout.DecideMachineSet(&rollout.Input{
		Settings: *w.settings, Before: before, Revision: revisionOf(set.declaration, held), Nodes: nodes,
		Resume: set.Annotations[v1alpha1.AnnotationResume], Now: now,
	})
	if err := w.store.save(ctx, set.UID, decision.Rollout); err != nil {
		return err
	}
	w.reportWaves(ctx, set, before, &decision)
	for i := range nodes {
		if !nodes[i].Metadata.Change.Write {
			// What it is to get later, such as a taint that is held back now, is another roll-out to it.
			decision.Admitted.Delete(nodes[i].Name)
		}
	}
	revision := set.declaration.Revision
	w.gate.Set(set.UID, gate.Admission{Revision: revision, Declarations: sets.New(revision), Nodes: decision.Admitted})
	if !decision.Wake.IsZero() {
		requeue.In(decision.Wake.Sub(now))
	}
	if decision.Rollout != nil {
		requeue.In(recheckWave)
	}
	return nil
}

// recheckWave is how soon it is decided again on a roll-out that is under way: a Node may leave it without an event of its MachineSet.
const recheckWave = time.Minute

// revisionOf identifies what a MachineSet declares, and which taints of that are held back, by a text that has the same length for any declaration.
// Its first part is the declared entries alone: another change neither ends a pause nor has a roll-out continue that has stopped.
func revisionOf(declaration *plan.Declaration, held ownership.Keys) string {
	return fmt.Sprintf("%016x.%016x", hashOf(declaration.Desired.Digest()), hashOf(declaration.Revision+"/"+strings.Join(held.Sorted(), ",")))
}

func hashOf(text string) uint64 {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(text))
	return hash.Sum64()
}

// nodesOf returns the Nodes of a MachineSet, and the taints that are held back on any of them. It leaves out Nodes that several Machines name, which
// are not written. It also leaves out Nodes that have not got what is declared and do not get it, for example because they are paused or because
// their Machine cannot be decoded: otherwise a kubelet could make a wave empty.
func (w *waves) nodesOf(ctx context.Context, set *machineSet) (nodes []rollout.Node, held ownership.Keys, err error) {
	machines := w.machineSetToMachines(ctx, set.MachineSet)
	nodes, held = make([]rollout.Node, 0, len(machines)), ownership.Keys{}
	for _, machine := range machines {
		key := client.ObjectKeyFromObject(machine)
		observed, err := w.observe(ctx, key)
		switch {
		case undecodable.Is(err):
			continue
		case err != nil:
			return nil, nil, err
		case observed == nil || observed.node == nil || observed.nodeShared || observed.set == nil || observed.set.UID != set.UID:
			continue
		}
		if node := w.nodeOf(observed, key); node.Metadata.Reached || node.Metadata.Change.Write {
			nodes = append(nodes, node)
			held = held.Union(observed.group.Guarded)
		}
	}
	return nodes, held, nil
}

func (w *waves) nodeOf(observed *observation, machine types.NamespacedName) rollout.Node {
	node := rollout.NewNode(observed.node, false, nil)
	if observed.pending {
		// The cache does not show that it has been written.
		node.Metadata = plan.GroupDecision{State: plan.Pending, Change: plan.Change{Write: true}, Reached: true}
		return node
	}
	rc := &reconciliation{Reconciler: w.Reconciler, observation: observed, key: machine, now: w.clock.Now()}
	decision, _ := rc.decide()
	node.Metadata = plan.GroupDecision{State: decision.State, Change: plan.Change{Write: rc.needsWave(&decision)}, Reached: decision.Reached}
	if trouble := w.gate.Trouble(node.Name); trouble.Revision == rc.revision() {
		node.Failing = trouble.Failing
	}
	return node
}

// needsWave reports whether what was decided is a roll-out to a Node that was there before. A Node that has reached what is declared gets back at
// once what another writer has changed, and a new Node gets at once what its Machine was created with. What is only recorded disturbs nothing.
// A taint that has Pods deleted is never restored at once: that Drover owns it does not show that the Node had it since it is not held back any more.
func (rc *reconciliation) needsWave(decision *plan.Decision) bool {
	switch {
	case rc.set == nil, rc.node == nil:
		return false
	case decision.Reached:
		return decision.Node.Changed() && !decision.Node.Restores() || decision.Node.SetsNoExecute()
	case rc.isNewNode(decision) && rc.losesOnceOnly(decision.Machine):
		return false
	}
	return decision.Machine.Changed() || decision.Node.Changed()
}

// losesOnceOnly reports whether a Machine loses taints that are set once, which its Node has, and nothing else changes.
func (rc *reconciliation) losesOnceOnly(change plan.Change) bool {
	for kind, result := range change.Results {
		removed := ownership.NewKeys(result.Remove...)
		if kind == ownership.Taint {
			removed = removed.Minus(rc.set.declaration.Once)
		}
		if len(result.Set)+removed.Len() > 0 {
			return false
		}
	}
	return true
}

// awaitsWave reports whether what was decided has to wait for the waves of the MachineSet.
func (rc *reconciliation) awaitsWave(decision *plan.Decision) bool {
	if rc.gate == nil || !rc.needsWave(decision) || rc.gate.Admits(rc.set.UID, rc.set.declaration.Revision, rc.node.Name) {
		return false
	}
	rc.gate.Await(rc.set.UID, rc.node.Name)
	return true
}

// reportWaves logs where a roll-out of several waves is, and emits an event when it stops. The metric says so for as long as it has.
func (w *waves) reportWaves(ctx context.Context, set *machineSet, before *v1alpha1.RolloutStatus, decision *rollout.Decision) {
	after := decision.Rollout
	w.metrics.setStopped(set.key, after)
	if after == nil {
		return
	}
	if before == nil {
		before = &v1alpha1.RolloutStatus{}
	}
	logger := log.FromContext(ctx).WithValues("machineset", set.key.String(), "wave", after.Wave)
	switch {
	case after.Stopped != "" && before.Stopped == "":
		w.recorder.Eventf(set.MachineSet, corev1.EventTypeWarning, EventStopped, "%s", after.Stopped)
		logger.Info("roll-out has stopped", "reason", after.Stopped)
	case after.Stopped == "" && (before.Stopped != "" || before.Wave != after.Wave && decision.Waves > 1):
		logger.Info("wave begins, or goes on", "waitingFor", after.WaitingFor)
	}
}

// exists returns a function that reports whether a MachineSet exists.
func (w *waves) exists(ctx context.Context) func(types.UID) bool {
	var known sets.Set[types.UID]
	return func(uid types.UID) bool {
		if known == nil {
			var list machinev1beta1.MachineSetList
			if err := w.cache.List(ctx, &list); err != nil {
				// It does no harm to keep the entry of a deleted MachineSet. Without its entry, a roll-out would begin again.
				return true
			}
			known = sets.Set[types.UID]{}
			for i := range list.Items {
				known.Insert(list.Items[i].UID)
			}
		}
		return known.Has(uid)
	}
}
