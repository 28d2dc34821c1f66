package replacement

import (
	"context"
	"maps"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/watch"
)

// batchPeriod delays events of Machines and Nodes: a hundred Machines that boot at the same time are not a hundred reconciliations of all of them.
const batchPeriod = 100 * time.Millisecond

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	sources := []source.Source{
		// A group begins or ends to replace Machines, or its MachineSets come to belong to another one.
		watch.Source(cache, &v1alpha1.NodeGroup{}, watch.Handler[*v1alpha1.NodeGroup]{
			Created: r.groupCreated, Updated: r.groupUpdated, Deleted: r.groupDeleted,
		}),
		// A template changes, or the number of Machines.
		watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			Created: func(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet, _ bool) {
				r.enqueueSet(ctx, queue, set)
			},
			Updated: r.setUpdated, Deleted: r.enqueueSet,
		}),
		// A new Machine appears, gets its Node or fails; an old one goes; a user excludes one. The MachineSets enqueue those that exist at the start.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: func(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
				if !initial {
					r.enqueueMachine(ctx, queue, machine)
				}
			},
			Updated: r.machineUpdated, Deleted: r.enqueueMachine,
		}),
		// The Node of a Machine becomes Ready, or gets its metadata.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: func(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
				if !initial {
					r.enqueueNode(ctx, queue, node)
				}
			},
			Updated: r.nodeUpdated, Deleted: r.enqueueNode,
		}),
	}
	if r.Budgets != nil {
		// The budget has a place.
		sources = append(sources, r.Budgets.Source(v1alpha1.CapabilityReplacement, r.nodeToRequests))
	}
	return sources
}

func (r *Reconciler) groupCreated(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup, _ bool) {
	r.groupChanged(ctx, queue, group)
}

func (r *Reconciler) groupDeleted(ctx context.Context, queue watch.Queue, group *v1alpha1.NodeGroup) {
	queue.Add(watch.PriorityNormal, watch.RequestFor(group))
	r.groupChanged(ctx, queue, group)
}

func (r *Reconciler) setUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	if before.Generation != after.Generation || !maps.Equal(before.Labels, after.Labels) || !maps.Equal(before.Annotations, after.Annotations) {
		r.enqueueSet(ctx, queue, before)
		r.enqueueSet(ctx, queue, after)
	}
}

// machineUpdated ignores what does not matter here.
func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	same := before.UID == after.UID && before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() &&
		before.Generation == after.Generation && maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations) &&
		machineapi.NodeName(before) == machineapi.NodeName(after) && machineapi.HasFailed(before) == machineapi.HasFailed(after)
	if !same {
		r.enqueueMachine(ctx, queue, after)
	}
}

// nodeUpdated ignores what changes with every heartbeat.
func (r *Reconciler) nodeUpdated(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
	readyBefore, sinceBefore := plan.Readiness(before)
	readyAfter, sinceAfter := plan.Readiness(after)
	same := before.UID == after.UID && readyBefore == readyAfter && sinceBefore.Equal(sinceAfter) && maps.Equal(before.Labels, after.Labels) &&
		maps.Equal(before.Annotations, after.Annotations) && apiequality.Semantic.DeepEqual(before.Spec.Taints, after.Spec.Taints)
	if !same {
		r.enqueueNode(ctx, queue, after)
	}
}

// groupUpdated ignores the status, which others write, except that the roll-out of metadata has stopped or goes on.
func (r *Reconciler) groupUpdated(ctx context.Context, queue watch.Queue, before, after *v1alpha1.NodeGroup) {
	if before.Generation == after.Generation && before.UID == after.UID && maps.Equal(before.Annotations, after.Annotations) &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() &&
		plan.IsRolloutStopped(before) == plan.IsRolloutStopped(after) {
		return
	}
	r.groupChanged(ctx, queue, before)
	r.groupChanged(ctx, queue, after)
}

// groupChanged enqueues what a group concerns: all groups with MachineSets, since each MachineSet belongs to one, and the MachineSets that it
// selects, which may belong to none now.
func (r *Reconciler) groupChanged(ctx context.Context, queue watch.Queue, changed *v1alpha1.NodeGroup) {
	selection := changed.Spec.Nodes.MachineSets
	if selection == nil {
		return
	}
	var groups v1alpha1.NodeGroupList
	var sets machinev1beta1.MachineSetList
	for _, err := range []error{r.Cache.List(ctx, &groups), r.Cache.List(ctx, &sets, client.InNamespace(selection.Namespace))} {
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot find what a NodeGroup concerns", "nodegroup", changed.Name)
			return
		}
	}
	for i := range groups.Items {
		if group := &groups.Items[i]; group.Spec.Nodes.MachineSets != nil {
			queue.Add(watch.PriorityNormal, watch.RequestFor(group))
		}
	}
	parsed := members.Parse(changed)
	for i := range sets.Items {
		if set := &sets.Items[i]; parsed.SelectsSet(set) {
			queue.Add(watch.PriorityNormal, watch.RequestFor(set))
		}
	}
}

func (r *Reconciler) enqueueSet(ctx context.Context, queue watch.Queue, set *machinev1beta1.MachineSet) {
	queue.AddAfter(watch.PriorityNormal, batchPeriod, r.setToRequest(ctx, set)...)
}

func (r *Reconciler) enqueueMachine(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	queue.AddAfter(watch.PriorityNormal, batchPeriod, r.machineToRequests(ctx, machine)...)
}

func (r *Reconciler) enqueueNode(ctx context.Context, queue watch.Queue, node *corev1.Node) {
	queue.AddAfter(watch.PriorityNormal, batchPeriod, r.nodeToRequests(ctx, node.Name)...)
}

// setToRequest returns the request for the group of a MachineSet, or for a MachineSet that has none.
func (r *Reconciler) setToRequest(ctx context.Context, set *machinev1beta1.MachineSet) []reconcile.Request {
	group, err := r.groupOf(ctx, set)
	switch {
	case err != nil:
		return nil
	case group != nil:
		return []reconcile.Request{watch.RequestFor(group)}
	}
	return []reconcile.Request{watch.RequestFor(set)}
}

// groupOf returns the group of a MachineSet; nil for none. An error is in the log.
func (r *Reconciler) groupOf(ctx context.Context, set *machinev1beta1.MachineSet) (*members.Group, error) {
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the NodeGroup of a MachineSet", "machineset", set.Name)
		return nil, err
	}
	return members.OfSet(groups, set), nil
}

// setOf returns the MachineSet of a Machine; nil for none.
func (r *Reconciler) setOf(ctx context.Context, machine *machinev1beta1.Machine) *machinev1beta1.MachineSet {
	owner := metav1.GetControllerOfNoCopy(machine)
	if owner == nil || owner.Kind != "MachineSet" {
		return nil
	}
	set := &machinev1beta1.MachineSet{}
	if err := r.Cache.Get(ctx, types.NamespacedName{Namespace: machine.Namespace, Name: owner.Name}, set); err != nil {
		// Without the MachineSet there is nothing to replace.
		return nil
	}
	return set
}

// machineToRequests returns the request for the group of a Machine. Where the MachineSet has none, only a Machine with a mark concerns Drover: most
// clusters have MachineSets of thousands of Machines, and no group.
func (r *Reconciler) machineToRequests(ctx context.Context, machine *machinev1beta1.Machine) []reconcile.Request {
	set := r.setOf(ctx, machine)
	if set == nil {
		return nil
	}
	group, err := r.groupOf(ctx, set)
	_, marked := machine.Annotations[machineapi.ReplacingAnnotation]
	if err != nil || group == nil && !marked && !machineapi.HasReplacementMark(machine) {
		return nil
	}
	return r.setToRequest(ctx, set)
}

// nodeToRequests returns the requests for the groups that replace the Machines that name a Node.
func (r *Reconciler) nodeToRequests(ctx context.Context, node string) (requests []reconcile.Request) {
	machines, err := lookup.MachinesOfNode(ctx, r.Cache, node)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node)
		return nil
	}
	for i := range machines {
		set := r.setOf(ctx, &machines[i])
		if set == nil {
			continue
		}
		if group, err := r.groupOf(ctx, set); err == nil && group != nil && plan.Replaces(group.NodeGroup) {
			requests = append(requests, watch.RequestFor(group))
		}
	}
	return requests
}
