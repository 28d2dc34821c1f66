package metadata

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
	nodegroupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/watch"
)

// sources are the controller's watches, each with its reason.
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
					queue.Add(watch.PriorityNormal, w.nodeToSets(ctx, node.Name)...)
				}
			},
			Updated: func(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
				if !nodegroupplan.SameNode(before, after) {
					queue.Add(watch.PriorityNormal, w.nodeToSets(ctx, after.Name)...)
				}
			},
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				w.admissions.setDenied(node.Name, "")
				queue.Add(watch.PriorityNormal, w.nodeToSets(ctx, node.Name)...)
			},
		}),
		// A Node waits for its wave.
		w.admissions.awaited.Source(w.nodeToSets),
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
	queue.Add(watch.PriorityNormal, w.machineToSets(ctx, machine)...)
}

// machineToSets returns the MachineSets that a Machine may belong to.
func (w *waves) machineToSets(ctx context.Context, machine *machinev1beta1.Machine) []reconcile.Request {
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

// nodeToSets returns the MachineSets of the Machines that name a Node.
func (w *waves) nodeToSets(ctx context.Context, node string) (requests []reconcile.Request) {
	for _, request := range w.nodeToMachines(ctx, node) {
		machine := &machinev1beta1.Machine{}
		if err := w.cache.Get(ctx, request.NamespacedName, machine); err != nil {
			// The event of its deletion comes.
			continue
		}
		requests = append(requests, w.machineToSets(ctx, machine)...)
	}
	return requests
}
