package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// PlanList is what `plan` shows: what would change, by MachineSet.
type PlanList struct {
	TypeMeta
	Items []MachineSetPlan `json:"items"`
	// NodeGroups are there unless MachineSets or files were named.
	NodeGroups []*NodeGroupPlan `json:"nodeGroups,omitempty"`
	// Notes are problems of whole objects.
	Notes   []string `json:"notes,omitempty"`
	Summary Summary  `json:"summary"`
}

// MachineSet is a MachineSet with its Machines. Machines without a MachineSet are in one without a name.
type MachineSet struct {
	Namespace  string           `json:"namespace,omitempty"`
	Name       string           `json:"name,omitempty"`
	Generation int64            `json:"generation,omitempty"`
	Policy     ownership.Policy `json:"policy,omitempty"`
	Paused     bool             `json:"paused"`
	// Problems are those of the template: entries that are not written to any Machine.
	Problems []plan.Problem `json:"problems,omitempty"`
	Summary  Summary        `json:"summary"`
}

// MachineSetPlan is what would change for one MachineSet.
type MachineSetPlan struct {
	MachineSet
	// Groups are the Machines with changes or problems; those with equal changes are in one group.
	Groups []Group `json:"groups"`
	// Replacement is which of the Machines a NodeGroup would replace; nil for none.
	Replacement *ReplacementPlan `json:"replacement,omitempty"`
}

// Group is Machines with the same changes and problems.
type Group struct {
	State  plan.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Drift reports whether the Nodes were as declared before and another writer changed them.
	Drift bool `json:"drift,omitempty"`
	// Nodes and Machines are names in the same order. Machines may be more: those without a Node.
	Nodes    []string       `json:"nodes"`
	Machines []string       `json:"machines"`
	Changes  []Change       `json:"changes"`
	Problems []plan.Problem `json:"problems,omitempty"`
}

// Summary counts Machines by state, and writes. The states add up to Machines.
type Summary struct {
	Machines int `json:"machines"`
	Nodes    int `json:"nodes"`
	Synced   int `json:"synced"`
	Pending  int `json:"pending"`
	Conflict int `json:"conflict"`
	Refused  int `json:"refused"`
	Held     int `json:"held"`
	// Paused are those of Held that a user has paused.
	Paused int `json:"paused"`
	// ToWrite are the Machines of any state that need a write; MachineWrites and NodeWrites are the patches.
	ToWrite       int `json:"toWrite"`
	MachineWrites int `json:"machineWrites"`
	NodeWrites    int `json:"nodeWrites"`
	// ToReplace are the Machines that a NodeGroup would replace.
	ToReplace int `json:"toReplace,omitempty"`
}

// NewPlanList returns the document of `plan`.
func NewPlanList(survey plan.Survey) PlanList {
	list := PlanList{TypeMeta: TypeMeta{APIVersion, "PlanList"}, Items: []MachineSetPlan{}, Notes: survey.Notes}
	for _, members := range byMachineSet(survey) {
		set := newMachineSetPlan(members)
		for _, item := range members.items {
			list.Summary.count(item)
		}
		// Machines without a MachineSet are shown only if there is something to say about them.
		if members.set != nil || len(set.Groups) > 0 {
			list.Items = append(list.Items, set)
		}
	}
	return list
}

// Changes reports whether anything would change.
func (l *PlanList) Changes() bool {
	return l.Summary.ToWrite+l.Summary.ToReplace > 0 || (&NodeGroupPlanList{Items: l.NodeGroups}).Changes()
}

// AddReplacement adds to a MachineSet of the list what its NodeGroup would replace. The Machines may be those of other MachineSets as well.
func (l *PlanList) AddReplacement(set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine, of *ReplacementPlan) {
	for i := range l.Items {
		if item := &l.Items[i]; of != nil && item.Namespace == set.Namespace && item.Name == set.Name {
			item.Replacement = of.of(set, machines)
			item.Summary.ToReplace = item.Replacement.count()
			l.Summary.ToReplace += item.Summary.ToReplace
		}
	}
}

// machinesOfSet are the Machines of one MachineSet; set is nil for those without one.
type machinesOfSet struct {
	set   *plan.Declaration
	items []*plan.Item
}

// byMachineSet returns the Machines of each MachineSet, in the order of the survey, and last those without one, if there are any.
func byMachineSet(survey plan.Survey) []machinesOfSet {
	all := make([]machinesOfSet, 0, len(survey.Declarations)+1)
	index := make(map[*plan.Declaration]int, len(survey.Declarations))
	for _, set := range survey.Declarations {
		index[set] = len(all)
		all = append(all, machinesOfSet{set: set})
	}
	var others machinesOfSet
	for i := range survey.Items {
		item := &survey.Items[i]
		if item.Declaration == nil {
			others.items = append(others.items, item)
			continue
		}
		at := index[item.Declaration]
		all[at].items = append(all[at].items, item)
	}
	if len(others.items) > 0 {
		all = append(all, others)
	}
	return all
}

func newMachineSet(members machinesOfSet) MachineSet {
	var out MachineSet
	if set := members.set; set != nil {
		out = MachineSet{
			Namespace: set.Key.Namespace, Name: set.Key.Name, Generation: set.Generation, Policy: set.Policy, Paused: set.Paused, Problems: set.Problems,
		}
	}
	for _, item := range members.items {
		out.Summary.count(item)
	}
	return out
}

func newMachineSetPlan(members machinesOfSet) MachineSetPlan {
	out := MachineSetPlan{MachineSet: newMachineSet(members), Groups: []Group{}}
	index := map[string]int{}
	for _, item := range members.items {
		group := newGroup(item, out.Problems)
		if len(group.Changes) == 0 && len(group.Problems) == 0 && (group.State == plan.Synced || group.State == plan.RefusedState) {
			continue
		}
		signature := group.signature()
		at, found := index[signature]
		if !found {
			at = len(out.Groups)
			index[signature] = at
			out.Groups = append(out.Groups, group)
		}
		out.Groups[at].add(item)
	}
	// Changes come before mere problems, and large groups before small ones.
	slices.SortStableFunc(out.Groups, func(a, b Group) int {
		return cmp.Or(min(len(b.Changes), 1)-min(len(a.Changes), 1), len(b.Machines)-len(a.Machines))
	})
	return out
}

// newGroup returns the group of a Machine, still without its name. Problems of the MachineSet are not repeated.
func newGroup(item *plan.Item, ofSet []plan.Problem) Group {
	decision := item.Decision
	group := Group{
		State: decision.State, Reason: reasonOf(item), Drift: decision.Drift,
		Nodes: []string{}, Machines: []string{}, Changes: append([]Change{}, changesOf(item)...),
	}
	for _, problem := range decision.Problems {
		if !slices.Contains(ofSet, problem) {
			group.Problems = append(group.Problems, problem)
		}
	}
	return group
}

// reasonOf says why a Machine is held or pending, with the reason that a user gave for a pause.
func reasonOf(item *plan.Item) string {
	if item.PausedReason == "" {
		return item.Decision.Reason
	}
	return item.Decision.Reason + ": " + item.PausedReason
}

// signature is equal for Machines of one group.
func (g Group) signature() string {
	text, err := json.Marshal(g)
	if err != nil {
		panic(fmt.Sprintf("a group of strings and booleans does not marshal: %v", err))
	}
	return string(text)
}

func (g *Group) add(item *plan.Item) {
	g.Machines = append(g.Machines, item.Machine.Name)
	if item.Node != nil {
		g.Nodes = append(g.Nodes, item.Node.Name)
	}
}

func (s *Summary) count(item *plan.Item) {
	s.Machines++
	s.Nodes += one(item.Node != nil)
	switch item.Decision.State {
	case plan.Synced:
		s.Synced++
	case plan.Conflicted:
		s.Conflict++
	case plan.RefusedState:
		s.Refused++
	case plan.Held:
		s.Held++
		s.Paused += one(item.Paused())
	default:
		s.Pending++
	}
	s.ToWrite += one(item.Writes())
	s.MachineWrites += one(item.Decision.Machine.Write)
	s.NodeWrites += one(item.Decision.Node.Write)
}

func one(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
