package plan

import (
	"cmp"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
)

// DeleteOrder sorts Machines in the order of their deletion. It returns an error for an unknown policy.
//
// Marked Machines come first, whatever the policy: the cluster-autoscaler marks the Machine whose Node it has drained. (machine-api-operator gives a
// Machine that was just created the same rank under the policy Newest.) Next come Machines that are of no use: with an error, or without a Node. The
// policy decides about the rest. Random prefers Machines whose Nodes are not ready, and among equals the youngest, because they run the least.
func DeleteOrder(policy string, members []Member) ([]Member, error) {
	age, err := byAge(policy)
	if err != nil {
		return nil, err
	}
	ordered := slices.Clone(members)
	slices.SortFunc(ordered, func(a, b Member) int {
		return cmp.Or(
			first(a.Marked, b.Marked),
			// The Machine API cannot delete what another API has the authority over.
			first(!a.OtherAPI, !b.OtherAPI),
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

// first orders true before false.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}
