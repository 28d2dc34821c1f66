package healthcheck

import (
	"context"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/watch"
)

// batchPeriod delays events of Machines and Nodes: a reconciliation counts all Machines, and a thousand that start at the same time are then not a
// thousand reconciliations. It also paces remediations.
const batchPeriod = 250 * time.Millisecond

// Index adds the index that the controller needs to the cache. Call it before the informer of Machines starts.
func Index(ctx context.Context, indexer client.FieldIndexer) error { return lookup.Index(ctx, indexer) }

// Kinds lists what the controller watches, and MachineSets, which it only reads.
func Kinds() []client.Object {
	return []client.Object{&machinev1beta1.MachineHealthCheck{}, &machinev1beta1.Machine{}, &corev1.Node{}, &machinev1beta1.MachineSet{}}
}

// Annotations returns the annotations that the caches of these kinds keep, with the size in bytes beyond which a value cannot be valid.
func Annotations() map[string]int {
	return bounded.Annotations(plan.SkipAnnotation, plan.ClusterAPISkipAnnotation, plan.StrategyAnnotation, plan.ExternalAnnotation,
		plan.MaxInFlightAnnotation, plan.IntervalAnnotation)
}

// sources are the controller's watches, each with its reason.
func (r *Reconciler) sources(cache ctrlcache.Cache) []source.Source {
	return []source.Source{
		// A MachineHealthCheck is created, changed, paused or deleted. This also concerns the MachineHealthChecks that overlap with it.
		watch.Source(cache, &machinev1beta1.MachineHealthCheck{}, watch.Handler[*machinev1beta1.MachineHealthCheck]{
			Created: r.checkCreated, Updated: r.checkUpdated,
			Deleted: func(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck) {
				r.checkCreated(ctx, queue, check, false)
			},
		}),
		// A Machine is created, fails, gets its Node, or is deleted.
		watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: r.machineCreated, Updated: r.machineUpdated, Deleted: r.machineDeleted,
		}),
		// A Node becomes unhealthy or healthy, or is deleted.
		watch.Source(cache, &corev1.Node{}, watch.Handler[*corev1.Node]{
			Created: r.nodeCreated, Updated: r.nodeUpdated,
			Deleted: func(ctx context.Context, queue watch.Queue, node *corev1.Node) {
				r.nodeCreated(ctx, queue, node, false)
			},
		}),
		// The budget of a Node's NodeGroup has a place.
		r.options.Budgets.Source(v1alpha1.CapabilityRemediation, r.nodeNameToHealthChecks),
	}
}

func (r *Reconciler) checkCreated(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck, initial bool) {
	if initial {
		queue.Add(watch.PriorityStartup, watch.RequestFor(check))
		return
	}
	queue.Add(watch.PriorityHigh, watch.RequestFor(check))
	r.addOthers(ctx, queue, check)
}

func (r *Reconciler) checkUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineHealthCheck) {
	// The patch of the status names a resourceVersion, so that no change of another writer is ignored with it.
	last, own := r.versions.Own(string(after.UID), after.ResourceVersion)
	if own && !last.Awaited && before.UID == after.UID {
		return
	}
	queue.Add(watch.PriorityHigh, watch.RequestFor(after))
	if before.UID != after.UID || before.Generation != after.Generation || before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero() {
		r.addOthers(ctx, queue, after)
	}
}

// addOthers enqueues the other MachineHealthChecks of the namespace.
func (r *Reconciler) addOthers(ctx context.Context, queue watch.Queue, check *machinev1beta1.MachineHealthCheck) {
	for _, other := range r.listChecks(ctx, check.Namespace) {
		if other.Name != check.Name {
			queue.AddAfter(watch.PriorityNormal, batchPeriod, watch.RequestFor(&other))
		}
	}
}

func (r *Reconciler) listChecks(ctx context.Context, namespace string) []machinev1beta1.MachineHealthCheck {
	list := &machinev1beta1.MachineHealthCheckList{}
	if err := r.cache.List(ctx, list, client.InNamespace(namespace)); err != nil {
		log.FromContext(ctx).Error(err, "cannot list the MachineHealthChecks of a namespace", "namespace", namespace)
	}
	return list.Items
}

func (r *Reconciler) machineCreated(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	if !initial {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, r.machineToHealthChecks(ctx, machine)...)
	}
}

func (r *Reconciler) machineUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if sameMachine(before, after) {
		return
	}
	queue.AddAfter(watch.PriorityNormal, batchPeriod, r.machineToHealthChecks(ctx, after)...)
	if !maps.Equal(before.Labels, after.Labels) {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, r.machineToHealthChecks(ctx, before)...)
	}
}

func (r *Reconciler) machineDeleted(ctx context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	r.versions.Forget(string(machine.UID))
	r.deletions.Forget(string(machine.UID))
	queue.AddAfter(watch.PriorityNormal, batchPeriod, r.machineToHealthChecks(ctx, machine)...)
}

// sameMachine reports whether two versions of a Machine are equal in all that a decision depends on. The status of a Machine changes often.
func sameMachine(before, after *machinev1beta1.Machine) bool {
	return before.UID == after.UID && plan.PhaseOf(before) == plan.PhaseOf(after) && machineapi.NodeName(before) == machineapi.NodeName(after) &&
		before.DeletionTimestamp.IsZero() == after.DeletionTimestamp.IsZero() && machineapi.ControllerUID(before) == machineapi.ControllerUID(after) &&
		before.Status.AuthoritativeAPI == after.Status.AuthoritativeAPI &&
		maps.Equal(before.Labels, after.Labels) && maps.Equal(before.Annotations, after.Annotations)
}

// machineToHealthChecks returns the MachineHealthChecks that select a Machine.
func (r *Reconciler) machineToHealthChecks(ctx context.Context, machine *machinev1beta1.Machine) (requests []reconcile.Request) {
	for _, check := range r.listChecks(ctx, machine.Namespace) {
		if selects(&check, machine) {
			requests = append(requests, watch.RequestFor(&check))
		}
	}
	return requests
}

func selects(check *machinev1beta1.MachineHealthCheck, machine *machinev1beta1.Machine) bool {
	selector, err := plan.Selector(check)
	return err == nil && selector.Matches(labels.Set(machine.Labels))
}

func (r *Reconciler) nodeCreated(ctx context.Context, queue watch.Queue, node *corev1.Node, initial bool) {
	if !initial {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, r.nodeToHealthChecks(ctx, node, nil)...)
	}
}

// nodeUpdated ignores heartbeats, and conditions that no MachineHealthCheck of the Machine checks.
func (r *Reconciler) nodeUpdated(ctx context.Context, queue watch.Queue, before, after *corev1.Node) {
	if before.UID != after.UID || r.options.Guard != nil && r.options.Guard.Applies(before) != r.options.Guard.Applies(after) {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, r.nodeToHealthChecks(ctx, after, nil)...)
		return
	}
	if changed := changedConditions(before, after); len(changed) > 0 {
		queue.AddAfter(watch.PriorityNormal, batchPeriod, r.nodeToHealthChecks(ctx, after, changed)...)
	}
}

// changedConditions returns the types of the conditions that differ.
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

// nodeToHealthChecks returns the MachineHealthChecks that select the Machine of a Node. With conditions, it returns only the MachineHealthChecks that
// check one of them.
func (r *Reconciler) nodeToHealthChecks(
	ctx context.Context, node *corev1.Node, conditions []corev1.NodeConditionType,
) (requests []reconcile.Request) {
	machines, err := lookup.MachinesOfNode(ctx, r.cache, node.Name)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot find the Machine of a Node", "node", node.Name)
	}
	for i := range machines {
		machine := &machines[i]
		for _, check := range r.listChecks(ctx, machine.Namespace) {
			if selects(&check, machine) && (conditions == nil || checksAny(&check, conditions)) {
				requests = append(requests, watch.RequestFor(&check))
			}
		}
	}
	return requests
}

// checksAny reports whether a MachineHealthCheck checks one of some conditions.
func checksAny(check *machinev1beta1.MachineHealthCheck, conditions []corev1.NodeConditionType) bool {
	return slices.ContainsFunc(check.Spec.UnhealthyConditions, func(rule machinev1beta1.UnhealthyCondition) bool {
		return slices.Contains(conditions, rule.Type)
	})
}
