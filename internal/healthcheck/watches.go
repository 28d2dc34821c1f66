package healthcheck

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/internal/watch"
)

// indexNode is the index of Machines by status.nodeRef.name. It has a name of its own: two indexes of one name are an error.
const indexNode = "healthcheck.nodeRef.name"

// bundle is how long news of Machines and Nodes is gathered: a pass counts all Machines, and a thousand that start are not worth a
// thousand passes. It also spaces the remediations.
const bundle = 250 * time.Millisecond

// Index gives the cache the index that the controller reads by. Call it before the informer of Machines starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error {
	err := indexer.IndexField(ctx, &machinev1beta1.Machine{}, indexNode, func(object client.Object) []string {
		if machine, ok := object.(*machinev1beta1.Machine); ok && nodeName(machine) != "" {
			return []string{nodeName(machine)}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("indexing Machines by %s: %w", indexNode, err)
	}
	return nil
}

// Kinds lists what the controller watches.
func Kinds() []client.Object {
	return []client.Object{&machinev1beta1.MachineHealthCheck{}, &machinev1beta1.Machine{}, &corev1.Node{}}
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A MachineHealthCheck is made, changed, paused, or gone; whoever overlaps with it has to know.
		watch.Source(cache, &machinev1beta1.MachineHealthCheck{}, watch.Handler[*machinev1beta1.MachineHealthCheck]{
			Created: r.checkCreated, Updated: r.checkUpdated, Deleted: r.checkDeleted,
		}),
		// A Machine is made, fails, gets its Node, or goes.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: r.machineCreated, Updated: r.machineUpdated, Deleted: r.machineDeleted,
		}),
		// A Node becomes unhealthy, or healthy again, or goes.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: r.nodeCreated, Updated: r.nodeUpdated, Deleted: r.nodeDeleted,
		}),
	}
}

func (r *Reconciler) checkCreated(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck, initial bool) {
	if initial {
		queue.Add(watch.Initial, requestFor(check))
		return
	}
	queue.Add(watch.Repair, requestFor(check))
	r.addSiblings(ctx, queue, check)
}

func (r *Reconciler) checkUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineHealthCheck) {
	// The patch of the status names the version that it is for, so nothing of others hides behind our own write.
	last, own := r.versions.Own(string(after.UID), after.ResourceVersion)
	if own && !last.Awaited && before.UID == after.UID {
		return
	}
	queue.Add(watch.Repair, requestFor(after))
	if before.UID != after.UID || before.Generation != after.Generation || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
		r.addSiblings(ctx, queue, after)
	}
}

func (r *Reconciler) checkDeleted(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck) {
	queue.Add(watch.Repair, requestFor(check))
	r.addSiblings(ctx, queue, check)
}

// addSiblings puts the other MachineHealthChecks of a namespace into the queue.
func (r *Reconciler) addSiblings(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck) {
	for _, other := range r.checksOf(ctx, check.Namespace) {
		if other.Name != check.Name {
			queue.AddAfter(watch.Rollout, bundle, requestFor(&other))
		}
	}
}

func (r *Reconciler) checksOf(ctx context.Context, namespace string) []machinev1beta1.MachineHealthCheck {
	list := &machinev1beta1.MachineHealthCheckList{}
	if err := r.reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the MachineHealthChecks of a namespace", "namespace", namespace)
	}
	return list.Items
}

func (r *Reconciler) machineCreated(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	if !initial {
		r.addMachine(ctx, queue, machine)
	}
}

func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if sameMachine(before, after) {
		return
	}
	r.addMachine(ctx, queue, after)
	if !maps.Equal(before.Labels, after.Labels) {
		r.addMachine(ctx, queue, before)
	}
}

func (r *Reconciler) machineDeleted(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	r.versions.Forget(string(machine.UID))
	r.deletions.Forget(string(machine.UID))
	r.addMachine(ctx, queue, machine)
}

// sameMachine tells whether two versions of a Machine are equal in all that counts here. The status of a Machine changes often.
func sameMachine(before, after *machinev1beta1.Machine) bool {
	return before.UID == after.UID && phaseOf(before) == phaseOf(after) && nodeName(before) == nodeName(after) &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() && ownerOf(before) == ownerOf(after) &&
		before.Status.AuthoritativeAPI == after.Status.AuthoritativeAPI &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations)
}

// addMachine puts the MachineHealthChecks into the queue that select a Machine.
func (r *Reconciler) addMachine(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	for _, check := range r.checksOf(ctx, machine.Namespace) {
		if selects(&check, machine) {
			queue.AddAfter(watch.Rollout, bundle, requestFor(&check))
		}
	}
}

func selects(check *machinev1beta1.MachineHealthCheck, machine *machinev1beta1.Machine) bool {
	selector, err := metav1.LabelSelectorAsSelector(&check.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(machine.Labels))
}

func (r *Reconciler) nodeCreated(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
	if !initial {
		r.addNode(ctx, queue, node, nil)
	}
}

// nodeUpdated ignores heartbeats, and conditions that no MachineHealthCheck of the Machine names.
func (r *Reconciler) nodeUpdated(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
	if before.UID != after.UID || r.options.Guard != nil && r.options.Guard.Applies(before) != r.options.Guard.Applies(after) {
		r.addNode(ctx, queue, after, nil)
		return
	}
	if changed := changedConditions(before, after); len(changed) > 0 {
		r.addNode(ctx, queue, after, changed)
	}
}

func (r *Reconciler) nodeDeleted(ctx context.Context, queue watch.Queue, node *corev1.Node) {
	r.addNode(ctx, queue, node, nil)
}

// changedConditions lists the types of conditions that came, went, or say something else since.
func changedConditions(before, after *corev1.Node) []corev1.NodeConditionType {
	differs := func(from, to []corev1.NodeCondition) (types []corev1.NodeConditionType) {
		for i := range from {
			if !slices.ContainsFunc(to, func(c corev1.NodeCondition) bool {
				return c.Type == from[i].Type && c.Status == from[i].Status && c.LastTransitionTime.Equal(&from[i].LastTransitionTime)
			}) {
				types = append(types, from[i].Type)
			}
		}
		return types
	}
	return append(differs(before.Status.Conditions, after.Status.Conditions), differs(after.Status.Conditions, before.Status.Conditions)...)
}

// addNode puts the MachineHealthChecks into the queue that select the Machine of a Node; with conditions only those that name one of them.
func (r *Reconciler) addNode(ctx context.Context, queue watch.Queue, node *corev1.Node, conditions []corev1.NodeConditionType) {
	machines := &machinev1beta1.MachineList{}
	if err := r.reader.List(ctx, machines, client.MatchingFields{indexNode: node.Name}); err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node.Name)
		return
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		for _, check := range r.checksOf(ctx, machine.Namespace) {
			if selects(&check, machine) && (conditions == nil || names(&check, conditions)) {
				queue.AddAfter(watch.Rollout, bundle, requestFor(&check))
			}
		}
	}
}

// names tells whether a MachineHealthCheck looks at one of some conditions.
func names(check *machinev1beta1.MachineHealthCheck, conditions []corev1.NodeConditionType) bool {
	return slices.ContainsFunc(check.Spec.UnhealthyConditions, func(rule machinev1beta1.UnhealthyCondition) bool {
		return slices.Contains(conditions, rule.Type)
	})
}

func requestFor(check *machinev1beta1.MachineHealthCheck) reconcile.Request {
	return reconcile.Request{NamespacedName: client.ObjectKeyFromObject(check)}
}
