package budgetcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// Event is a version of a NodeGroup, a Node or a Machine, with the revision that orders all of them.
type Event struct {
	Revision uint64
	Object   client.Object
	// Gone reports that it is the last version.
	Gone bool
}

// reservedNode identifies a Node that is reserved: one that was created again has another UID.
type reservedNode struct {
	name string
	uid  types.UID
}

// State is a NodeGroup with its Nodes and Machines at one revision.
type State struct {
	limit int
	// known returns a Node as Drover knows it; nil for the Node as it is.
	known func(name string) *corev1.Node
	// added reports that the last event has added a reservation.
	added bool
	// since is the revision after which it is complete.
	since    uint64
	nodes    map[string]*corev1.Node
	machines map[string]*machinev1beta1.Machine
	reserved map[reservedNode][]string
	// declares reports that the NodeGroup declares metadata, so that a Node that belongs to it has a record.
	declares bool
	// early are the Nodes that have been disrupted, or released for an upgrade, since before they belonged to the NodeGroup.
	early map[reservedNode]bool
	// excused are the Machines whose deletion needs no place, by name.
	excused map[string]bool
	// faults are those that have been found, present those of the last revision, and trail the last events.
	faults, present, trail []string
	// most is how many Nodes were reserved at once, serving how many served when that was fewest.
	most, serving int
}

// New returns the state of a NodeGroup with a budget of so many Nodes.
func New(limit int) *State {
	return &State{
		limit: limit, nodes: map[string]*corev1.Node{}, machines: map[string]*machinev1beta1.Machine{}, reserved: map[reservedNode][]string{},
		early: map[reservedNode]bool{}, excused: map[string]bool{}, serving: -1,
	}
}

// Allow changes the budget: more or fewer Nodes may be reserved from the next event on.
func (s *State) Allow(limit int) { s.limit = limit }

// KnownAs judges what is reserved by what Drover knows of Nodes, and only when one more is reserved: Drover does not know at once that a Node
// has become Ready, or NotReady. known returns a Node as Drover knows it, nil for none.
func (s *State) KnownAs(known func(name string) *corev1.Node) { s.known = known }

// Since has the state judged after a revision only: until then it is not complete.
func (s *State) Since(revision uint64) { s.since = max(s.since, revision) }

// Excuse lets a Machine be deleted without a place, with its Node, since Drover does not disrupt it: a user deletes it, or has fewer replicas.
func (s *State) Excuse(machine string) { s.excused[machine] = true }

// Faults returns what has been found since the last call.
func (s *State) Faults() []string {
	found := s.faults
	s.faults = nil
	return found
}

// Most returns how many Nodes were reserved at once at most, and how many served when that was fewest.
func (s *State) Most() (reserved, serving int) { return s.most, s.serving }

// See adds an event, and judges what there is after it.
func (s *State) See(e *Event) {
	s.added = false
	switch object := e.Object.(type) {
	case *v1alpha1.NodeGroup:
		s.reserve(object)
	case *corev1.Node:
		s.nodes[object.Name] = object
		if e.Gone {
			delete(s.nodes, object.Name)
		}
	case *machinev1beta1.Machine:
		s.machines[object.Name] = object
		if e.Gone {
			delete(s.machines, object.Name)
		}
	}
	if s.trail = append(s.trail, s.describe(e)); len(s.trail) > trailLength {
		s.trail = s.trail[1:]
	}
	if e.Revision > s.since {
		s.judge()
	}
}

// reserve replaces what is reserved.
func (s *State) reserve(group *v1alpha1.NodeGroup) {
	before := s.reserved
	s.reserved, s.declares = map[reservedNode][]string{}, group.Spec.Metadata != nil
	for _, r := range group.Status.Reservations {
		at := reservedNode{r.Node, r.UID}
		s.reserved[at] = append(s.reserved[at], string(r.Capability))
		s.added = s.added || before[at] == nil && s.isReady(at)
	}
}

// trailLength is how many events before a fault are shown.
const trailLength = 12

// describe returns an event as a fault shows it.
func (s *State) describe(e *Event) string {
	text := fmt.Sprintf("%d: %T %s, gone: %t", e.Revision, e.Object, e.Object.GetName(), e.Gone)
	switch object := e.Object.(type) {
	case *v1alpha1.NodeGroup:
		text += fmt.Sprintf(", reserved: %v", s.reserved)
	case *corev1.Node:
		text += fmt.Sprintf(", cordoned: %t, ready: %t", object.Spec.Unschedulable, isReady(object))
	case *machinev1beta1.Machine:
		text += fmt.Sprintf(", deleted: %t", object.DeletionTimestamp != nil)
	}
	return text
}

// judge records the faults of the last event that the one before it did not have.
func (s *State) judge() {
	var present []string
	if ready := s.reservedReady(); len(ready) > s.limit && (s.added || s.known == nil) {
		present = append(present, fmt.Sprintf("%d Nodes that are Ready are reserved, and the budget is %d: %v", len(ready), s.limit, ready))
	}
	s.most = max(s.most, len(s.reserved))
	serving := 0
	for _, name := range slices.Sorted(maps.Keys(s.nodes)) {
		fault, serves := s.judgeNode(s.nodes[name])
		if serves {
			serving++
		}
		if fault != "" {
			present = append(present, fault)
		}
	}
	if s.serving < 0 || serving < s.serving {
		s.serving = serving
	}
	for _, fault := range present {
		if !slices.Contains(s.present, fault) {
			s.faults = append(s.faults, fmt.Sprintf("%s; the last events are\n%s", fault, strings.Join(s.trail, "\n")))
		}
	}
	s.present = present
}

// judgeNode returns what is wrong with a Node, and reports whether it serves.
func (s *State) judgeNode(node *corev1.Node) (fault string, serves bool) {
	at := reservedNode{node.Name, node.UID}
	why := s.disruptionOf(node)
	_, released := node.Annotations[upgradeplan.AnnotationReleased]
	s.early[at] = (why != "" || released) && (s.early[at] || !s.isMember(node))
	if _, reserved := s.reserved[at]; why != "" && !reserved && !s.early[at] {
		fault = fmt.Sprintf("Node %s is %s, and has no place in the budget", node.Name, why)
	}
	return fault, why == "" && isReady(node)
}

// reservedReady returns the names of the Nodes that are reserved and Ready. A Node that is gone keeps its place until there is another one for it.
func (s *State) reservedReady() (names []string) {
	for at := range s.reserved {
		if s.isReady(at) {
			names = append(names, at.name)
		}
	}
	slices.Sort(names)
	return names
}

// isMember reports whether Drover knows that a Node belongs to the NodeGroup: its Machine names it, and it carries a record of what is declared.
func (s *State) isMember(node *corev1.Node) bool {
	machine, found := s.machines[node.Name]
	_, recorded := node.Annotations[ownership.AnnotationGroupRecord]
	return (!found || machine.Status.NodeRef != nil) && (recorded || !s.declares)
}

// disruptionOf returns how a Node is disrupted; empty if it is not.
func (s *State) disruptionOf(node *corev1.Node) string {
	switch {
	case s.excused[node.Name]:
		return ""
	case s.machines[node.Name] != nil && s.machines[node.Name].DeletionTimestamp != nil:
		return "deleted with its Machine"
	case node.Spec.Unschedulable: // also while the machine-config-operator updates it
		return "cordoned"
	}
	return ""
}

// isReady reports whether a Node is there and Ready, as far as Drover knows.
func (s *State) isReady(at reservedNode) bool {
	node := s.nodes[at.name]
	if s.known != nil {
		node = s.known(at.name)
	}
	return node != nil && node.UID == at.uid && isReady(node)
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}
