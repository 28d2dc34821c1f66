package metadata

import (
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/singleflight"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// Name is the capability's name in --controllers and the controller's name in logs and metrics.
const Name = "metadata"

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-metadata")

// Options configure the controller.
type Options struct {
	// Templates reports whether Machines and Nodes get what MachineSets declare: Machines are served, and the capability metadata is on.
	Templates bool
	// Groups decides what Nodes get from their NodeGroups; nil where there are none.
	Groups *grouplayer.Layer
	// Workers is how many Machines are reconciled at once; less than one counts as one.
	Workers int
	// Limiter bounds the rate of writes; nil for no bound.
	Limiter *pace.Limiter
	// Protected are the keys that belong to the system.
	Protected ownership.Protected
	// Link reports whether Nodes are to name their Machines, which is nodelink's task where another one runs; nil is no.
	Link func() bool
	// LinkChanged receives a value when the answer of Link changes, so that all Machines are reconciled again; nil for never.
	LinkChanged <-chan struct{}
	// AwaitsGroups reports that NodeGroups are served and Groups is to come; nil is no.
	AwaitsGroups func() bool
	// Rollout configures the waves that bring a MachineSet's declaration to its Nodes, and whether a Node without a NodeGroup gets taints with the
	// effect NoExecute. Nil writes all Nodes at once, and sets the taints.
	Rollout *v1alpha1.Rollout
	// Rollouts keeps where the waves are; needed with Rollout.
	Rollouts *RolloutStore
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
	// Memory is what Drover remembers of its writes; Groups has the same one. Nil is a new one.
	Memory *grouplayer.Memory
}

// Reconciler reconciles Nodes, and Machines without one.
type Reconciler struct {
	templates   bool
	groups      *grouplayer.Layer
	cache       client.Reader
	writer      client.Writer
	recorder    record.EventRecorder
	metrics     *Metrics
	protected   ownership.Protected
	link        func() bool
	linkChanged <-chan struct{}
	// awaitsGroups reports that NodeGroups are served and groups is to come.
	awaitsGroups func() bool
	clock        clock.PassiveClock
	machineSets  *machineSets
	tracker      *tracker
	// tracking starts to track the rollout of each MachineSet once.
	tracking   singleflight.Group
	contention *pace.Contention
	limiter    *pace.Limiter
	versions   *expectations.Objects
	conflicts  *controller.Conflicts
	// refusesNoExecute reports whether a Node without a NodeGroup gets no taints with the effect NoExecute.
	refusesNoExecute bool
	// gate says which Nodes the waves have reached; nil for no waves.
	gate *gate.Gate
}

// NewReconciler returns a Reconciler. cache has the indexes of Index.
func NewReconciler(cache client.Reader, writer client.Writer, recorder record.EventRecorder, metrics *Metrics, options Options) *Reconciler {
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	if options.Limiter == nil {
		options.Limiter = pace.NewLimiter(0, 0)
	}
	if options.Link == nil {
		options.Link = func() bool { return false }
	}
	if options.AwaitsGroups == nil {
		options.AwaitsGroups = func() bool { return false }
	}
	r := &Reconciler{
		cache: cache, writer: writer, recorder: recorder, metrics: metrics, protected: options.Protected, clock: options.Clock,
		link: options.Link, linkChanged: options.LinkChanged, awaitsGroups: options.AwaitsGroups,
		machineSets: newMachineSets(cache),
		tracker:     newTracker(metrics, options.Clock.Now()),
		limiter:     options.Limiter,
		templates:   options.Templates, groups: options.Groups,
		conflicts: controller.NewConflicts(),
	}
	switch {
	case r.groups != nil:
		options.Memory = r.groups.Memory
	case options.Memory == nil:
		options.Memory = grouplayer.NewMemory(nil, options.Clock)
	}
	r.versions, r.contention = options.Memory.Versions, options.Memory.Contention
	if rollout := options.Rollout; rollout != nil {
		r.gate = &gate.Gate{}
		r.refusesNoExecute = rollout.NoExecute != nil && rollout.NoExecute.Policy == v1alpha1.NoExecuteRefuse
	}
	return r
}

// Run runs the controller until the context ends, and removes its metrics of single objects then. The caches must be synced.
func Run(ctx context.Context, cache ctrlcache.Cache, writer client.Writer, recorder record.EventRecorder, metrics *Metrics, options Options) error {
	defer metrics.reset()
	r := NewReconciler(cache, writer, recorder, metrics, options)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return controller.Run(ctx, r, controller.Options{Name: Name, LogKey: "object", Workers: options.Workers}, r.sources(cache)...)
	})
	if r.gate != nil {
		w := newWaves(r, options.Rollout, options.Rollouts)
		group.Go(func() error {
			return controller.Run(ctx, w, controller.Options{Name: WavesName, LogKey: "machineset", Workers: wavesWorkers}, w.sources(cache)...)
		})
	}
	return group.Wait()
}

// reconciliation is what one reconciliation of a Machine works on. It does not change; what comes of its writes is in written.
type reconciliation struct {
	*Reconciler
	*observation
	key types.NamespacedName
	now time.Time
}

// written is what has come of writing what was decided.
type written struct {
	// wroteMachine and wroteNode report which object has been written with what is declared.
	wroteMachine, wroteNode bool
	// wait is how long the writes have to wait for their turn; zero when they were sent.
	wait time.Duration
	// class and err come from the last write, and object is what it was for.
	class  status.Class
	err    error
	object client.Object
	// requeue is when the Machine is reconciled again without an event.
	requeue controller.Requeue
}

// and returns what has come of two writes together; the class and error of the second count.
func (o written) and(next written) written {
	next.wroteMachine, next.wroteNode = o.wroteMachine || next.wroteMachine, o.wroteNode || next.wroteNode
	next.requeue.Merge(o.requeue)
	return next
}

var _ reconcile.Reconciler = (*Reconciler)(nil)

// Reconcile makes a Node, and the Machine that names it, carry what their MachineSet and NodeGroup declare. A request with a namespace is for a
// Machine without a Node. One reconciliation writes the Machine and then the Node: the Machine's old values show which of the Node's entries are
// Drover's.
func (r *Reconciler) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	if request.Namespace != "" {
		return r.reconcileMachine(ctx, request.NamespacedName)
	}
	if r.groups != nil {
		// Before the Node is read.
		r.groups.Gate.BeginWrite(request.Name)
	}
	on, err := r.observeNode(ctx, request.Name)
	if err != nil {
		return reconcile.Result{}, err
	}
	var observed *grouplayer.Observation
	if r.groups != nil {
		observed = r.groups.Observe(ctx, request.Name, on.node)
		on.groupLayer = observed.GroupLayer
	}
	var results results
	works, err := r.beginMachines(ctx, &on)
	results.add(reconcile.Result{}, err)
	of, inSet := writerOf(works)
	var group *grouplayer.Work
	if r.groups != nil {
		group = r.groups.Begin(ctx, observed, of != nil)
	}
	for _, w := range works {
		w.writeMachine(ctx)
	}
	version, groupErr := r.writeNode(ctx, of, group, inSet)
	for _, w := range works {
		results.add(w.end(ctx))
	}
	if group != nil {
		results.add(group.End(ctx, version, groupErr))
	}
	return results.merged()
}

// writerOf returns the work that writes the Node, nil for none, and whether any of the Machines has a MachineSet.
func writerOf(works []*work) (of *work, inSet bool) {
	for _, w := range works {
		inSet = inSet || w.rc != nil && w.rc.set != nil
		if w.due && w.decision.Node.Write {
			of = w
		}
	}
	return of, inSet
}

// reconcileMachine is Reconcile for a Machine without a Node.
func (r *Reconciler) reconcileMachine(ctx context.Context, key types.NamespacedName) (reconcile.Result, error) {
	observed, err := r.observe(ctx, key)
	if observed != nil && machineapi.NodeName(observed.machine) != "" {
		// The request for the Node comes with the event of its name.
		return reconcile.Result{}, nil
	}
	w := r.begin(ctx, key, observed, err)
	w.writeMachine(ctx)
	return w.end(ctx)
}

// results collects the results of a Node's layers.
type results struct {
	requeue controller.Requeue
	errs    []error
}

func (r *results) add(result reconcile.Result, err error) {
	if r.errs = append(r.errs, err); result.RequeueAfter > 0 {
		r.requeue.In(result.RequeueAfter)
	}
}

// merged returns the errors of the layers, and the earliest time at which a layer is to be reconciled again. A layer does not wait for a failed one.
func (r *results) merged() (reconcile.Result, error) {
	return reconcile.Result{RequeueAfter: r.requeue.Delay()}, errors.Join(r.errs...)
}

// beginMachines begins the work on all Machines that name a Node; usually there is one.
func (r *Reconciler) beginMachines(ctx context.Context, on *namedNode) ([]*work, error) {
	if !r.templates {
		return nil, nil
	}
	if err := r.observeMachines(ctx, on); err != nil {
		return nil, err
	}
	works := make([]*work, len(on.machines))
	for i := range on.machines {
		machine := &on.machines[i]
		observed, err := r.observeMachine(ctx, machine, on)
		works[i] = r.begin(ctx, client.ObjectKeyFromObject(machine), observed, err)
	}
	return works, nil
}

// work is what a reconciliation does about one Machine, and about its Node for its MachineSet.
type work struct {
	rc       *reconciliation
	decision plan.Decision
	applied  written
	// due reports that what was decided is to be written. node is the Node with what has been recorded on it before the Machine was written.
	due  bool
	node *corev1.Node
	// waits reports that the waves of the MachineSet have not reached the Node.
	waits  bool
	result reconcile.Result
	err    error
}

// begin decides what a Machine and its Node get from their MachineSet, by what was observed of them, or could not be.
func (r *Reconciler) begin(ctx context.Context, key types.NamespacedName, observed *observation, err error) *work {
	switch {
	case err != nil:
		return &work{err: err}
	case observed == nil:
		r.tracker.forgetMachine(key)
		r.conflicts.Forget(key)
		return &work{}
	}
	r.reportAmbiguity(ctx, observed)
	r.trackRollout(ctx, observed.set)
	if observed.pending {
		return &work{result: reconcile.Result{RequeueAfter: controller.CatchUp}}
	}
	rc := &reconciliation{Reconciler: r, observation: observed, key: key, now: r.clock.Now()}
	w := &work{rc: rc, node: rc.node}
	w.decision, w.applied.requeue = rc.decide()
	w.applied.class = status.OK
	if w.waits = rc.awaitsWave(&w.decision); !w.waits {
		w.due, w.applied.wait = rc.isDue(&w.decision)
	}
	return w
}

// end reports what has come of the work.
func (w *work) end(ctx context.Context) (reconcile.Result, error) {
	switch {
	case w.rc == nil:
		return w.result, w.err
	case w.waits:
		w.rc.reportUnfinished(w.decision.State, &written{})
		return reconcile.Result{RequeueAfter: w.applied.requeue.Delay()}, nil
	}
	w.rc.report(ctx, &w.decision, &w.applied)
	return w.rc.result(&w.applied)
}

// decide returns what is to be done, and when the first key may be written again that is left alone until then.
func (rc *reconciliation) decide() (decision plan.Decision, requeue controller.Requeue) {
	in := plan.Input{
		Machine: rc.machine, Node: rc.node, NodeShared: rc.nodeShared, Protected: rc.protected, Link: rc.link(), Now: rc.now,
		Declaration: rc.set.declared(), Group: rc.group,
	}
	if rc.contention.Any() {
		in.Contended = func(target plan.Target, kind ownership.Kind, key string) bool {
			until := rc.contention.Until(rc.entry(target, kind, key), rc.now)
			if until.IsZero() {
				return false
			}
			requeue.In(until.Sub(rc.now))
			return true
		}
	}
	decision = plan.Decide(in)
	if decision.AwaitsGuard || rc.refused {
		requeue.In(recheckGuard)
	}
	return decision, requeue
}

// result turns what has come of the writes into what Reconcile returns.
func (rc *reconciliation) result(applied *written) (reconcile.Result, error) {
	if applied.wait > 0 {
		return reconcile.Result{RequeueAfter: applied.wait}, nil
	}
	switch applied.class {
	case status.OK:
		rc.conflicts.Forget(rc.key)
		return reconcile.Result{RequeueAfter: applied.requeue.Delay()}, nil
	case status.Stale:
		return reconcile.Result{RequeueAfter: rc.conflicts.Next(rc.key)}, nil
	case status.Gone:
		// The event of the deletion is on its way, or has been handled already.
		return reconcile.Result{RequeueAfter: controller.CatchUp}, nil
	case status.Denied:
		return reconcile.Result{RequeueAfter: rc.conflicts.Denied(rc.key)}, nil
	}
	return reconcile.Result{}, applied.err
}
