package machine

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/watch"
)

// Index adds the indexes that the controller needs to the cache, except the indexes of the drain engine. Call it before the informers start.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &corev1.Node{}, indexRecord, func(object client.Object) []string {
		if node, ok := object.(*corev1.Node); ok {
			if key, found := recordOwner(node); found {
				return []string{key.String()}
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Nodes by %s: %w", indexRecord, err)
	}
	return errors.Join(lookup.Index(ctx, indexer), nodelink.Index(ctx, indexer))
}

// Kinds lists what the controller watches.
func Kinds() []client.Object {
	return append(engine.Kinds(), &machinev1beta1.Machine{}, &corev1.Node{}, &coordinationv1.Lease{})
}

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	return bounded.Annotations(plan.AnnotationExclude, plan.AnnotationInstanceState, plan.AnnotationDrainTimeout, plan.AnnotationSkipQuorum,
		plan.AnnotationNodeDeletionTimeout)
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return append(r.Engine.Sources(cache, r.nodeToMachines),
		// A Machine is created, changed, or deleted.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: func(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
				priority := watch.PriorityNormal
				if initial {
					priority = watch.PriorityStartup
				}
				queue.Add(priority, watch.RequestFor(machine))
			},
			Updated: r.machineUpdated,
			Deleted: func(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
				queue.Add(watch.PriorityHigh, watch.RequestFor(machine))
			},
		}),
		// A Node registers, becomes Ready or not Ready, is cordoned by another writer, or is deleted.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					queue.Add(watch.PriorityHigh, r.nodeToAllMachines(ctx, node)...)
				}
				// The Machine whose cordon record is on it may be gone.
				queue.Add(watch.PriorityHigh, recordToMachine(node)...)
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if nodeMatters(before, after) {
					queue.Add(watch.PriorityHigh, r.nodeToAllMachines(ctx, after)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				queue.Add(watch.PriorityHigh, r.nodeToAllMachines(ctx, node)...)
			},
		}),
		// The lease of a Node is released, or another holder acquires it.
		nodelease.Source(cache, r.nodeToMachines),
		// A provider has seen an instance change.
		source.Func(r.runProviders),
	)
}

// runProviders lets the providers work that work in the background, until the controller stops.
func (r *Reconciler) runProviders(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
	machines := watch.NewQueue(queue)
	for _, runner := range r.Actuators.runners {
		go func() {
			err := runner.Run(ctx, func(machine types.NamespacedName) {
				r.instances.Store(machine, true)
				machines.Add(watch.PriorityNormal, reconcile.Request{NamespacedName: machine})
			})
			if err != nil {
				log.FromContext(ctx).Error(err, "a provider has stopped")
			}
		}()
	}
	return nil
}

// machineUpdated ignores the controller's own writes, whose answers it has seen.
func (r *Reconciler) machineUpdated(_ context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if before.ResourceVersion == after.ResourceVersion {
		return
	}
	if last, own := r.versions.Own(string(after.UID), after.ResourceVersion); own && !last.Awaited {
		return
	}
	queue.Add(watch.PriorityNormal, watch.RequestFor(after))
}

// nodeMatters reports whether anything of a Node has changed that its Machine depends on.
func nodeMatters(before, after *corev1.Node) bool {
	return before.UID != after.UID || before.Spec.ProviderID != after.Spec.ProviderID || before.Spec.Unschedulable != after.Spec.Unschedulable ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() || nodestate.IsReady(before) != nodestate.IsReady(after) ||
		before.Annotations[drain.AnnotationCordon] != after.Annotations[drain.AnnotationCordon] ||
		!slices.Equal(nodelink.InternalIPs(before.Status.Addresses), nodelink.InternalIPs(after.Status.Addresses))
}

// nodeToAllMachines returns the Machines that have a Node, may get it, or have cordoned it.
func (r *Reconciler) nodeToAllMachines(ctx context.Context, node *corev1.Node) []reconcile.Request {
	requests := sets.New(r.nodeToMachines(ctx, node.Name)...).Insert(recordToMachine(node)...)
	machines, err := r.finder.MachinesOf(ctx, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node.Name)
	}
	for _, machine := range machines {
		requests.Insert(watch.RequestFor(machine))
	}
	return requests.UnsortedList()
}

// nodeToMachines returns the Machines that name a Node in their nodeRef.
func (r *Reconciler) nodeToMachines(ctx context.Context, node string) []reconcile.Request {
	machines, err := lookup.MachinesOfNode(ctx, r.Cache, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machines of a Node", "node", node)
		return nil
	}
	requests := make([]reconcile.Request, len(machines))
	for i := range machines {
		requests[i] = watch.RequestFor(&machines[i])
	}
	return requests
}
