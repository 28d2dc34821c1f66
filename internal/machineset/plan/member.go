package plan

import (
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/internal/paused"
)

// MembershipOf returns the rule that decides which Machines belong to a MachineSet. The API server does not validate the selector. The error says
// that the selector is invalid, selects every Machine, or does not select the Machines of the template.
func MembershipOf(set *machinev1beta1.MachineSet) (machineapi.Membership, error) {
	path := field.NewPath("spec", "selector")
	from := &set.Spec.Selector
	if len(from.MatchLabels)+len(from.MatchExpressions) == 0 {
		return machineapi.Membership{}, fmt.Errorf("%s is empty, which would select every Machine", path)
	}
	if faults := validation.ValidateLabelSelector(from, validation.LabelSelectorValidationOptions{}, path); len(faults) > 0 {
		return machineapi.Membership{}, faults.ToAggregate()
	}
	membership, err := machineapi.MembershipOf(set)
	if err == nil && !membership.Selects(&metav1.ObjectMeta{Labels: set.Spec.Template.Labels}) {
		err = fmt.Errorf("%s does not match spec.template.metadata.labels: no Machine that the set creates would be its own", path)
	}
	return membership, err
}

// Member is a Machine of a MachineSet, with everything that a decision depends on.
type Member struct {
	Machine *machinev1beta1.Machine
	// Marked reports that an annotation marks it as the next to delete.
	Marked bool
	// Failed reports that it has an error, or is in the phase Failed.
	Failed bool
	// Linked reports that it names a Node.
	Linked bool
	// Ready reports that its Node exists and is ready; AvailableAt is since when, or from when on, it counts as available.
	Ready       bool
	AvailableAt time.Time
	// Labelled reports that it has all labels of the template.
	Labelled bool
	// OtherAPI reports that another API has the authority over it.
	OtherAPI bool
	// Joining reports that it has yet to be adopted.
	Joining bool
}

// isMarked reports whether a Machine is marked as the next to delete. The mark that Drover sets before it replaces a Machine has no effect once the
// template is undone, also before it is removed: otherwise the MachineSet would delete the Machine that it is to keep.
func isMarked(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) bool {
	return machineapi.IsMarkedByOthers(machine) || machineapi.HasDeletionMark(machine) && machineapi.TemplateOf(set).Outdates(machine)
}

// Available reports whether its Node has been ready for spec.minReadySeconds.
func (m *Member) Available(now time.Time) bool { return m.Ready && !m.AvailableAt.After(now) }

func memberOf(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine, readiness map[string]*corev1.NodeCondition) Member {
	m := Member{
		Machine: machine, Marked: isMarked(set, machine), Failed: machineapi.HasFailed(machine), Labelled: true, OtherAPI: ofOtherAPI(machine),
	}
	for key, value := range set.Spec.Template.Labels {
		if got, ok := machine.Labels[key]; !ok || got != value {
			m.Labelled = false
		}
	}
	if machine.Status.NodeRef == nil {
		return m
	}
	m.Linked = true
	ready := readiness[machine.Status.NodeRef.Name]
	if ready != nil && ready.Status == corev1.ConditionTrue {
		m.Ready = true
		m.AvailableAt = ready.LastTransitionTime.Add(bounded.Seconds(set.Spec.MinReadySeconds))
	}
	return m
}

func ofOtherAPI(machine *machinev1beta1.Machine) bool {
	api := machine.Status.AuthoritativeAPI
	return api != "" && api != machinev1beta1.MachineAuthorityMachineAPI
}

// Paused reports whether an annotation pauses a MachineSet or a Machine.
func Paused(object metav1.Object) bool { return paused.By(object) != "" }

// Selects reports whether the selector of a MachineSet is valid and matches a Machine.
func Selects(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) bool {
	membership, err := MembershipOf(set)
	return err == nil && membership.Selects(machine)
}

// Readiness returns the condition Ready of a Node; nil where there is none.
func Readiness(node *corev1.Node) *corev1.NodeCondition {
	return nodestate.Condition(node, corev1.NodeReady)
}

// SameReadiness reports whether two versions of a Node are equal in everything that matters to a MachineSet. Heartbeats do not.
func SameReadiness(before, after *corev1.Node) bool {
	a, b := Readiness(before), Readiness(after)
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// SameHealth reports whether two versions of a Machine are equal in everything that matters to its MachineSet, labels and owners aside.
func SameHealth(before, after *machinev1beta1.Machine) bool {
	return machineapi.NodeName(before) == machineapi.NodeName(after) && fault(before) == fault(after) &&
		machineapi.HasFailed(before) == machineapi.HasFailed(after) && machineapi.IsInPhaseFailed(before) == machineapi.IsInPhaseFailed(after) &&
		ofOtherAPI(before) == ofOtherAPI(after) && Paused(before) == Paused(after)
}
