package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// PlanList is what `plan` shows: what would change, by MachineSet and by NodeGroup.
type PlanList struct {
	TypeMeta
	Items []MachineSetPlan `json:"items"`
	// NodeGroups are there unless only MachineSets were named.
	NodeGroups []*NodeGroupPlan `json:"nodeGroups,omitempty"`
	// Notes are problems of whole objects.
	Notes []string `json:"notes,omitempty"`
	// Summary is that of the MachineSets.
	Summary Summary `json:"summary"`
}

// NodeGroupPlanList is what `plan` shows if only NodeGroups were named.
type NodeGroupPlanList struct {
	TypeMeta
	Items []*NodeGroupPlan `json:"items"`
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

// Group is Machines, or Nodes of a NodeGroup, with the same changes and problems.
type Group struct {
	State  plan.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Drift reports whether the Nodes were as declared before and another writer changed them, Released whether they have left the NodeGroup.
	Drift    bool `json:"drift,omitempty"`
	Released bool `json:"released,omitempty"`
	// ReleaseDelay is how long a Node has been out of the NodeGroup when it is released; nil where that is at once.
	ReleaseDelay *metav1.Duration `json:"releaseDelay,omitempty"`
	// Nodes and Machines are names in the same order. Machines may be more: those without a Node. The plan of a NodeGroup has none.
	Nodes    []string       `json:"nodes"`
	Machines []string       `json:"machines,omitempty"`
	Changes  []Change       `json:"changes"`
	Problems []plan.Problem `json:"problems,omitempty"`
}

// Summary counts Machines by state, or the Nodes of a NodeGroup. The states add up to them.
type Summary struct {
	Machines int `json:"machines"`
	Nodes    int `json:"nodes"`
	Synced   int `json:"synced"`
	Pending  int `json:"pending"`
	Conflict int `json:"conflict"`
	Refused  int `json:"refused"`
	Held     int `json:"held"`
	// Paused are those of Held that a user has paused, and Released the Nodes that have left the NodeGroup and still have something of it.
	Paused   int `json:"paused"`
	Released int `json:"released"`
	// ToWrite are the Machines or Nodes of any state, and of Released, that need a write; MachineWrites and NodeWrites are the patches.
	ToWrite       int `json:"toWrite"`
	MachineWrites int `json:"machineWrites"`
	NodeWrites    int `json:"nodeWrites"`
	// ToReplace are the Machines that a NodeGroup would replace.
	ToReplace int `json:"toReplace,omitempty"`
}

// Changes reports whether anything would change.
func (s *Summary) Changes() bool { return s.ToWrite+s.ToReplace > 0 }

// NewPlanList returns the document of `plan`.
func NewPlanList(survey plan.Survey) *PlanList {
	list := &PlanList{TypeMeta: TypeMeta{APIVersion, "PlanList"}, Items: []MachineSetPlan{}, Notes: survey.Notes}
	eachMachineSet(survey, func(declaration *plan.Declaration, set MachineSet, items []*plan.Item) {
		all := grouping{known: set.Problems}
		for _, item := range items {
			list.Summary.count(item)
			node, decision := "", &item.Decision
			if item.Node != nil {
				node = item.Node.Name
			}
			all.add(Group{
				State: decision.State, Reason: reasonOf(item), Drift: decision.Drift, Changes: changesOf(item), Problems: decision.Problems,
			}, item.Machine.Name, node)
		}
		// Machines without a MachineSet are shown only if there is something to say about them.
		if declaration != nil || len(all.groups) > 0 {
			list.Items = append(list.Items, MachineSetPlan{MachineSet: set, Groups: all.sorted()})
		}
	})
	return list
}

// Changes reports whether anything would change.
func (l *PlanList) Changes() bool {
	return l.Summary.Changes() || slices.ContainsFunc(l.NodeGroups, func(group *NodeGroupPlan) bool { return group.Summary.Changes() })
}

// AddReplacement adds to a MachineSet of the list what its NodeGroup would replace. The Machines may be those of other MachineSets as well.
func (l *PlanList) AddReplacement(item *MachineSetPlan, set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine, of *ReplacementPlan) {
	item.Replacement = of.of(set, machines)
	item.Summary.ToReplace = item.Replacement.count()
	l.Summary.ToReplace += item.Summary.ToReplace
}

// eachMachineSet calls visit with each MachineSet of a survey and its Machines. Machines without one come last; their declaration is nil.
func eachMachineSet(survey plan.Survey, visit func(declaration *plan.Declaration, set MachineSet, items []*plan.Item)) {
	items := make(map[*plan.Declaration][]*plan.Item, len(survey.Declarations))
	for i := range survey.Items {
		item := &survey.Items[i]
		items[item.Declaration] = append(items[item.Declaration], item)
	}
	declarations := slices.Clone(survey.Declarations)
	if len(items[nil]) > 0 {
		declarations = append(declarations, nil)
	}
	for _, d := range declarations {
		var set MachineSet
		if d != nil {
			set = NewMachineSet(d)
		}
		for _, item := range items[d] {
			set.Summary.count(item)
		}
		visit(d, set, items[d])
	}
}

// NewMachineSet returns a MachineSet without its Machines.
func NewMachineSet(d *plan.Declaration) MachineSet {
	return MachineSet{
		Namespace: d.Key.Namespace, Name: d.Key.Name, Generation: d.Generation, Policy: d.Policy, Paused: d.Paused, Problems: d.Problems,
	}
}

// grouping puts Machines and Nodes with the same changes and problems into one group. It does not repeat the known problems.
type grouping struct {
	known  []plan.Problem
	groups []Group
	index  map[string]int
}

// add adds a Machine and its Node, or one of them, unless there is nothing to say about them.
func (g *grouping) add(group Group, machine, node string) {
	group.Nodes, group.Changes = []string{}, append([]Change{}, group.Changes...)
	group.Problems = slices.DeleteFunc(slices.Clone(group.Problems), func(problem plan.Problem) bool { return slices.Contains(g.known, problem) })
	settled := group.State == plan.Synced || group.State == plan.RefusedState || group.Released
	if len(group.Changes)+len(group.Problems) == 0 && settled {
		return
	}
	signature, err := json.Marshal(group)
	if err != nil {
		panic(fmt.Sprintf("a group of strings and booleans does not marshal: %v", err))
	}
	at, found := g.index[string(signature)]
	if !found {
		if g.index == nil {
			g.index = map[string]int{}
		}
		at = len(g.groups)
		g.index[string(signature)], g.groups = at, append(g.groups, group)
	}
	equal := &g.groups[at]
	if machine != "" {
		equal.Machines = append(equal.Machines, machine)
	}
	if node != "" {
		equal.Nodes = append(equal.Nodes, node)
	}
}

// sorted returns the groups: those with changes before those with mere problems, and large ones before small ones.
func (g *grouping) sorted() []Group {
	size := func(group Group) int { return max(len(group.Machines), len(group.Nodes)) }
	slices.SortStableFunc(g.groups, func(a, b Group) int {
		return cmp.Or(min(len(b.Changes), 1)-min(len(a.Changes), 1), size(b)-size(a))
	})
	return append([]Group{}, g.groups...)
}

// reasonOf says why a Machine is held or pending, with the reason that a user gave for a pause.
func reasonOf(item *plan.Item) string {
	if item.PausedReason == "" {
		return item.Decision.Reason
	}
	return item.Decision.Reason + ": " + item.PausedReason
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

// SummaryOf counts one Machine.
func SummaryOf(item *plan.Item) (s Summary) {
	s.count(item)
	return s
}

// Add adds counts, times over; -1 takes them away again.
func (s *Summary) Add(counts *Summary, times int) {
	for _, each := range []struct {
		to   *int
		from int
	}{
		{&s.Machines, counts.Machines}, {&s.Nodes, counts.Nodes}, {&s.Synced, counts.Synced}, {&s.Pending, counts.Pending},
		{&s.Conflict, counts.Conflict}, {&s.Refused, counts.Refused}, {&s.Held, counts.Held}, {&s.Paused, counts.Paused},
		{&s.Released, counts.Released}, {&s.ToWrite, counts.ToWrite}, {&s.MachineWrites, counts.MachineWrites},
		{&s.NodeWrites, counts.NodeWrites}, {&s.ToReplace, counts.ToReplace},
	} {
		*each.to += times * each.from
	}
}

func one(condition bool) int {
	if condition {
		return 1
	}
	return 0
}
