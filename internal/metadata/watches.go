package metadata

import (
	"context"
	"errors"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/rollout/history"
	"github.com/drover-io/drover/internal/watch"
)

// Index adds the indexes that the controller needs to the cache. Call it before the informer of Machines starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(lookup.Index(ctx, indexer), lookup.IndexOwners(ctx, indexer))
}

// Kinds lists what the controller watches.
func Kinds() []client.Object {
	return []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}, &corev1.Node{}}
}

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	limits := bounded.Annotations(history.AnnotationCause, plan.AnnotationConflictPolicy)
	limits[ownership.AnnotationRecord], limits[plan.AnnotationSetOnceTaints] = ownership.MaxRecordBytes, 16<<10
	return limits
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	sources := []source.Source{
		// A Node registers, joins or leaves a group, or is edited manually.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: r.nodeCreated, Updated: r.nodeUpdated, Deleted: r.nodeDeleted,
		}),
	}
	if r.groups != nil {
		sources = append(sources, r.groups.Sources(cache)...)
	}
	if !r.templates {
		return sources
	}
	sources = append(sources,
		// What a MachineSet declares applies to all of its Machines.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: r.setCreated, Updated: r.setUpdated, Deleted: r.setDeleted,
		}),
		// A Machine is created, gets its Node, or is edited manually.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: r.machineCreated, Updated: r.machineUpdated, Deleted: r.machineDeleted,
		}),
		// The machine controller starts or stops, and with it the annotation of Nodes that names their Machines.
		source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
			go r.followLink(ctx, watch.NewQueue(queue))
			return nil
		}),
	)
	if r.gate != nil {
		// The waves of its MachineSet have reached a Node.
		sources = append(sources, r.gate.Admitted(func(_ context.Context, node string) []reconcile.Request { return requestForNode(node) }))
	}
	return sources
}

// followLink enqueues all Machines when it changes whether their Nodes name them.
func (r *Reconciler) followLink(ctx context.Context, queue watch.Queue) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.linkChanged:
		}
		var machines machinev1beta1.MachineList
		if err := r.cache.List(ctx, &machines); err != nil {
			log.FromContext(ctx).Error(err, "cannot list Machines")
			continue
		}
		for i := range machines.Items {
			queue.Add(watch.PriorityStartup, requestFor(&machines.Items[i]))
		}
	}
}

func (r *Reconciler) setCreated(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, initial bool) {
	members := r.machineSetToMachines(ctx, set)
	r.tracker.startRollout(plan.DeclarationOf(set), keysOf(members), set.CreationTimestamp.Time, r.clock.Now())
	r.reportSelector(ctx, set)
	if !initial {
		queue.Add(watch.PriorityNormal, requestsFor(members)...)
	}
}

func (r *Reconciler) setUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	if before.Generation == after.Generation && maps.Equal(before.Annotations, after.Annotations) && before.UID == after.UID {
		return
	}
	declaration := plan.DeclarationOf(after)
	sameSelector := apiequality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector)
	if plan.DeclarationOf(before).Revision == declaration.Revision && before.UID == after.UID && sameSelector {
		return
	}
	if !sameSelector || before.UID != after.UID {
		r.machineSets.forget(declaration.Key)
		r.reportSelector(ctx, after)
	}
	members := r.machineSetToMachines(ctx, after)
	r.tracker.startRollout(declaration, keysOf(members), after.CreationTimestamp.Time, r.clock.Now())
	log.FromContext(ctx).Info("MachineSet changed", "machineset", declaration.Key.String(), "generation", declaration.Generation,
		"machines", len(members), "paused", declaration.Paused)
	queue.Add(watch.PriorityNormal, requestsFor(members)...)
}

func (r *Reconciler) setDeleted(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
	key := client.ObjectKeyFromObject(set)
	queue.Add(watch.PriorityNormal, requestsFor(r.machineSetToMachines(ctx, set))...)
	r.machineSets.forget(key)
	r.tracker.forgetSet(key)
}

// machineSetToMachines returns every Machine that may belong to a MachineSet: the Machines that it owns, and the Machines without a controller that
// its selector matches.
func (r *Reconciler) machineSetToMachines(ctx context.Context, set *machinev1beta1.MachineSet) (found []*machinev1beta1.Machine) {
	machines, err := lookup.MachinesOfSet(ctx, r.cache, set.Namespace, set.UID)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot enqueue the Machines of a MachineSet", "machineset", client.ObjectKeyFromObject(set).String())
		return nil
	}
	// An invalid selector selects no Machine.
	membership, _ := machineapi.MembershipOf(set)
	for i := range machines {
		machine := &machines[i]
		// This is wider than membership: a Machine that two sets select belongs to neither, and is reconciled when one of them goes.
		if machine.DeletionTimestamp == nil && (metav1.GetControllerOfNoCopy(machine) != nil || membership.Selects(machine)) {
			found = append(found, machine)
		}
	}
	return found
}

func keysOf(machines []*machinev1beta1.Machine) []types.NamespacedName {
	out := make([]types.NamespacedName, len(machines))
	for i := range machines {
		out[i] = client.ObjectKeyFromObject(machines[i])
	}
	return out
}

// requestFor returns the request for a Machine: that for its Node, if it has one.
func requestFor(machine *machinev1beta1.Machine) reconcile.Request {
	if node := machineapi.NodeName(machine); node != "" {
		return reconcile.Request{NamespacedName: types.NamespacedName{Name: node}}
	}
	return watch.RequestFor(machine)
}

func requestsFor(machines []*machinev1beta1.Machine) []reconcile.Request {
	requests := make([]reconcile.Request, len(machines))
	for i := range machines {
		requests[i] = requestFor(machines[i])
	}
	return requests
}

// requestForNode returns the request for a Node; none for an empty name.
func requestForNode(name string) []reconcile.Request {
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: name}}}
}

func (r *Reconciler) machineCreated(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	priority := watch.PriorityHigh
	if initial {
		priority = watch.PriorityStartup
	}
	queue.Add(priority, requestFor(machine))
}

func (r *Reconciler) machineUpdated(_ context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if before.ResourceVersion == after.ResourceVersion || sameMachine(before, after) {
		return
	}
	r.versions.Handle(string(after.UID), func() {
		// The patch of a Machine names a resourceVersion, so that no change of another writer is ignored with it.
		if last, own := r.versions.Own(string(after.UID), after.ResourceVersion); !own || last.Awaited {
			r.enqueueMachine(queue, before, after)
		}
	})
}

func (r *Reconciler) enqueueMachine(queue watch.Queue, before, after *machinev1beta1.Machine) {
	queue.Add(watch.PriorityHigh, requestFor(after))
	if node := machineapi.NodeName(before); node != machineapi.NodeName(after) {
		// Another Machine that names that Node may now be the only one.
		queue.Add(watch.PriorityHigh, requestForNode(node)...)
	}
}

// sameMachine reports whether two versions of a Machine are equal in all that a decision depends on. The status of a Machine changes often.
func sameMachine(before, after *machinev1beta1.Machine) bool {
	return before.Generation == after.Generation && before.UID == after.UID &&
		apiequality.Semantic.DeepEqual(before.Status.NodeRef, after.Status.NodeRef) && before.Status.AuthoritativeAPI == after.Status.AuthoritativeAPI &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		slices.EqualFunc(before.OwnerReferences, after.OwnerReferences, func(a, b metav1.OwnerReference) bool {
			return a.UID == b.UID && (a.Controller != nil && *a.Controller) == (b.Controller != nil && *b.Controller)
		})
}

func (r *Reconciler) machineDeleted(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	key := client.ObjectKeyFromObject(machine)
	r.tracker.forgetMachine(key)
	r.limiter.Forget(key)
	r.conflicts.Forget(key)
	r.versions.Forget(string(machine.UID))
	r.contention.Forget(plan.OnMachine, key.String())
	r.metrics.failures.DeleteLabelValues(machine.Name)
	queue.Add(watch.PriorityHigh, requestForNode(machineapi.NodeName(machine))...)
}

func (r *Reconciler) nodeCreated(_ context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
	priority := watch.PriorityHigh
	if initial {
		priority = watch.PriorityStartup
	}
	queue.Add(priority, requestForNode(node.Name)...)
}

// nodeUpdated ignores the status, which changes with every heartbeat.
func (r *Reconciler) nodeUpdated(_ context.Context, queue watch.Queue, before, after *corev1.Node) {
	sameTaints := slices.EqualFunc(before.Spec.Taints, after.Spec.Taints, func(a, b corev1.Taint) bool {
		return a.MatchTaint(&b) && a.Value == b.Value
	})
	if before.UID == after.UID && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() && sameTaints {
		return
	}
	r.versions.Handle(string(after.UID), func() {
		priority := watch.PriorityHigh
		if last, own := r.versions.Own(string(after.UID), after.ResourceVersion); own {
			if last.Exact && (last.Taints || sameTaints) && !last.Awaited {
				return
			}
			// The patch of a Node names no resourceVersion, so that its event may contain another writer's change. That can wait until the Nodes
			// have been written that still wait for their turn.
			priority = watch.PriorityStartup
		}
		queue.Add(priority, requestForNode(after.Name)...)
	})
}

func (r *Reconciler) nodeDeleted(_ context.Context, queue watch.Queue, node *corev1.Node) {
	r.versions.Forget(string(node.UID))
	r.contention.Forget(plan.OnNode, node.Name)
	if r.groups != nil {
		r.groups.NodeDeleted(node)
	}
	r.metrics.failures.DeleteLabelValues(node.Name)
	queue.Add(watch.PriorityHigh, requestForNode(node.Name)...)
}

// sources are the watches of the controller of waves, each with its reason.
func (w *waves) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A user changes what a MachineSet declares, or resumes its roll-out.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, _ bool) {
				queue.Add(watch.PriorityNormal, watch.RequestFor(set))
			},
			Updated: w.setUpdated,
			Deleted: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
				queue.Add(watch.PriorityNormal, watch.RequestFor(set))
			},
		}),
		// A Machine gets its Node, is edited, or goes.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: func(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
				if !initial && machineapi.NodeName(machine) != "" {
					w.enqueueSets(ctx, queue, machine)
				}
			},
			Updated: w.machineUpdated,
			Deleted: func(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
				w.enqueueSets(ctx, queue, machine)
			},
		}),
		// A Node has been written, or becomes Ready or NotReady.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					queue.Add(watch.PriorityNormal, w.nodeToMachineSets(ctx, node.Name)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if !rollout.SameNode(before, after) {
					queue.Add(watch.PriorityNormal, w.nodeToMachineSets(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				w.gate.ForgetNode(node.Name)
				queue.Add(watch.PriorityNormal, w.nodeToMachineSets(ctx, node.Name)...)
			},
		}),
		// A Node waits for its wave, or the API server begins, or ceases, to deny to write it.
		w.gate.Changed(w.nodeToMachineSets),
	}
}

func (w *waves) setUpdated(_ context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	resume := v1alpha1.AnnotationResume
	if before.UID != after.UID || plan.IsDeclarationChanged(before, after) || before.Annotations[resume] != after.Annotations[resume] {
		queue.Add(watch.PriorityNormal, watch.RequestFor(after))
	}
}

func (w *waves) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if !sameMachine(before, after) {
		w.enqueueSets(ctx, queue, before)
		w.enqueueSets(ctx, queue, after)
	}
}

// enqueueSets has the MachineSet of a Machine reconciled.
func (w *waves) enqueueSets(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	queue.Add(watch.PriorityNormal, w.machineToMachineSets(ctx, machine)...)
}

// machineToMachineSets returns the MachineSets that a Machine may belong to.
func (w *waves) machineToMachineSets(ctx context.Context, machine *machinev1beta1.Machine) []reconcile.Request {
	found, err := w.machineSets.of(ctx, machine)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the MachineSet of a Machine", "machine", client.ObjectKeyFromObject(machine).String())
		return nil
	}
	requests := make([]reconcile.Request, len(found))
	for i, set := range found {
		requests[i] = watch.RequestFor(set.MachineSet)
	}
	return requests
}

// nodeToMachineSets returns the MachineSets of the Machines that name a Node.
func (w *waves) nodeToMachineSets(ctx context.Context, node string) (requests []reconcile.Request) {
	machines, err := lookup.MachinesOfNode(ctx, w.cache, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node)
	}
	for i := range machines {
		requests = append(requests, w.machineToMachineSets(ctx, &machines[i])...)
	}
	return requests
}
