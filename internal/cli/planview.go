package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/drover-io/drover/internal/metadata/plan"
)

// planOf makes the document of `plan` from a survey of the chosen pools.
func planOf(survey plan.Survey) PlanList {
	list := PlanList{TypeMeta: TypeMeta{APIVersion, "PlanList"}, Items: []PoolPlan{}, Notes: survey.Notes}
	for _, members := range byPool(survey) {
		pool := poolPlan(members)
		list.Summary.add(pool.Summary)
		// Machines without a pool are only worth a section when there is something to say about them.
		if members.pool != nil || len(pool.Groups) > 0 {
			list.Items = append(list.Items, pool)
		}
	}
	return list
}

// members are the Machines of one pool; pool is nil for those without one.
type members struct {
	pool  *plan.Declaration
	items []plan.Item
}

// byPool sorts the Machines to their pools, in the order of the survey; Machines without a pool come last, if there are any.
func byPool(survey plan.Survey) []members {
	all := make([]members, 0, len(survey.Declarations)+1)
	index := make(map[*plan.Declaration]int, len(survey.Declarations))
	for _, pool := range survey.Declarations {
		index[pool] = len(all)
		all = append(all, members{pool: pool})
	}
	loose := members{}
	for _, item := range survey.Items {
		if item.Declaration == nil {
			loose.items = append(loose.items, item)
			continue
		}
		at := index[item.Declaration]
		all[at].items = append(all[at].items, item)
	}
	if len(loose.items) > 0 {
		all = append(all, loose)
	}
	return all
}

func poolPlan(members members) PoolPlan {
	out := PoolPlan{Groups: []Group{}}
	if pool := members.pool; pool != nil {
		out.Namespace, out.Name, out.Generation = pool.Key.Namespace, pool.Key.Name, pool.Generation
		out.Policy, out.Paused, out.Problems = pool.Policy, pool.Paused, pool.Problems
	}
	index := map[string]int{}
	for _, item := range members.items {
		out.Summary.count(item)
		group := groupOf(item, out.Problems)
		if len(group.Changes) == 0 && len(group.Problems) == 0 && (group.State == plan.Synced || group.State == plan.RefusedState) {
			continue
		}
		signature := group.signature()
		at, ok := index[signature]
		if !ok {
			at = len(out.Groups)
			index[signature] = at
			out.Groups = append(out.Groups, group)
		}
		out.Groups[at].join(item)
	}
	slices.SortStableFunc(out.Groups, compareGroups)
	return out
}

// groupOf makes the group of one Machine, still without its name. What is wrong with the pool itself is not repeated.
func groupOf(item plan.Item, ofPool []plan.Problem) Group {
	decision := item.Decision
	group := Group{
		State: decision.State, Reason: reasonOf(item), Drift: decision.Drift,
		Nodes: []string{}, Machines: []string{}, Changes: linesOf(item),
	}
	if group.Changes == nil {
		group.Changes = []Line{}
	}
	for _, problem := range decision.Problems {
		if !slices.Contains(ofPool, problem) {
			group.Problems = append(group.Problems, problem)
		}
	}
	return group
}

// reasonOf says why a Machine is held or pending, with what somebody wrote down when pausing it.
func reasonOf(item plan.Item) string {
	if item.PausedReason == "" {
		return item.Decision.Reason
	}
	return item.Decision.Reason + ": " + item.PausedReason
}

// signature is equal for Machines that belong into one group.
func (g Group) signature() string {
	text, err := json.Marshal(g)
	if err != nil {
		// Strings and booleans always marshal.
		panic(fmt.Sprintf("plugin: a group does not marshal: %v", err))
	}
	return string(text)
}

func (g *Group) join(item plan.Item) {
	g.Machines = append(g.Machines, item.Machine.Name)
	if item.Node != nil {
		g.Nodes = append(g.Nodes, item.Node.Name)
	}
}

// compareGroups puts changes before mere problems and large groups before small ones.
func compareGroups(a, b Group) int {
	changes := func(g Group) int { return min(len(g.Changes), 1) }
	return cmp.Or(cmp.Compare(changes(b), changes(a)), cmp.Compare(len(b.Machines), len(a.Machines)))
}

// count adds one Machine.
func (s *Summary) count(item plan.Item) {
	s.Machines++
	if item.Node != nil {
		s.Nodes++
	}
	switch item.Decision.State {
	case plan.Synced:
		s.Synced++
	case plan.Conflicted:
		s.Conflict++
	case plan.RefusedState:
		s.Refused++
	case plan.Held:
		s.Held++
		if item.Paused() {
			s.Paused++
		}
	default:
		s.Pending++
	}
	if item.Writes() {
		s.ToWrite++
	}
	if item.Decision.Machine.Write {
		s.MachineWrites++
	}
	if item.Decision.Node.Write {
		s.NodeWrites++
	}
}

func (s *Summary) add(more Summary) {
	s.Machines += more.Machines
	s.Nodes += more.Nodes
	s.Synced += more.Synced
	s.Pending += more.Pending
	s.Conflict += more.Conflict
	s.Refused += more.Refused
	s.Held += more.Held
	s.Paused += more.Paused
	s.ToWrite += more.ToWrite
	s.MachineWrites += more.MachineWrites
	s.NodeWrites += more.NodeWrites
}
