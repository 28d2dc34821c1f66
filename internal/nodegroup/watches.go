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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/watch"
)

// Kinds lists what the capability watches whether Machines are served or not. Own lists the kinds that no other capability watches.
func Kinds() []client.Object {
	return []client.Object{&v1alpha1.NodeGroup{}, &corev1.Node{}, &coordinationv1.Lease{}}
}

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	return map[string]int{v1alpha1.AnnotationResume: bounded.MaxAnnotation, v1alpha1.AnnotationConfirm: 32 << 10}
}

// Own lists the kinds that only this capability watches.
func Own() []client.Object { return []client.Object{&v1alpha1.NodeGroup{}} }

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	sources := []source.Source{
		// A group changes, and with it which Nodes belong to the others, and which MachineSets to none.
		watch.Source(cache, &v1alpha1.NodeGroup{}, watch.Handler[*v1alpha1.NodeGroup]{
			Created: func(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup, _ bool) {
				r.groupChanged(ctx, queue, group)
			},
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
		r.Gate.Changed(r.nodeNameToGroups),
		// The lease of a Node is acquired or released, which counts against the budget.
		nodelease.Source(cache, r.nodeNameToGroups),
	}
	if r.Budgets != nil {
		// Another number of disruptions waits, or the work on a Node is over. What may give the budget a place reconciles the group, which then replaces
		// Machines: the budget does not wake it.
		sources = append(sources, r.Budgets.Changed(func(_ context.Context, group string) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: group}}}
		}))
	}
	if r.options.Machines() {
		sources = append(sources,
			// A MachineSet appears or goes, or changes its template, its number of Machines, or its labels; groups select MachineSets by labels.
			watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
				Created: r.setCreated, Updated: r.setUpdated, Deleted: r.setDeleted,
			}),
			// A Machine gets its Node or another MachineSet, or goes, and with it the Node's group changes. A new Machine appears or fails, an old one
			// goes, a user excludes one from replacement.
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

// groupChanged enqueues every group, and the MachineSets that one selects, which may belong to none now.
func (r *Reconciler) groupChanged(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup) {
	r.enqueueAll(ctx, queue)
	selection := group.Spec.Nodes.MachineSets
	if r.Replacer == nil || selection == nil {
		return
	}
	var sets machinev1beta1.MachineSetList
	if err := r.Cache.List(ctx, &sets, client.InNamespace(selection.Namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the MachineSets of a NodeGroup", "nodegroup", group.Name)
		return
	}
	parsed := members.Parse(group)
	for i := range sets.Items {
		if parsed.SelectsSet(&sets.Items[i]) {
			queue.Add(watch.PriorityNormal, watch.RequestFor(&sets.Items[i]))
		}
	}
}

// groupUpdated ignores what does not matter here.
func (r *Reconciler) groupUpdated(ctx context.Context, queue watch.Queue, before, after *v1alpha1.NodeGroup) {
	switch {
	case before.Generation != after.Generation || before.UID != after.UID || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero():
		r.groupChanged(ctx, queue, before)
		r.groupChanged(ctx, queue, after)
	case !maps.Equal(before.Annotations, after.Annotations) || !slices.Equal(before.Finalizers, after.Finalizers) ||
		!apiequality.Semantic.DeepEqual(before.Status, after.Status):
		queue.Add(watch.PriorityNormal, watch.RequestFor(after))
	}
}

func (r *Reconciler) groupDeleted(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup) {
	queue.Add(watch.PriorityNormal, watch.RequestFor(group))
	r.groupChanged(ctx, queue, group)
}

// setCreated ignores the groups of what exists at the start, when every group is reconciled.
func (r *Reconciler) setCreated(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, initial bool) {
	if !initial {
		r.enqueueAll(ctx, queue)
	}
	queue.Add(watch.PriorityNormal, r.setToRequests(ctx, set)...)
}

func (r *Reconciler) setUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	if before.UID != after.UID || !maps.Equal(before.Labels, after.Labels) || metadataplan.IsDeclarationChanged(before, after) {
		r.enqueueAll(ctx, queue)
	}
	if before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) {
		queue.Add(watch.PriorityNormal, r.setToRequests(ctx, after)...)
	}
}

func (r *Reconciler) setDeleted(ctx context.Context, queue watch.Queue, _ *machinev1beta1.MachineSet) {
	r.enqueueAll(ctx, queue)
}

// machineCreated ignores what exists at the start, when every group is reconciled. Machines without a Node are in no group, and may replace others.
func (r *Reconciler) machineCreated(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	if !initial {
		r.machineDeleted(ctx, queue, machine)
	}
}

func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if members.IsChanged(before, after) {
		r.enqueueAll(ctx, queue)
	}
	same := before.UID == after.UID && before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() &&
		before.Generation == after.Generation && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		machineapi.NodeName(before) == machineapi.NodeName(after) && machineapi.HasFailed(before) == machineapi.HasFailed(after)
	if !same {
		queue.Add(watch.PriorityNormal, r.machineToRequests(ctx, after)...)
	}
}

func (r *Reconciler) machineDeleted(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	if machineapi.NodeName(machine) != "" {
		r.enqueueAll(ctx, queue)
	}
	queue.Add(watch.PriorityNormal, r.machineToRequests(ctx, machine)...)
}

// setToRequests returns the request for the group that replaces the Machines of a MachineSet, or for a MachineSet that has none.
func (r *Reconciler) setToRequests(ctx context.Context, set *machinev1beta1.MachineSet) []reconcile.Request {
	if r.Replacer == nil {
		return nil
	}
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the NodeGroup of a MachineSet", "machineset", set.Name)
		return nil
	}
	if group := members.OfSet(groups, set); group != nil {
		return []reconcile.Request{watch.RequestFor(group)}
	}
	return []reconcile.Request{watch.RequestFor(set)}
}

// machineToRequests is setToRequests for the MachineSet of a Machine. Where that has no group, only a Machine with a mark concerns Drover: most
// clusters have MachineSets of thousands of Machines, and no group.
func (r *Reconciler) machineToRequests(ctx context.Context, machine *machinev1beta1.Machine) []reconcile.Request {
	owner := metav1.GetControllerOfNoCopy(machine)
	if r.Replacer == nil || owner == nil || owner.Kind != "MachineSet" {
		return nil
	}
	set := &machinev1beta1.MachineSet{}
	if err := r.Cache.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: owner.Name}, set); err != nil {
		// Without the MachineSet there is nothing to replace.
		return nil
	}
	replacing := machineapi.IsReplacing(machine)
	isMarked := replacing || machineapi.HasDeletionMark(machine)
	return slices.DeleteFunc(r.setToRequests(ctx, set), func(request reconcile.Request) bool { return request.Namespace != "" && !isMarked })
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

// nodeToGroups returns the groups that select a Node, and the group that its record names, for each of several states of the Node.
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
