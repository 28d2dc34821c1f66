package plan

import (
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/paused"
)

// Standing is how a Machine stands to a MachineSet.
type Standing string

// The standings.
const (
	// Foreign: it is somebody else's, or nobody's and not selected.
	Foreign Standing = "foreign"
	// Counted: it is the set's own.
	Counted Standing = "counted"
	// Adopt: nobody owns it, and the set selects it.
	Adopt Standing = "adopt"
	// Release: the set owns it, and does not select it any more.
	Release Standing = "release"
	// Leaving: the set owns it, and it is being deleted. It does not count any more.
	Leaving Standing = "leaving"
)

// StandingOf tells how a Machine stands to a MachineSet with a selector that SelectorOf has accepted.
func StandingOf(set *machinev1beta1.MachineSet, selector labels.Selector, machine *machinev1beta1.Machine) Standing {
	owner := metav1.GetControllerOfNoCopy(machine)
	switch {
	case machine.Namespace != set.Namespace, owner != nil && owner.UID != set.UID:
		return Foreign
	case machine.DeletionTimestamp != nil && owner == nil:
		return Foreign
	case machine.DeletionTimestamp != nil:
		return Leaving
	}
	switch selected := selector.Matches(labels.Set(machine.Labels)); {
	case owner != nil && selected:
		return Counted
	case owner != nil:
		return Release
	case selected:
		return Adopt
	}
	return Foreign
}

// SelectorOf reads the selector of a MachineSet. The API server does not check it: one that is not valid, that selects everything, or
// that does not select what the template makes fails with the text for the user.
func SelectorOf(set *machinev1beta1.MachineSet) (labels.Selector, error) {
	path := field.NewPath("spec", "selector")
	from := &set.Spec.Selector
	if len(from.MatchLabels)+len(from.MatchExpressions) == 0 {
		return nil, fmt.Errorf("%s is empty, which would select every Machine", path)
	}
	if faults := validation.ValidateLabelSelector(from, validation.LabelSelectorValidationOptions{}, path); len(faults) > 0 {
		return nil, faults.ToAggregate()
	}
	selector, err := metav1.LabelSelectorAsSelector(from)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		return nil, fmt.Errorf("%s does not match spec.template.metadata.labels: no Machine that the set creates would be its own", path)
	}
	return selector, nil
}

// Member is one of a set's Machines, with all that is decided by.
type Member struct {
	Machine *machinev1beta1.Machine
	// Marked tells that somebody has chosen it to be deleted next.
	Marked bool
	// Failed tells that it has an error, or is in the phase Failed.
	Failed bool
	// Linked tells that it names a Node.
	Linked bool
	// Ready tells that its Node is there and ready; AvailableAt is since when, or from when on, it counts as available.
	Ready       bool
	AvailableAt time.Time
	// Labelled tells that it has all labels of the template.
	Labelled bool
	// Elsewhere tells that another API has the authority over it.
	Elsewhere bool
	// Joining tells that it has yet to be adopted.
	Joining bool
}

// Available tells whether it has been ready for long enough.
func (m *Member) Available(now time.Time) bool { return m.Ready && !m.AvailableAt.After(now) }

func memberOf(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine, nodes map[string]*corev1.Node) Member {
	m := Member{Machine: machine, Marked: Marked(machine), Failed: failed(machine), Labelled: true, Elsewhere: elsewhere(machine)}
	for key, value := range set.Spec.Template.Labels {
		if got, ok := machine.Labels[key]; !ok || got != value {
			m.Labelled = false
		}
	}
	if machine.Status.NodeRef == nil {
		return m
	}
	m.Linked = true
	ready := readiness(nodes[machine.Status.NodeRef.Name])
	if ready != nil && ready.Status == corev1.ConditionTrue {
		m.Ready = true
		m.AvailableAt = ready.LastTransitionTime.Add(bounded.Seconds(set.Spec.MinReadySeconds))
	}
	return m
}

// readiness finds the condition Ready; nil where there is none.
func readiness(node *corev1.Node) *corev1.NodeCondition {
	if node == nil {
		return nil
	}
	for i := range node.Status.Conditions {
		if node.Status.Conditions[i].Type == corev1.NodeReady {
			return &node.Status.Conditions[i]
		}
	}
	return nil
}

// Marked tells whether somebody has marked a Machine as the one to be deleted next. An annotation without a value counts, too: the incumbent
// overlooks it, and deletes another Machine.
func Marked(machine *machinev1beta1.Machine) bool {
	_, now := machine.Annotations[DeleteAnnotation]
	_, before := machine.Annotations[OldDeleteAnnotation]
	return now || before
}

func failed(machine *machinev1beta1.Machine) bool {
	s := &machine.Status
	return s.ErrorReason != nil && *s.ErrorReason != "" || s.ErrorMessage != nil && *s.ErrorMessage != "" || inPhaseFailed(machine)
}

func inPhaseFailed(machine *machinev1beta1.Machine) bool {
	return machine.Status.Phase != nil && *machine.Status.Phase == machinev1beta1.PhaseFailed
}

func elsewhere(machine *machinev1beta1.Machine) bool {
	api := machine.Status.AuthoritativeAPI
	return api != "" && api != machinev1beta1.MachineAuthorityMachineAPI
}

// Paused reports whether an annotation pauses a MachineSet or a Machine.
func Paused(object metav1.Object) bool { return paused.By(object) != "" }

// Selects tells whether the selector of a MachineSet is valid and matches a Machine.
func Selects(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) bool {
	selector, err := SelectorOf(set)
	return err == nil && selector.Matches(labels.Set(machine.Labels))
}

// SameReadiness tells whether two versions of a Node are equal in all that counts for a MachineSet. Heartbeats are not looked at.
func SameReadiness(before, after *corev1.Node) bool {
	a, b := readiness(before), readiness(after)
	if a == nil || b == nil {
		return a == b
	}
	return a.Status == b.Status && a.LastTransitionTime.Equal(&b.LastTransitionTime)
}

// SameHealth tells whether two versions of a Machine are equal in all that counts for its MachineSet beside labels and owners.
func SameHealth(before, after *machinev1beta1.Machine) bool {
	node := func(m *machinev1beta1.Machine) string {
		if m.Status.NodeRef == nil {
			return ""
		}
		return m.Status.NodeRef.Name
	}
	return node(before) == node(after) && fault(before) == fault(after) && failed(before) == failed(after) &&
		inPhaseFailed(before) == inPhaseFailed(after) && elsewhere(before) == elsewhere(after) && Paused(before) == Paused(after)
}
