package grouplayer

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	ctrlcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/watch"
)

// Sources are the watches, each with its reason. The controller of metadata watches Nodes itself.
func (l *Layer) Sources(cache ctrlcache.Cache) []source.Source {
	sources := []source.Source{
		// A roll-out reaches the Node, or its group changes.
		l.Gate.Admitted(func(_ context.Context, node string) []reconcile.Request { return requestFor(node) }),
	}
	if l.Guard != nil {
		requests := func(_ context.Context, node string) []reconcile.Request { return requestFor(node) }
		// A Pod leaves a Node that is guarded, or its budget allows that; or the budget of the group has a place.
		sources = append(sources, l.Guard.Engine.Sources(cache, l.guardedNode)...)
		sources = append(sources, l.Guard.Budgets.Source(v1alpha1.CapabilityMetadata, requests), nodelease.Source(cache, l.guardedNode))
		// A change or a deletion of a PodDisruptionBudget may let taints proceed that are held back. For a Node that is not being drained, this causes no
		// event of the Node.
		sources = append(sources, watch.Source(cache, &policyv1.PodDisruptionBudget{}, watch.Handler[*policyv1.PodDisruptionBudget]{
			Updated: l.budgetUpdated, Deleted: l.budgetDeleted,
		}))
	}
	if l.options.Machines() {
		// What a Machine declares goes before what the group of its Node declares.
		sources = append(sources, watch.Source(cache, &machinev1beta1.Machine{}, watch.Handler[*machinev1beta1.Machine]{
			Created: l.machineCreated, Updated: l.machineUpdated, Deleted: l.machineDeleted,
		}), watch.Source(cache, &machinev1beta1.MachineSet{}, watch.Handler[*machinev1beta1.MachineSet]{
			// The Machines do not show what their MachineSet declares while a group's value keeps metadata from writing them.
			Updated: l.setUpdated,
		}))
	}
	return sources
}

// budgetUpdated ignores what does not change whether a budget can ever allow an eviction.
func (l *Layer) budgetUpdated(ctx context.Context, queue watch.Queue, before, after *policyv1.PodDisruptionBudget) {
	was, is := &before.Status, &after.Status
	if before.Generation != after.Generation || was.ExpectedPods != is.ExpectedPods || was.DesiredHealthy != is.DesiredHealthy ||
		was.ObservedGeneration != is.ObservedGeneration || (was.DisruptionsAllowed > 0) != (is.DisruptionsAllowed > 0) {
		l.budgetDeleted(ctx, queue, after)
	}
}

// budgetDeleted has the Nodes looked at again on which Pods of the budget's namespace keep taints from being set.
func (l *Layer) budgetDeleted(_ context.Context, queue watch.Queue, budget *policyv1.PodDisruptionBudget) {
	l.heldIn.Range(func(node, namespaces any) bool {
		name, _ := node.(string)
		if of, ok := namespaces.(sets.Set[string]); ok && (of == nil || of.Has(budget.Namespace)) {
			queue.AddAfter(watch.PriorityNormal, budgetDelay, requestFor(name)...)
		}
		return true
	})
}

// guardedNode returns the request for a Node whose guard has begun, and none for all others: Pods come and go on all of them.
func (l *Layer) guardedNode(_ context.Context, node string) []reconcile.Request {
	if _, guarded := l.guarded.Load(node); !guarded {
		return nil
	}
	return requestFor(node)
}

func (l *Layer) setUpdated(ctx context.Context, queue watch.Queue, before, after *machinev1beta1.MachineSet) {
	if before.Generation == after.Generation && !metadataplan.IsDeclarationChanged(before, after) {
		return
	}
	machines, err := lookup.MachinesOfSet(ctx, l.Cache, after.Namespace, after.UID)
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot enqueue the Nodes of a MachineSet", "machineset", after.Namespace+"/"+after.Name)
		return
	}
	for i := range machines {
		queue.Add(watch.PriorityNormal, requestFor(machineapi.NodeName(&machines[i]))...)
	}
}

func requestFor(node string) []reconcile.Request {
	if node == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
}

// NodeDeleted forgets a Node that is gone.
func (l *Layer) NodeDeleted(node *corev1.Node) {
	key := types.NamespacedName{Name: node.Name}
	l.options.Limiter.Forget(key)
	l.conflicts.Forget(key)
	l.forgetGuard(node.Name)
	l.Gate.ForgetNode(node.Name)
	l.Gate.ForgetWrite(node.Name)
	l.states.Forget(key)
}

func (l *Layer) machineCreated(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine, initial bool) {
	if !initial {
		queue.Add(watch.PriorityNormal, requestFor(machineapi.NodeName(machine))...)
	}
}

func (l *Layer) machineUpdated(_ context.Context, queue watch.Queue, before, after *machinev1beta1.Machine) {
	if before.Generation == after.Generation && !members.IsChanged(before, after) {
		return
	}
	queue.Add(watch.PriorityNormal, requestFor(machineapi.NodeName(after))...)
	if name := machineapi.NodeName(before); name != machineapi.NodeName(after) {
		queue.Add(watch.PriorityNormal, requestFor(name)...)
	}
}

func (l *Layer) machineDeleted(_ context.Context, queue watch.Queue, machine *machinev1beta1.Machine) {
	queue.Add(watch.PriorityNormal, requestFor(machineapi.NodeName(machine))...)
}
