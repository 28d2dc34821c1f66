package machineapi

import (
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Relation is the relation of a Machine to a MachineSet.
type Relation string

// The relations.
const (
	// Foreign: another object owns it, or it has no owner and the selector does not match.
	Foreign Relation = "foreign"
	// Owned: the MachineSet owns it and the selector matches.
	Owned Relation = "owned"
	// Adopt: it has no owner, and the selector matches.
	Adopt Relation = "adopt"
	// Release: the MachineSet owns it, and the selector does not match any more.
	Release Relation = "release"
	// Deleting: the MachineSet owns it, and it is being deleted. It does not count any more.
	Deleting Relation = "deleting"
)

// Membership decides which Machines belong to a MachineSet, with the selector parsed once. Keep one for each MachineSet where many Machines are
// checked. To the zero value every Machine is Foreign.
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

// Relation returns the relation of a Machine to the MachineSet.
func (m Membership) Relation(machine metav1.Object) Relation {
	owner := metav1.GetControllerOfNoCopy(machine)
	switch {
	case machine.GetNamespace() != m.Set.Namespace, owner != nil && (owner.UID != m.uid || m.uid == ""):
		return Foreign
	case machine.GetDeletionTimestamp() != nil && owner == nil:
		return Foreign
	case machine.GetDeletionTimestamp() != nil:
		return Deleting
	case m.Selects(machine) && owner != nil:
		return Owned
	case m.Selects(machine):
		return Adopt
	case owner != nil:
		return Release
	}
	return Foreign
}

// Selects reports whether the selector matches, not considering owners. An empty selector matches nothing here, although the API defines it as
// everything: a MachineSet without a selector must not apply to every Machine of the namespace.
func (m Membership) Selects(machine metav1.Object) bool {
	return m.selector != nil && !m.selector.Empty() && m.selector.Matches(labels.Set(machine.GetLabels()))
}

// Has reports whether a Machine belongs to the MachineSet: it is Owned, or to Adopt.
func (m Membership) Has(machine metav1.Object) bool {
	relation := m.Relation(machine)
	return relation == Owned || relation == Adopt
}

// Matching returns the rules that a Machine meets, in the given order. More than one means that the Machine has no controller and several selectors
// match it; no MachineSet applies to such a Machine.
func Matching(memberships []Membership, machine metav1.Object) []Membership {
	var found []Membership
	for _, membership := range memberships {
		if membership.Has(machine) {
			found = append(found, membership)
		}
	}
	return found
}

// ControllerUID returns the UID of the controller of a Machine; empty for none.
func ControllerUID(machine metav1.Object) types.UID {
	if owner := metav1.GetControllerOfNoCopy(machine); owner != nil {
		return owner.UID
	}
	return ""
}

// ConditionReady is the condition of a Machine that runs and whose Node is Ready.
const ConditionReady machinev1beta1.ConditionType = "Ready"

// NodeName returns the name of the Node in status.nodeRef; empty for none.
func NodeName(machine *machinev1beta1.Machine) string {
	if machine.Status.NodeRef == nil {
		return ""
	}
	return machine.Status.NodeRef.Name
}
