package nodegroup

import (
	"context"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/watch"
)

// Kinds lists what the capability watches whether Machines are served or not; Own lists those of them that no other capability watches.
func Kinds() []client.Object {
	return []client.Object{&v1alpha1.NodeGroup{}, &corev1.Node{}, &coordinationv1.Lease{}}
}

// Own lists the kinds that only this capability watches.
func Own() []client.Object { return []client.Object{&v1alpha1.NodeGroup{}} }

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	sources := []source.Source{
		// A group changes, and with it which Nodes belong to the others.
		watch.Source(cache, &v1alpha1.NodeGroup{}, watch.Handler[*v1alpha1.NodeGroup]{
			Created: func(ctx context.Context, queue watch.Queue, _ *v1alpha1.NodeGroup, _ bool) { r.enqueueAll(ctx, queue) },
			Updated: r.groupUpdated,
			Deleted: r.groupDeleted,
		}),
		// A Node joins or leaves, becomes Ready or NotReady, or has been written.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, _ bool) {
				queue.Add(watch.PriorityNormal, r.nodeToGroups(ctx, node)...)
			},
			Updated: r.nodeUpdated,
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				queue.Add(watch.PriorityNormal, r.nodeToGroups(ctx, node)...)
			},
		}),
		// Taints of a Node are held back, or are not any more.
		r.Admissions.Changed(r.nodeNameToGroups),
		// The lease of a Node is acquired or released, which counts against the budget.
		nodelease.Source(cache, r.nodeNameToGroups),
	}
	if r.Budgets != nil {
		// Another number of disruptions waits, or the work on a Node is over.
		sources = append(sources, r.Budgets.Changed(func(_ context.Context, group string) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: group}}}
		}))
	}
	if r.Replacements != nil {
		// Machines are being replaced.
		sources = append(sources, r.Replacements.Source())
	}
	if r.options.Machines() {
		sources = append(sources,
			// A MachineSet appears or goes, or its labels change, by which groups select MachineSets, or its taints, which a group may guard.
			watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
				Created: r.setCreated, Updated: r.setUpdated, Deleted: r.setDeleted,
			}),
			// A Machine gets its Node or another MachineSet, or goes, and with it the Node's group changes.
			watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
				Created: r.machineCreated, Updated: r.machineUpdated, Deleted: r.machineDeleted,
			}),
		)
	}
	return sources
}

// enqueueAll has every group reconciled: which Nodes one has depends on the others.
func (r *Reconciler) enqueueAll(ctx context.Context, queue watch.Queue) {
	var groups v1alpha1.NodeGroupList
	if err := r.Cache.List(ctx, &groups); err != nil {
		log.FromContext(ctx).Error(err, "cannot list NodeGroups")
		return
	}
	for i := range groups.Items {
		queue.Add(watch.PriorityNormal, watch.RequestFor(&groups.Items[i]))
	}
}

// groupUpdated ignores the status, which only Drover writes.
func (r *Reconciler) groupUpdated(ctx context.Context, queue watch.Queue, before, after *v1alpha1.NodeGroup) {
	switch {
	case before.Generation != after.Generation || before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero():
		r.enqueueAll(ctx, queue)
	case !maps.Equal(before.Annotations, after.Annotations) || !slices.Equal(before.Finalizers, after.Finalizers) ||
		!apiequality.Semantic.DeepEqual(before.Status, after.Status):
		queue.Add(watch.PriorityNormal, watch.RequestFor(after))
	}
}

func (r *Reconciler) groupDeleted(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup) {
	queue.Add(watch.PriorityNormal, watch.RequestFor(group))
	r.enqueueAll(ctx, queue)
}

// setCreated ignores what exists at the start, when every group is reconciled.
func (r *Reconciler) setCreated(ctx context.Context, queue watch.Queue, _ *machinev1beta1.MachineSet, initial bool) {
	if !initial {
		r.enqueueAll(ctx, queue)
	}
}

func (r *Reconciler) setUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	if before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) || metadataplan.IsDeclarationChanged(before, after) {
		r.enqueueAll(ctx, queue)
	}
}

func (r *Reconciler) setDeleted(ctx context.Context, queue watch.Queue, _ *machinev1beta1.MachineSet) {
	r.enqueueAll(ctx, queue)
}

// machineCreated ignores what exists at the start, when every group is reconciled, and Machines without a Node, which are in no group.
func (r *Reconciler) machineCreated(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	if !initial && machineapi.NodeName(machine) != "" {
		r.enqueueAll(ctx, queue)
	}
}

func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if members.IsChanged(before, after) {
		r.enqueueAll(ctx, queue)
	}
}

func (r *Reconciler) machineDeleted(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	if machineapi.NodeName(machine) != "" {
		r.enqueueAll(ctx, queue)
	}
}

// nodeUpdated ignores what changes with every heartbeat.
func (r *Reconciler) nodeUpdated(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
	if rollout.SameNode(before, after) {
		return
	}
	queue.Add(watch.PriorityNormal, r.nodeToGroups(ctx, before, after)...)
}

// nodeNameToGroups is nodeToGroups by name.
func (r *Reconciler) nodeNameToGroups(ctx context.Context, name string) []reconcile.Request {
	node := &corev1.Node{}
	switch err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		log.FromContext(ctx).Error(err, "cannot find the NodeGroups of a Node", "node", name)
		return nil
	}
	return r.nodeToGroups(ctx, node)
}

// nodeToGroups returns the groups that select a Node, and the one that its record names, for each of several states of the Node.
func (r *Reconciler) nodeToGroups(ctx context.Context, states ...*corev1.Node) []reconcile.Request {
	assignments, err := r.Finder.AssignStates(ctx, states...)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the NodeGroups of a Node", "node", states[0].Name)
		return nil
	}
	var requests []reconcile.Request
	for i := range assignments {
		for group := range assignments[i].Groups() {
			if request := watch.RequestFor(group); !slices.Contains(requests, request) {
				requests = append(requests, request)
			}
		}
	}
	return requests
}
