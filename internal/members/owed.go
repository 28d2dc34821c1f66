package members

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// putMachines counts all Machines and MachineSets again. The index is locked.
func (x *Index) putMachines(ctx context.Context) error {
	x.inventory = disruptionplan.NewInventory(func(node string) *corev1.Node { return x.nodes[node].node })
	if !x.finder.machines() {
		return nil
	}
	var sets machinev1beta1.MachineSetList
	var machines machinev1beta1.MachineList
	if err := x.finder.cache.List(ctx, &sets); err != nil {
		return fmt.Errorf("listing MachineSets: %w", err)
	}
	if err := x.finder.cache.List(ctx, &machines); err != nil {
		return fmt.Errorf("listing Machines: %w", err)
	}
	for i := range sets.Items {
		x.inventory.PutSet(&sets.Items[i])
	}
	for i := range machines.Items {
		x.inventory.Put(&machines.Items[i])
	}
	return nil
}

// Machines returns what the Machines of a NodeGroup show beside its Nodes, except Machines whose Node became Ready before settled. Machines that are
// being deleted or were handed over are of the group of their Node, whatever their MachineSet, and those without a Node of the group of the
// MachineSet. A Machine of another MachineSet, or of none, counts only if it is the Node's: others may name the Node, too. The error is a conflict
// while the index is not ready.
func (x *Index) Machines(ctx context.Context, group string, settled time.Time) (out disruptionplan.Machines, err error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if err := x.refresh(ctx); err != nil {
		return out, err
	}
	namespaces := maps.Clone(x.namespaces[group])
	if namespaces == nil {
		namespaces = map[string]int{}
	}
	out = x.inventory.Machines(settled, func(set *machinev1beta1.MachineSet) bool {
		if set == nil || set.DeletionTimestamp != nil || x.groupOfSet(set) != group {
			return false
		}
		namespaces[set.Namespace]++
		return true
	}, func(node string, machine types.UID, ofSet bool) bool {
		known := x.nodes[node]
		return known.group == group && (ofSet || known.machine == machine)
	})
	out.Namespaces = slices.Sorted(maps.Keys(namespaces))
	out.IsActive = func(machine types.NamespacedName, uid types.UID) bool {
		x.mu.Lock()
		defer x.mu.Unlock()
		return x.inventory.IsActive(machine, uid)
	}
	return out, nil
}

// groupOfSet returns the group of the Nodes of a MachineSet: the group of most of its Nodes. If it has none, it is the group that selects a Node with
// what its template declares.
func (x *Index) groupOfSet(set *machinev1beta1.MachineSet) string {
	if name := x.groupOfNodes(set.UID); name != "" {
		return name
	}
	template := &set.Spec.Template.Spec
	return x.groupDeclared(set.Namespace, set, metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations})
}

// groupOfNodes returns the group that has most Nodes of a MachineSet; empty for none.
func (x *Index) groupOfNodes(set types.UID) (name string) {
	counts, most := x.sets[set], 0
	if len(counts) == 1 {
		// As nearly always: with hundreds of MachineSets and groups, every decision would take a millisecond.
		for name = range counts {
			return name
		}
	}
	for _, group := range x.groups {
		if count := counts[group.Name]; count > most {
			name, most = group.Name, count
		}
	}
	return name
}

// groupDeclared returns the group that selects a MachineSet, nil for none, or a Node with the labels and annotations that are declared for it; empty
// for none. Tenants declare what they like in their namespaces: a group that has Nodes is that only where a MachineSet of the namespace has some of
// them.
func (x *Index) groupDeclared(namespace string, set *machinev1beta1.MachineSet, declared metav1.ObjectMeta) string {
	group, _ := Select(x.groups, &corev1.Node{ObjectMeta: declared}, set)
	switch {
	case group == nil:
		return ""
	case set != nil && group.SelectsSet(set), x.lists[group.Name] == nil, len(x.lists[group.Name].nodes) == 0:
		return group.Name
	}
	for uid, counts := range x.sets {
		if counts[group.Name] > 0 && x.inventory.HasSet(namespace, uid) {
			return group.Name
		}
	}
	return ""
}
