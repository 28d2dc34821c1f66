package metadata

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	groupmembers "github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/undecodable"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	machine *machinev1beta1.Machine
	// set is the MachineSet that the Machine belongs to; nil for none.
	set *machineSet
	// ambiguous are the MachineSets whose selectors match a Machine that has no controller, when there are several.
	ambiguous []*machineSet
	// node is the Machine's Node; nil for none. nodeShared reports that another Machine names the same one.
	node       *corev1.Node
	nodeShared bool
	// group is what the Node has from its NodeGroup, as far as the decision depends on it.
	group plan.GroupLayer
	// refused reports that the Node does not get its guarded taints, because no NodeGroup decides about them.
	refused bool
	// pending reports that the cache does not show Drover's own last write of the Machine or its Node.
	pending bool
}

// namedNode is a Node with the Machines that name it in status.nodeRef.
type namedNode struct {
	name string
	// node is nil if no Node has the name.
	node     *corev1.Node
	machines []machinev1beta1.Machine
	// active is how many of the Machines are not being deleted.
	active int
	// groupLayer returns what the Node has from its NodeGroup, for the MachineSet with a UID; nil where the NodeGroup has not been looked for.
	groupLayer func(set types.UID) (plan.GroupLayer, error)
}

// isOf reports whether the Node could be a Machine's, by the rule of NodeGroups: a Machine that names the Node's UID goes before others, even if it
// is being deleted.
func (n *namedNode) isOf(machine *machinev1beta1.Machine) bool {
	return len(n.machines) == 1 || slices.ContainsFunc(groupmembers.Candidates(n.node, n.machines), func(candidate *machinev1beta1.Machine) bool {
		return client.ObjectKeyFromObject(candidate) == client.ObjectKeyFromObject(machine)
	})
}

// observeNode reads the Node of a name; none for an empty name.
func (r *Reconciler) observeNode(ctx context.Context, name string) (namedNode, error) {
	n, node := namedNode{name: name}, &corev1.Node{}
	if name == "" {
		return n, nil
	}
	switch err := r.cache.Get(ctx, types.NamespacedName{Name: name}, node); {
	case apierrors.IsNotFound(err):
	case err != nil:
		return n, fmt.Errorf("reading Node %s: %w", name, err)
	default:
		n.node = node
	}
	return n, nil
}

// observeMachines reads the Machines that name a Node.
func (r *Reconciler) observeMachines(ctx context.Context, n *namedNode) (err error) {
	if n.name == "" {
		return nil
	}
	if n.machines, err = lookup.MachinesOfNode(ctx, r.cache, n.name); err != nil {
		return err
	}
	for i := range n.machines {
		if n.machines[i].DeletionTimestamp == nil {
			n.active++
		}
	}
	return undecodable.CheckAll(n.machines)
}

// observe reads the Machine, its MachineSet and its Node; nil when there is nothing to do for the Machine.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	machine := &machinev1beta1.Machine{}
	err := r.cache.Get(ctx, key, machine)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	on, err := r.observeNode(ctx, machineapi.NodeName(machine))
	if err == nil {
		err = r.observeMachines(ctx, &on)
	}
	if err != nil {
		return nil, err
	}
	return r.observeMachine(ctx, machine, &on)
}

// observeMachine reads what a Machine depends on; nil when there is nothing to do for it. on is the Node that it names.
func (r *Reconciler) observeMachine(ctx context.Context, machine *machinev1beta1.Machine, on *namedNode) (*observation, error) {
	if machine.DeletionTimestamp != nil {
		// Its Node is drained and deleted: new labels and taints would only disturb that.
		return nil, nil
	}
	observed := &observation{machine: machine, pending: r.versions.Pending(ctx, machine)}
	sets, err := r.machineSets.of(ctx, machine)
	if err != nil {
		return nil, err
	}
	for _, set := range sets {
		if err := undecodable.Check(set.MachineSet); err != nil {
			return nil, err
		}
	}
	if len(sets) == 1 {
		observed.set = sets[0]
	} else {
		observed.ambiguous = sets
	}
	if on.node != nil {
		observed.node, observed.nodeShared = on.node, on.active > 1 || !on.isOf(machine)
		observed.pending = observed.pending || r.versions.Pending(ctx, on.node)
	}
	return observed, r.observeGroup(ctx, observed, on.groupLayer)
}

// errGroups is the cause of the conflict while it is not known which NodeGroup a Node has.
var errGroups = errors.New("the capability node-groups has not started yet")

// observeGroup reads what the Node has from its NodeGroup; layer returns that if it is not nil.
func (r *Reconciler) observeGroup(ctx context.Context, observed *observation, layer func(types.UID) (plan.GroupLayer, error)) (err error) {
	if observed.node == nil || !plan.DependsOnGroup(observed.node, observed.set.declared()) {
		return nil
	}
	switch {
	case r.groups != nil:
		set := types.UID("")
		if observed.set != nil {
			set = observed.set.UID
		}
		if layer == nil {
			layer = func(set types.UID) (plan.GroupLayer, error) {
				return r.groups.Finder.GroupLayer(ctx, observed.node, set)
			}
		}
		if observed.group, err = layer(set); err != nil {
			return err
		}
	case r.awaitsGroups():
		return apierrors.NewConflict(v1alpha1.GroupVersion.WithResource("nodegroups").GroupResource(), "", errGroups)
	}
	r.guard(observed)
	return nil
}

// recheckGuard is how soon it is looked again which group guards the taints of a Node that lacks them: a NodeGroup changes without an event of its
// Nodes.
const recheckGuard = time.Minute

// guard corrects which taints the NodeGroup guards. A new Node needs no guard against a taint that its Machine was created with: the kubelet has
// registered the Node with the taint, and no Pod came before. A Node without a NodeGroup gets no taint with the effect NoExecute if the configuration
// refuses that.
func (r *Reconciler) guard(observed *observation) {
	if observed.set == nil {
		return
	}
	node, layer := observed.node, &observed.group
	if layer.Name == "" && r.refusesNoExecute {
		layer.Guarded = observed.set.declaration.LackedNoExecute(node)
	}
	if layer.Guarded.Len() > 0 && node.Annotations[ownership.AnnotationRecord] == "" && r.clock.Now().Sub(node.CreationTimestamp.Time) < newNodeAge {
		created := ownership.TaintEntries(observed.machine.Spec.Taints)
		maps.DeleteFunc(created, func(id, value string) bool { return observed.set.declaration.Desired[ownership.Taint][id] != value })
		layer.Guarded = layer.Guarded.Minus(ownership.KeysOf(created))
	}
	observed.refused = layer.Name == "" && layer.Guarded.Len() > 0
}
