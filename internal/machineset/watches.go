package machineset

import (
	"context"
	"errors"
	"maps"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/watch"
)

// batchPeriod delays events that change only the counts of a status: a thousand Machines that boot at the same time are then not a thousand
// reconciliations of all of them.
const batchPeriod = 100 * time.Millisecond

// Index adds the indexes that the controller needs to the cache. Call it before the informer of Machines starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	return errors.Join(lookup.Index(ctx, indexer), lookup.IndexOwners(ctx, indexer))
}

// Kinds lists what the controller watches.
func Kinds() []client.Object {
	return []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}, &corev1.Node{}}
}

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int { return bounded.Annotations(plan.AttemptAnnotation) }

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A MachineSet is scaled, paused, or migrates to another API.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, initial bool) {
				priority := watch.PriorityHigh
				if initial {
					priority = watch.PriorityStartup
				}
				queue.Add(priority, named(set.Namespace, set.Name))
			},
			Updated: r.setUpdated,
			Deleted: func(_ context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
				queue.Add(watch.PriorityHigh, named(set.Namespace, set.Name))
			},
		}),
		// A Machine is created, deleted, adopted or released, gets its Node, or fails. Machines that exist at the start need no request: the events of
		// their MachineSets suffice.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: func(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
				if !initial {
					queue.Add(watch.PriorityHigh, r.machineToMachineSets(ctx, machine)...)
				}
			},
			Updated: r.machineUpdated,
			Deleted: func(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
				wait := batchPeriod
				if machine.DeletionTimestamp == nil {
					// It counted until now.
					wait = 0
				}
				queue.AddAfter(watch.PriorityHigh, wait, r.machineToMachineSets(ctx, machine)...)
			},
		}),
		// A Node becomes ready or not ready. machine-api-operator waits until nodelink has changed the Machine.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					queue.AddAfter(watch.PriorityHigh, batchPeriod, r.nodeToMachineSets(ctx, node.Name)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if before.UID != after.UID || !plan.SameReadiness(before, after) {
					queue.AddAfter(watch.PriorityHigh, batchPeriod, r.nodeToMachineSets(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				queue.AddAfter(watch.PriorityHigh, batchPeriod, r.nodeToMachineSets(ctx, node.Name)...)
			},
		}),
	}
}

func (r *Reconciler) setUpdated(_ context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	// The patch of the status names a resourceVersion, so that no change of another writer is ignored with it.
	last, own := r.versions.Own(string(after.UID), after.ResourceVersion)
	if before.ResourceVersion == after.ResourceVersion || own && !last.Awaited && before.UID == after.UID {
		return
	}
	queue.Add(watch.PriorityHigh, named(after.Namespace, after.Name))
}

// machineUpdated enqueues the MachineSets of a Machine whose labels or owner change, or what its MachineSet counts.
func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	same := before.UID == after.UID && before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() &&
		maps.Equal(before.Labels, after.Labels) && controllerUID(before) == controllerUID(after) &&
		machineapi.IsReplacing(before) == machineapi.IsReplacing(after)
	switch {
	case !same:
		queue.Add(watch.PriorityHigh, r.machineToMachineSets(ctx, before)...)
		queue.Add(watch.PriorityHigh, r.machineToMachineSets(ctx, after)...)
	case !plan.SameHealth(before, after):
		queue.AddAfter(watch.PriorityHigh, batchPeriod, r.machineToMachineSets(ctx, after)...)
	}
}

func controllerUID(machine *machinev1beta1.Machine) types.UID {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return owner.UID
	}
	return ""
}

// machineToMachineSets returns the MachineSet that owns a Machine, or the MachineSets that could adopt it.
func (r *Reconciler) machineToMachineSets(ctx context.Context, machine *machinev1beta1.Machine) []reconcile.Request {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		if owner.Kind != "MachineSet" {
			return nil
		}
		return []reconcile.Request{named(machine.Namespace, owner.Name)}
	}
	if len(machine.Labels) == 0 {
		return nil
	}
	var sets machinev1beta1.MachineSetList
	if err := r.cache.List(ctx, &sets, client.InNamespace(machine.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the MachineSets of a Machine", "machine", client.ObjectKeyFromObject(machine).String())
		return nil
	}
	var requests []reconcile.Request
	for i := range sets.Items {
		if plan.Selects(&sets.Items[i], machine) {
			requests = append(requests, named(machine.Namespace, sets.Items[i].Name))
		}
	}
	return requests
}

// nodeToMachineSets returns the MachineSets whose Machines name a Node.
func (r *Reconciler) nodeToMachineSets(ctx context.Context, node string) []reconcile.Request {
	machines, err := lookup.MachinesOfNode(ctx, r.cache, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node)
		return nil
	}
	var requests []reconcile.Request
	for i := range machines {
		requests = append(requests, r.machineToMachineSets(ctx, &machines[i])...)
	}
	return requests
}

func named(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}
