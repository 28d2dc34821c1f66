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

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

// AnnotationPausedReason is why an object is paused, for users.
const AnnotationPausedReason = "drover.dev/paused-reason"

// Objects are the objects of a cluster as they were listed.
type Objects struct {
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	// Nodes holds the Nodes by name.
	Nodes map[string]*corev1.Node
	// GroupLayerOf returns what there is of the NodeGroup of a Node; nil where there are none. GroupsUnknown is why it is not known; nil if it is.
	GroupLayerOf  func(node *corev1.Node) GroupLayer
	GroupsUnknown error
}

// Item is one Machine with what belongs to it and what is to be done about it.
type Item struct {
	// Declaration is what its MachineSet declares; nil for a Machine without one.
	Declaration *Declaration
	Machine     *machinev1beta1.Machine
	// Node is nil for a Machine without one.
	Node *corev1.Node
	// Decision is the result of Decide.
	Decision Decision
	// PausedReason is the value of AnnotationPausedReason, empty for none.
	PausedReason string
}

// Writes reports whether there is anything to write to the Machine or its Node.
func (i Item) Writes() bool { return i.Decision.Machine.Write || i.Decision.Node.Write }

// Paused reports whether the Machine, its MachineSet or its Node is paused.
func (i Item) Paused() bool {
	return i.Declaration != nil && i.Declaration.Paused || paused.Is(i.Machine.Annotations) || i.Node != nil && paused.Is(i.Node.Annotations)
}

// Survey is what is to be done about all Machines at once.
type Survey struct {
	// Declarations come from all MachineSets, also MachineSets without a Machine, by namespace and name.
	Declarations []*Declaration
	// Items are the Machines, by namespace and name. A Machine that is being deleted is left out.
	Items []Item
	// Notes are problems of whole objects: invalid selectors, Machines that several MachineSets match.
	Notes []string
}

// SurveyOf decides about every Machine, as the operator would.
func SurveyOf(objects Objects, protected ownership.Protected, now time.Time) Survey {
	s := &surveyor{
		byKey: map[types.NamespacedName]*Declaration{}, reasons: map[*Declaration]string{}, machinesByNode: countByNode(objects.Machines),
		nodes: objects.Nodes, groupLayerOf: objects.GroupLayerOf, protected: protected, now: now,
	}
	if objects.GroupsUnknown != nil {
		s.survey.Notes = append(s.survey.Notes, fmt.Sprintf("which taints NodeGroups guard is unknown: %v", objects.GroupsUnknown))
	}
	for _, set := range sortedSets(objects.Sets) {
		s.addSet(set)
	}
	s.survey.Items = make([]Item, 0, len(objects.Machines))
	for _, machine := range sortedMachines(objects.Machines) {
		if machine.DeletionTimestamp == nil {
			s.addMachine(machine)
		}
	}
	return s.survey
}

type surveyor struct {
	survey         Survey
	memberships    []machineapi.Membership
	byKey          map[types.NamespacedName]*Declaration
	reasons        map[*Declaration]string
	machinesByNode map[string]int
	nodes          map[string]*corev1.Node
	groupLayerOf   func(node *corev1.Node) GroupLayer
	protected      ownership.Protected
	now            time.Time
}

func (s *surveyor) addSet(set *machinev1beta1.MachineSet) {
	declaration := DeclarationOf(set)
	s.survey.Declarations = append(s.survey.Declarations, declaration)
	s.byKey[declaration.Key] = declaration
	s.reasons[declaration] = pausedReason(set)
	membership, err := machineapi.MembershipOf(set)
	if err != nil {
		s.survey.Notes = append(s.survey.Notes, err.Error()+"; the MachineSet has no Machines until this is corrected")
		return
	}
	s.memberships = append(s.memberships, membership)
}

func (s *surveyor) addMachine(machine *machinev1beta1.Machine) {
	item := Item{Machine: machine}
	if matching := machineapi.Matching(s.memberships, machine); len(matching) == 1 {
		item.Declaration = s.byKey[matching[0].Set]
	} else if len(matching) > 1 {
		s.survey.Notes = append(s.survey.Notes, ambiguous(machine, matching))
	}
	name := machineapi.NodeName(machine)
	item.Node = s.nodes[name]
	in := Input{
		Declaration: item.Declaration, Machine: machine, Node: item.Node, NodeShared: s.machinesByNode[name] > 1, Protected: s.protected, Now: s.now,
	}
	if s.groupLayerOf != nil && item.Node != nil && DependsOnGroup(item.Node, item.Declaration) {
		in.Group = s.groupLayerOf(item.Node)
	}
	item.Decision = Decide(in)
	if item.Paused() {
		item.PausedReason = cmp.Or(s.reasons[item.Declaration], pausedReason(machine), pausedReason(item.Node))
	}
	s.survey.Items = append(s.survey.Items, item)
}

// pausedReason returns why an object is paused. A nil Node has no reason.
func pausedReason(object metav1.Object) string {
	if node, ok := object.(*corev1.Node); ok && node == nil {
		return ""
	}
	if !paused.Is(object.GetAnnotations()) {
		return ""
	}
	return object.GetAnnotations()[AnnotationPausedReason]
}

func ambiguous(machine *machinev1beta1.Machine, matching []machineapi.Membership) string {
	names := make([]string, 0, len(matching))
	for _, membership := range matching {
		names = append(names, membership.Set.Name)
	}
	return fmt.Sprintf("Machine %s/%s has no controller and the selectors of several MachineSets match it (%s): no MachineSet applies to it",
		machine.Namespace, machine.Name, strings.Join(names, ", "))
}

// countByNode returns how many Machines that are not being deleted name each Node.
func countByNode(machines []*machinev1beta1.Machine) map[string]int {
	machinesByNode := make(map[string]int, len(machines))
	for _, machine := range machines {
		if name := machineapi.NodeName(machine); name != "" && machine.DeletionTimestamp == nil {
			machinesByNode[name]++
		}
	}
	return machinesByNode
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
