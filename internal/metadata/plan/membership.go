package plan

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Membership is the rule by which Machines belong to a MachineSet, with the selector parsed once. Keep one for each MachineSet where many Machines
// are checked. No Machine belongs to the zero value.
type Membership struct {
	// Set is the MachineSet's namespace and name.
	Set types.NamespacedName

	uid      types.UID
	selector labels.Selector
}

// MembershipOf returns the rule of a MachineSet. It returns an error when spec.selector is invalid, which the API server does not check.
func MembershipOf(set *machinev1beta1.MachineSet) (Membership, error) {
	key := types.NamespacedName{Namespace: set.Namespace, Name: set.Name}
	selector, err := metav1.LabelSelectorAsSelector(&set.Spec.Selector)
	if err != nil {
		return Membership{Set: key}, fmt.Errorf("MachineSet %s: spec.selector: %w", key, err)
	}
	return Membership{Set: key, uid: set.UID, selector: selector}, nil
}

// Has reports whether a Machine belongs to the MachineSet: it is in the same namespace, is not being deleted, no other controller owns it, and the
// selector matches its labels. An empty selector matches nothing here, although the API defines it as everything: a MachineSet without a selector
// must not apply to every Machine of the namespace.
func (m Membership) Has(machine *machinev1beta1.Machine) bool {
	if m.selector == nil || m.selector.Empty() || machine.Namespace != m.Set.Namespace || machine.DeletionTimestamp != nil {
		return false
	}
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil && (owner.UID != m.uid || m.uid == "") {
		return false
	}
	return m.selector.Matches(labels.Set(machine.Labels))
}

// Member reports whether a Machine belongs to a MachineSet, as Membership.Has does. It returns an error when the selector is invalid.
func Member(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) (bool, error) {
	membership, err := MembershipOf(set)
	if err != nil {
		return false, err
	}
	return membership.Has(machine), nil
}

// Matching returns the rules that a Machine meets, in the given order. More than one means that the Machine has no controller and several selectors
// match it; no MachineSet applies to such a Machine.
func Matching(memberships []Membership, machine *machinev1beta1.Machine) []Membership {
	var found []Membership
	for _, membership := range memberships {
		if membership.Has(machine) {
			found = append(found, membership)
		}
	}
	return found
}
