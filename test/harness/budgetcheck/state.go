package budgetcheck

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	upgradeplan "github.com/drover-io/drover/internal/upgrade/plan"
)

// Event is a version of a NodeGroup, a Node, a Machine or a Lease, with the revision that orders all of them.
type Event struct {
	Revision uint64
	Object   client.Object
	// Gone reports that it is the last version.
	Gone bool
}

// admittedNode identifies an admitted Node. A Node that was created again has another UID.
type admittedNode struct {
	name string
	uid  types.UID
}

// State is a NodeGroup with its Nodes and Machines at one revision.
type State struct {
	limit int
	// known returns a Node as Drover knows it; nil for the Node as it is.
	known func(name string) *corev1.Node
	// added reports that the last event has added an admission of a Ready Node, which was at admittedAt.
	added      bool
	admittedAt time.Time
	// since is the revision after which it is complete.
	since    uint64
	nodes    map[string]*corev1.Node
	machines map[string]*machinev1beta1.Machine
	// permitted are the Nodes that may be disrupted: they have an admission, or have been disrupted since they had one. admitted has the
	// admissions that count, and leasedUntil has until when leases of Nodes are held.
	permitted, admitted map[admittedNode]bool
	leasedUntil         map[string]time.Time
	// declares reports that the NodeGroup declares metadata, so that a Node that belongs to it has a record.
	declares bool
	// early are the Nodes that have been disrupted, or released for an upgrade, since before they belonged to the NodeGroup.
	early map[admittedNode]bool
	// excused are the Machines whose deletion needs no place, by name.
	excused map[string]bool
	// faults are all faults found so far, present the faults of the last revision, and trail the last events.
	faults, present, trail []string
	// most is how many Ready Nodes were disrupted at once, serving how many served when that was fewest.
	most, serving int
}

// New returns the state of a NodeGroup with a budget of so many Nodes.
func New(limit int) *State {
	return &State{
		limit: limit, nodes: map[string]*corev1.Node{}, machines: map[string]*machinev1beta1.Machine{}, permitted: map[admittedNode]bool{},
		leasedUntil: map[string]time.Time{}, early: map[admittedNode]bool{}, excused: map[string]bool{}, serving: -1,
	}
}

// Allow changes the budget: more or fewer Nodes may be disrupted from the next event on.
func (s *State) Allow(limit int) { s.limit = limit }

// KnownAs judges what is admitted by what Drover knows of Nodes: Drover does not know at once that a Node
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

// Most returns how many Ready Nodes were disrupted at once at most, and how many served when that was fewest.
func (s *State) Most() (disrupted, serving int) { return s.most, s.serving }

// See adds an event, and judges what there is after it.
func (s *State) See(e *Event) {
	s.added = false
	switch object := e.Object.(type) {
	case *v1alpha1.NodeGroup:
		s.admit(object)
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
	case *coordinationv1.Lease:
		s.lease(object, e.Gone)
	}
	if s.trail = append(s.trail, s.describe(e)); len(s.trail) > trailLength {
		s.trail = s.trail[1:]
	}
	if e.Revision > s.since {
		s.judge()
	}
}

// admit replaces what is admitted.
func (s *State) admit(group *v1alpha1.NodeGroup) {
	permitted := map[admittedNode]bool{}
	for at := range s.permitted {
		if node := s.nodes[at.name]; node != nil && node.UID == at.uid && (s.disruptionOf(node) != "" || s.leasedUntil[at.name].After(s.admittedAt)) {
			permitted[at] = true
		}
	}
	for _, r := range group.Status.Admissions {
		s.admittedAt = later(s.admittedAt, r.Time.Time)
	}
	before := s.admitted
	s.admitted, s.declares = map[admittedNode]bool{}, group.Spec.Metadata != nil
	for _, r := range group.Status.Admissions {
		at := admittedNode{r.Node, r.UID}
		permitted[at] = true
		if s.admittedAt.Sub(r.Time.Time) >= disruptionplan.AdmissionTime {
			continue // it means nothing any more
		}
		s.admitted[at] = true
		s.added = s.added || !before[at] && s.isReady(at)
	}
	s.permitted = permitted
}

// lease notes until when the lease of a Node is held.
func (s *State) lease(lease *coordinationv1.Lease, gone bool) {
	node, spec := strings.TrimPrefix(lease.Name, nodelease.Name("")), &lease.Spec
	delete(s.leasedUntil, node)
	if !gone && nodelease.HolderOf(lease) != "" && spec.RenewTime != nil && spec.LeaseDurationSeconds != nil {
		s.leasedUntil[node] = spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// trailLength is how many events before a fault are shown.
const trailLength = 12

// describe returns an event as a fault shows it.
func (s *State) describe(e *Event) string {
	text := fmt.Sprintf("%d: %T %s, gone: %t", e.Revision, e.Object, e.Object.GetName(), e.Gone)
	switch object := e.Object.(type) {
	case *v1alpha1.NodeGroup:
		text += fmt.Sprintf(", admitted: %v, permitted: %v", s.admitted, s.permitted)
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
	disrupted := s.disruptedReady()
	if len(disrupted) > s.limit && s.added {
		present = append(present, fmt.Sprintf("%d Nodes that are Ready are disrupted, and the budget is %d: %v", len(disrupted), s.limit, disrupted))
	}
	s.most = max(s.most, len(disrupted))
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
	at := admittedNode{node.Name, node.UID}
	why := s.disruptionOf(node)
	_, released := node.Annotations[upgradeplan.AnnotationReleased]
	s.early[at] = (why != "" || released) && (s.early[at] || !s.isMember(node))
	if why != "" && !s.permitted[at] && !s.early[at] {
		fault = fmt.Sprintf("Node %s is %s, and has no place in the budget", node.Name, why)
	}
	return fault, why == "" && isReady(node)
}

// disruptedReady returns the names of the Nodes that are Ready and disrupted, or may be at any moment.
func (s *State) disruptedReady() (names []string) {
	for name, node := range s.nodes {
		at := admittedNode{name, node.UID}
		isDisrupted := s.admitted[at] || s.leasedUntil[name].After(s.admittedAt) || s.permitted[at] && s.disruptionOf(node) != ""
		if isDisrupted && !s.excused[name] && s.isReady(at) {
			names = append(names, name)
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
func (s *State) isReady(at admittedNode) bool {
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
