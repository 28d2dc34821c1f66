package metadata

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/metadata/plan"
	nodegroupplan "github.com/drover-io/drover/internal/nodegroup/plan"
)

// WavesName is the name in logs and metrics of the controller of waves.
const WavesName = "metadata-waves"

// wavesWorkers is how many MachineSets are reconciled at once.
const wavesWorkers = 4

// waves is the controller that decides in which waves what MachineSets declare reaches their Nodes. It reconciles MachineSets.
type waves struct {
	*Reconciler
	settings  *v1alpha1.Rollout
	store     *RolloutStore
	states    *controller.States[wavesState]
	conflicts *controller.Conflicts
}

// wavesState is what is known of a MachineSet between two reconciliations.
type wavesState struct {
	// reconciled is when the MachineSet was last reconciled, with what it declared then, and interval how long after that the next time is.
	reconciled time.Time
	interval   time.Duration
	revision   string
}

func newWaves(r *Reconciler, settings *v1alpha1.Rollout, store *RolloutStore) *waves {
	return &waves{
		Reconciler: r, settings: settings, store: store, conflicts: controller.NewConflicts(),
		states: controller.NewStates(func() *wavesState { return &wavesState{} }, func(_ types.NamespacedName, uid types.UID, _ *wavesState) {
			r.admissions.forget(uid)
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
	switch err := w.cache.Get(ctx, key, set); {
	case apierrors.IsNotFound(err):
		w.states.Forget(key)
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("reading MachineSet %s: %w", key, err)
	}
	parsed, state := w.machineSets.parse(set), w.states.Get(key, set.UID)
	if wait := state.wait(parsed, now); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if !parsed.isWritten() {
		// The roll-out goes on from where it is; no Machine is written meanwhile.
		return reconcile.Result{}, nil
	}
	var requeue controller.Requeue
	err := w.admit(ctx, parsed, now, &requeue)
	state.reconciled, state.revision, state.interval = now, parsed.declaration.Revision, controller.IntervalAfter(w.clock.Since(now))
	return w.conflicts.Result(key, requeue, err)
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
	nodes, err := w.nodesOf(ctx, set)
	if err != nil {
		return err
	}
	before := w.store.of(set.UID)
	decision := nodegroupplan.DecideMachineSet(&nodegroupplan.MachineSetInput{
		Settings: w.settings, Rollout: before, Revision: revisionOf(set.declaration), Nodes: nodes, Resume: set.Annotations[v1alpha1.AnnotationResume],
		Now: now,
	})
	if err := w.store.keep(ctx, set.UID, decision.Rollout, decision.Waves); err != nil {
		return err
	}
	w.reportWaves(ctx, set, before, &decision)
	w.admissions.set(set.UID, admission{revision: set.declaration.Revision, nodes: decision.Admitted})
	if !decision.Wake.IsZero() {
		requeue.In(decision.Wake.Sub(now))
	}
	return nil
}

// revisionOf identifies what a MachineSet declares by a text that has the same length for any declaration.
func revisionOf(declaration *plan.Declaration) string {
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(declaration.Revision))
	return fmt.Sprintf("%016x", hash.Sum64())
}

// nodesOf returns the Nodes of a MachineSet. One that several Machines name is none: it is not written.
func (w *waves) nodesOf(ctx context.Context, set *machineSet) ([]nodegroupplan.Node, error) {
	requests := w.machineSetToMachines(ctx, set.MachineSet)
	nodes := make([]nodegroupplan.Node, 0, len(requests))
	for _, request := range requests {
		observed, err := w.observe(ctx, request.NamespacedName)
		switch {
		case err != nil:
			return nil, err
		case observed == nil || observed.node == nil || observed.nodeShared || observed.set == nil || observed.set.UID != set.UID:
			continue
		}
		nodes = append(nodes, w.nodeOf(observed, request.NamespacedName))
	}
	return nodes, nil
}

func (w *waves) nodeOf(observed *observation, machine types.NamespacedName) nodegroupplan.Node {
	node := nodegroupplan.NewNode(observed.node, false, nil)
	if observed.pending {
		// The cache does not show that it has been written.
		node.Metadata = plan.GroupDecision{State: plan.Pending, Change: plan.Change{Write: true}, Reached: true}
		return node
	}
	rc := &reconciliation{Reconciler: w.Reconciler, observation: observed, key: machine, now: w.clock.Now()}
	decision, _ := rc.decide()
	node.Metadata = plan.GroupDecision{State: decision.State, Change: plan.Change{Write: rc.needsWave(&decision)}, Reached: decision.Reached}
	if w.admissions.isDenied(node.Name) {
		node.Failing = "the API server denies the write"
	}
	return node
}

// needsWave reports whether what was decided is a roll-out to a Node that was there before. What another writer has changed since is reverted at
// once, and a new Node gets at once what its Machine was created with.
func (rc *reconciliation) needsWave(decision *plan.Decision) bool {
	switch {
	case rc.set == nil, rc.node == nil, rc.nodeShared, !decision.Machine.Write && !decision.Node.Write:
		return false
	}
	createdWithIt := !decision.Machine.Write || decision.Machine.RecordOnly()
	isNew := createdWithIt && rc.isNewNode(decision)
	return !decision.Drift && !decision.Reached && !isNew
}

// awaitsWave reports whether what was decided has to wait for the waves of the MachineSet.
func (rc *reconciliation) awaitsWave(decision *plan.Decision) bool {
	return rc.admissions != nil && rc.needsWave(decision) && !rc.admissions.admits(rc.set.UID, rc.set.declaration.Revision, rc.node.Name)
}

// reportWaves logs where a roll-out of several waves is, and emits an event when it stops.
func (w *waves) reportWaves(ctx context.Context, set *machineSet, before *v1alpha1.RolloutStatus, decision *nodegroupplan.Decision) {
	after := decision.Rollout
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
		logger.Info("roll-out goes on", "waitingFor", after.WaitingFor)
	}
}

// exists returns a function that reports whether a MachineSet exists.
func (w *waves) exists(ctx context.Context) func(types.UID) bool {
	var known sets.Set[types.UID]
	return func(uid types.UID) bool {
		if known == nil {
			var list machinev1beta1.MachineSetList
			if err := w.cache.List(ctx, &list); err != nil {
				// Better one that is gone than none.
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
