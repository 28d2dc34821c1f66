package plan

import (
	"cmp"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
)

// DeleteOrder sorts Machines: those that are to be deleted first come first. It fails for a policy that is not known.
//
// Those that somebody has marked come before all others, whatever the policy: the cluster-autoscaler marks the Machine whose Node it
// has emptied. The incumbent gives a Machine that was just created the same rank under Newest. Then come those that are of no use: with an
// error, or without a Node. Only then the policy counts. Random takes those whose Nodes are not ready, and of equals the youngest:
// they have the least to lose.
func DeleteOrder(policy string, members []Member) ([]Member, error) {
	age, err := byAge(policy)
	if err != nil {
		return nil, err
	}
	ordered := slices.Clone(members)
	slices.SortFunc(ordered, func(a, b Member) int {
		return cmp.Or(
			first(a.Marked, b.Marked),
			// What another API has the authority over cannot be deleted here.
			first(!a.Elsewhere, !b.Elsewhere),
			first(a.Failed, b.Failed),
			first(!a.Linked, !b.Linked),
			age(&a, &b),
			cmp.Compare(a.Machine.Name, b.Machine.Name),
		)
	})
	return ordered, nil
}

func byAge(policy string) (func(a, b *Member) int, error) {
	oldest := func(a, b *Member) int { return a.Machine.CreationTimestamp.Compare(b.Machine.CreationTimestamp.Time) }
	newest := func(a, b *Member) int { return oldest(b, a) }
	switch machinev1beta1.MachineSetDeletePolicy(policy) {
	case machinev1beta1.OldestMachineSetDeletePolicy:
		return oldest, nil
	case machinev1beta1.NewestMachineSetDeletePolicy:
		return newest, nil
	case machinev1beta1.RandomMachineSetDeletePolicy, "":
		return func(a, b *Member) int { return cmp.Or(first(!a.Ready, !b.Ready), newest(a, b)) }, nil
	}
	return nil, fmt.Errorf("spec.deletePolicy %q is not one of Random, Newest, Oldest", policy)
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
