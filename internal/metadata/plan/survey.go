package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

// AnnotationPausedReason says on a paused object why it is. Only people read it.
const AnnotationPausedReason = "drover.dev/paused-reason"

// Objects are the objects of a cluster as they were listed.
type Objects struct {
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	// Nodes holds the Nodes by name.
	Nodes map[string]*corev1.Node
}

// Item is one Machine with what belongs to it and what is to be done about it.
type Item struct {
	// Declaration is what its MachineSet declares, nil for a Machine without one.
	Declaration *Declaration
	Machine     *machinev1beta1.Machine
	// Node is nil for a Machine without one.
	Node *corev1.Node
	// Decision is what Decide says.
	Decision Decision
	// PausedReason is what somebody wrote down as the reason for a pause, empty for nothing.
	PausedReason string
}

// Writes tells whether there is anything to write to the Machine or its Node.
func (i Item) Writes() bool { return i.Decision.Machine.Write || i.Decision.Node.Write }

// Paused tells whether the Machine is held because somebody paused it, its pool or its Node.
func (i Item) Paused() bool {
	return i.Declaration != nil && i.Declaration.Paused || paused.Is(i.Machine.Annotations) || i.Node != nil && paused.Is(i.Node.Annotations)
}

// Survey is what is to be done about all Machines at once.
type Survey struct {
	// Declarations are all pools, also those without a Machine, by namespace and name.
	Declarations []*Declaration
	// Items are the Machines, by namespace and name. A Machine that is being deleted is left out.
	Items []Item
	// Notes say what is odd about whole objects: selectors that cannot be parsed, Machines that several pools match.
	Notes []string
}

// SurveyOf decides about every Machine, as the operator would.
func SurveyOf(objects Objects, protected ownership.Protected, now time.Time) Survey {
	s := &surveyor{
		byKey: map[types.NamespacedName]*Declaration{}, reasons: map[*Declaration]string{}, claims: claimsOf(objects.Machines),
		nodes: objects.Nodes, protected: protected, now: now,
	}
	for _, set := range sortedSets(objects.Sets) {
		s.pool(set)
	}
	for _, machine := range sortedMachines(objects.Machines) {
		if machine.DeletionTimestamp == nil {
			s.machine(machine)
		}
	}
	return s.survey
}

type surveyor struct {
	survey      Survey
	memberships []Membership
	byKey       map[types.NamespacedName]*Declaration
	reasons     map[*Declaration]string
	claims      map[string]int
	nodes       map[string]*corev1.Node
	protected   ownership.Protected
	now         time.Time
}

func (s *surveyor) pool(set *machinev1beta1.MachineSet) {
	pool := DeclarationOf(set)
	s.survey.Declarations = append(s.survey.Declarations, pool)
	s.byKey[pool.Key] = pool
	s.reasons[pool] = pausedReason(set)
	membership, err := MembershipOf(set)
	if err != nil {
		s.survey.Notes = append(s.survey.Notes, err.Error()+"; the pool has no Machines until this is corrected")
		return
	}
	s.memberships = append(s.memberships, membership)
}

func (s *surveyor) machine(machine *machinev1beta1.Machine) {
	item := Item{Machine: machine}
	if matching := Matching(s.memberships, machine); len(matching) == 1 {
		item.Declaration = s.byKey[matching[0].Set]
	} else if len(matching) > 1 {
		s.survey.Notes = append(s.survey.Notes, ambiguous(machine, matching))
	}
	name := nodeName(machine)
	item.Node = s.nodes[name]
	item.Decision = Decide(Input{
		Declaration: item.Declaration, Machine: machine, Node: item.Node, NodeShared: s.claims[name] > 1, Protected: s.protected, Now: s.now,
	})
	if item.Paused() {
		item.PausedReason = cmp.Or(s.reasons[item.Declaration], pausedReason(machine), pausedReason(item.Node))
	}
	s.survey.Items = append(s.survey.Items, item)
}

// pausedReason reads why an object is paused. A nil Node has no reason.
func pausedReason(object metav1.Object) string {
	if node, ok := object.(*corev1.Node); ok && node == nil {
		return ""
	}
	if !paused.Is(object.GetAnnotations()) {
		return ""
	}
	return object.GetAnnotations()[AnnotationPausedReason]
}

func ambiguous(machine *machinev1beta1.Machine, matching []Membership) string {
	names := make([]string, 0, len(matching))
	for _, membership := range matching {
		names = append(names, membership.Set.Name)
	}
	return fmt.Sprintf("Machine %s/%s has no controller and the selectors of several MachineSets match it (%s): it counts as without a pool",
		machine.Namespace, machine.Name, strings.Join(names, ", "))
}

// claimsOf counts how many Machines name each Node. One that is on its way out gives up its claim.
func claimsOf(machines []*machinev1beta1.Machine) map[string]int {
	claims := make(map[string]int, len(machines))
	for _, machine := range machines {
		if name := nodeName(machine); name != "" && machine.DeletionTimestamp == nil {
			claims[name]++
		}
	}
	return claims
}

func nodeName(machine *machinev1beta1.Machine) string {
	if machine.Status.NodeRef == nil {
		return ""
	}
	return machine.Status.NodeRef.Name
}

func sortedSets(sets []*machinev1beta1.MachineSet) []*machinev1beta1.MachineSet {
	return slices.SortedFunc(slices.Values(sets), func(a, b *machinev1beta1.MachineSet) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}

func sortedMachines(machines []*machinev1beta1.Machine) []*machinev1beta1.Machine {
	return slices.SortedFunc(slices.Values(machines), func(a, b *machinev1beta1.Machine) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
}
