package plan

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Membership is the rule by which one MachineSet takes Machines for its own, with the selector parsed once. Keep one per MachineSet
// where many Machines are asked about. The zero value takes no Machine.
type Membership struct {
	// Set is the MachineSet's namespace and name.
	Set types.NamespacedName

	uid      types.UID
	selector labels.Selector
}

// MembershipOf reads the rule of a MachineSet. It fails when spec.selector cannot be parsed; the API server does not check it.
func MembershipOf(set *machinev1beta1.MachineSet) (Membership, error) {
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return Membership{Set: key}, fmt.Errorf("MachineSet %s: spec.selector: %w", key, err)
	}
	return Membership{Set: key, uid: set.UID, selector: selector}, nil
}

// Has tells whether a Machine belongs to the MachineSet: it is in the same namespace, it is not being deleted, no other controller
// owns it, and the selector matches the labels of its own metadata. An empty selector matches nothing here, although the API reads
// it as everything: a set that forgot its selector must not take every Machine of the namespace.
func (m Membership) Has(machine *machinev1beta1.Machine) bool {
	if m.selector == nil || m.selector.Empty() || machine.Namespace != m.Set.Namespace || machine.DeletionTimestamp != nil {
		return false
	}
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil && (owner.UID != m.uid || m.uid == "") {
		return false
	}
	return m.selector.Matches(labels.Set(machine.Labels))
}

// Member tells whether a Machine belongs to a MachineSet, by the rule of Membership.Has. It fails when the set's selector cannot be
// parsed.
func Member(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) (bool, error) {
	membership, err := MembershipOf(set)
	if err != nil {
		return false, err
	}
	return membership.Has(machine), nil
}

// Matching lists the rules that take a Machine for their own, in the order given. More than one means that the Machine has no
// controller and several selectors match it; such a Machine has no pool, since nothing tells whose it is.
func Matching(memberships []Membership, machine *machinev1beta1.Machine) []Membership {
	var found []Membership
	for _, membership := range memberships {
		if membership.Has(machine) {
			found = append(found, membership)
		}
	}
	return found
}
