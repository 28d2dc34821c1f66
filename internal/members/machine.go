package members

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/paused"
)

// findMachine sets the Machine of an assignment to one of the Machines that name its Node. If several could be the Node's, it prefers, in this order,
// a Machine whose MachineSet the recorded group selects, a Machine whose MachineSet any group selects, and the oldest Machine: anyone who can make a
// Machine name a Node must not be able to take the Node out of its group and its budget.
func (f *Finder) findMachine(ctx context.Context, groups []*Group, member *Assignment, machines []machinev1beta1.Machine) error {
	found := Candidates(member.Node, machines)
	member.Shared = len(found) > 1
	best := -1
	for _, machine := range found {
		set, err := f.machineSet(ctx, machine)
		if err != nil {
			return err
		}
		rank := 0
		switch {
		case set == nil:
		case member.Recorded != nil && member.Recorded.SelectsSet(set):
			rank = 2
		case OfSet(groups, set) != nil:
			rank = 1
		}
		if rank > best {
			member.Machine, member.MachineSet, best = machine, set, rank
		}
	}
	return nil
}

// machinesOfMissing returns the Machines that name a Node that does not exist, the oldest first. If node is a disruption's MachineName, it returns
// that Machine.
func (f *Finder) machinesOfMissing(ctx context.Context, node string) ([]machinev1beta1.Machine, error) {
	if !f.machines() {
		return nil, nil
	}
	key, found := disruptionplan.ParseMachineName(node)
	if !found {
		machines, err := lookup.MachinesOfNode(ctx, f.cache, node)
		slices.SortFunc(machines, func(a, b machinev1beta1.Machine) int { return compareAge(&a, &b) })
		return machines, err
	}
	machine := machinev1beta1.Machine{}
	switch err := f.cache.Get(ctx, key, &machine); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	return []machinev1beta1.Machine{machine}, nil
}

// Candidates returns the Machines that could be a Node's, the oldest first. Machines that name the Node's UID go before others, which may mean an
// earlier Node of the same name. Next, Machines that are not being deleted go before others: a host may register again while its old Machine is still
// there.
func Candidates(node *corev1.Node, machines []machinev1beta1.Machine) []*machinev1beta1.Machine {
	found := make([]*machinev1beta1.Machine, len(machines))
	for i := range machines {
		found[i] = &machines[i]
	}
	for _, isBetter := range []func(*machinev1beta1.Machine) bool{
		func(m *machinev1beta1.Machine) bool {
			return m.Status.NodeRef != nil && m.Status.NodeRef.UID == node.UID
		},
		func(m *machinev1beta1.Machine) bool { return m.DeletionTimestamp == nil },
	} {
		if slices.ContainsFunc(found, isBetter) {
			found = slices.DeleteFunc(found, func(m *machinev1beta1.Machine) bool { return !isBetter(m) })
		}
	}
	slices.SortFunc(found, compareAge)
	return found
}

// compareAge compares Machines by age, the oldest first.
func compareAge(a, b *machinev1beta1.Machine) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

// IsChanged reports whether an update of a Machine may change the group of a Node, or what it gets from the group.
func IsChanged(before, after *machinev1beta1.Machine) bool {
	if paused.Is(before.Annotations) != paused.Is(after.Annotations) {
		return true
	}
	if before.UID != after.UID || machineapi.NodeName(before) != machineapi.NodeName(after) {
		return true
	}
	return machineapi.NodeName(after) != "" && (before.Status.NodeRef.UID != after.Status.NodeRef.UID ||
		machineapi.ControllerUID(before) != machineapi.ControllerUID(after) || !maps.Equal(before.Labels, after.Labels) ||
		before.DeletionTimestamp.IsZero() != after.DeletionTimestamp.IsZero())
}

// machineSet returns the MachineSet of a Machine, by the same rule as for the metadata of MachineSets: the MachineSet that controls it, or, for a
// Machine without a controller, the only MachineSet whose selector matches; nil for none.
func (f *Finder) machineSet(ctx context.Context, machine *machinev1beta1.Machine) (*machinev1beta1.MachineSet, error) {
	sets, err := lookup.SetsOf(ctx, f.cache, machine, func(set *machinev1beta1.MachineSet) bool { return f.membershipOf(set).Has(machine) })
	if err != nil || len(sets) != 1 {
		return nil, err
	}
	return sets[0], nil
}

// membership is the rule of a MachineSet at a resourceVersion.
type membership struct {
	machineapi.Membership

	uid     types.UID
	version string
}

// membershipOf returns the rule of a MachineSet, parsed once for each resourceVersion. One whose selector is invalid has no Machines.
func (f *Finder) membershipOf(set *machinev1beta1.MachineSet) machineapi.Membership {
	key := client.ObjectKeyFromObject(set)
	f.mu.Lock()
	defer f.mu.Unlock()
	if known, found := f.memberships[key]; found && known.uid == set.UID && known.version == set.ResourceVersion {
		return known.Membership
	}
	// To one with an invalid selector every Machine is foreign.
	parsed, _ := machineapi.MembershipOf(set)
	f.memberships[key] = membership{Membership: parsed, uid: set.UID, version: set.ResourceVersion}
	return parsed
}

// forgetSet drops the rule of a MachineSet that is gone.
func (f *Finder) forgetSet(set *machinev1beta1.MachineSet) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.memberships, client.ObjectKeyFromObject(set))
}
