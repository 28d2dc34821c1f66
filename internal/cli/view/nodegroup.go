package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// NodeGroupPlanList is what `plan nodegroup/NAME` shows.
type NodeGroupPlanList struct {
	TypeMeta
	Items []*NodeGroupPlan `json:"items"`
}

// NewNodeGroupPlanList returns the document of `plan nodegroup/NAME`.
func NewNodeGroupPlanList() *NodeGroupPlanList {
	return &NodeGroupPlanList{TypeMeta: TypeMeta{APIVersion, "NodeGroupPlanList"}, Items: []*NodeGroupPlan{}}
}

// Changes reports whether anything would change.
func (l *NodeGroupPlanList) Changes() bool {
	return slices.ContainsFunc(l.Items, func(item *NodeGroupPlan) bool { return item.Summary.ToWrite+item.Summary.ToReplace > 0 })
}

// NodeGroupPlan is what would change for one NodeGroup.
type NodeGroupPlan struct {
	Name       string `json:"name"`
	Generation int64  `json:"generation,omitempty"`
	Suspended  bool   `json:"suspended,omitempty"`
	DryRun     bool   `json:"dryRun,omitempty"`
	// Joining are the Nodes that a file adds to the group, and Leaving those that it takes from the group.
	Joining []string `json:"joining,omitempty"`
	Leaving []string `json:"leaving,omitempty"`
	// Problems are those of the declaration: entries that no Node gets.
	Problems []plan.Problem `json:"problems,omitempty"`
	// Notes are why the group has no Nodes, or shares them with others.
	Notes []string `json:"notes,omitempty"`
	// Waves are the Nodes in the order in which a roll-out reaches them. Wave is the first that is not over; one more than there are if all are.
	Waves []Wave `json:"waves"`
	Wave  int    `json:"wave"`
	// Changes are the Nodes with changes or problems; those with equal ones are together.
	Changes []NodeChanges `json:"changes"`
	// Disruption is what spec.disruption allows now; nil without it.
	Disruption *GroupDisruption `json:"disruption,omitempty"`
	// LabelUses are Pods and PersistentVolumes that require labels which would change.
	LabelUses []LabelUse `json:"labelUses,omitempty"`
	// Guards are the Nodes that lose Pods when they get a taint with the effect NoExecute, in the order of the waves. NoExecute counts the Pods of
	// all of them; nil without such Nodes.
	Guards    []NodeGuard `json:"guards,omitempty"`
	NoExecute *NoExecute  `json:"noExecute,omitempty"`
	// Replacement is which Machines would be replaced; nil for none.
	Replacement *ReplacementPlan `json:"replacement,omitempty"`
	// AutoscaledSets are autoscaled MachineSets whose templates lack what the group declares.
	AutoscaledSets []AutoscaledSets `json:"autoscaledSets,omitempty"`
	Summary        GroupSummary     `json:"summary"`
}

// Wave is the Nodes that are changed at once.
type Wave struct {
	Nodes []string `json:"nodes"`
	// ToWrite is how many of them would change.
	ToWrite int `json:"toWrite"`
}

// NodeChanges is Nodes with the same changes and problems.
type NodeChanges struct {
	State  plan.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Drift reports whether the Nodes were as declared before and another writer changed them, Released whether they have left the group.
	Drift    bool `json:"drift,omitempty"`
	Released bool `json:"released,omitempty"`
	// ReleaseDelay is how long a Node has been out of the group when it is released; nil where that is at once.
	ReleaseDelay *metav1.Duration `json:"releaseDelay,omitempty"`
	Nodes        []string         `json:"nodes"`
	Changes      []Change         `json:"changes"`
	Problems     []plan.Problem   `json:"problems,omitempty"`
}

// LabelUse is a label of Nodes that something requires and that would change.
type LabelUse struct {
	Label string `json:"label"`
	// Nodes, Pods and Volumes are names; those of Pods are namespace/name.
	Nodes   []string `json:"nodes"`
	Pods    []string `json:"pods,omitempty"`
	Volumes []string `json:"volumes,omitempty"`
	// Confirm reports whether the roll-out waits until a user confirms that the label goes.
	Confirm bool `json:"confirm,omitempty"`
}

// GroupSummary counts Nodes by state. The states add up to Nodes. Released are Nodes that have left the group and still have something of it.
type GroupSummary struct {
	Nodes    int `json:"nodes"`
	Synced   int `json:"synced"`
	Pending  int `json:"pending"`
	Conflict int `json:"conflict"`
	Refused  int `json:"refused"`
	Held     int `json:"held"`
	Released int `json:"released"`
	// ToWrite are the Nodes that need a patch, those of Released among them.
	ToWrite int `json:"toWrite"`
	// ToReplace are the Machines that would be replaced.
	ToReplace int `json:"toReplace,omitempty"`
}

// GroupInput is what NewNodeGroupPlan depends on.
type GroupInput struct {
	Group *members.Group
	// Nodes are those of the group, with those whose record names it.
	Nodes []members.Assignment
	// Machines are those of the group's MachineSets.
	Machines GroupMachines
	// Before are the names of the Nodes that the group of the cluster has, if a file changes it; nil otherwise.
	Before    []string
	Protected ownership.Protected
	Now       time.Time
}

// Consequences are what a plan means for others than the Nodes, which may have to be looked up.
type Consequences struct {
	Group *members.Group
	// Labels are what would become of the labels of its Nodes. Unconfirmed are, by Node, those that no user has confirmed to go.
	Labels      []rollout.LabelChange
	Unconfirmed map[string][]string
	// Guarded are the Nodes that lack taints with the effect NoExecute, before or with which Pods leave.
	Guarded []GuardedNode
}

// NewNodeGroupPlan returns what would change for a NodeGroup, as the operator decides it.
func NewNodeGroupPlan(in *GroupInput) (*NodeGroupPlan, Consequences) {
	decided := members.PlanInput(in.Group, in.Nodes, in.Now, func(assignment *members.Assignment) plan.GroupDecision {
		return plan.DecideGroup(finally(assignment.Input(in.Protected, in.Now)))
	})
	decision := groupplan.Decide(decided)
	spec := &in.Group.Spec
	out := &NodeGroupPlan{
		Name: in.Group.Name, Generation: in.Group.Generation, Suspended: spec.Suspend, DryRun: spec.DryRun, Problems: in.Group.Declaration.Problems,
		Waves: []Wave{}, Wave: decision.Wave, Changes: []NodeChanges{}, Disruption: disruptionOf(in),
		Replacement: NewReplacementPlan(in), AutoscaledSets: autoscaledSets(in),
	}
	for _, condition := range decision.Conditions {
		invalid, overlaps := condition.Reason == groupplan.ReasonInvalidSelector, condition.Reason == groupplan.ReasonOverlapping
		if invalid || overlaps {
			out.Notes = append(out.Notes, condition.Message)
		}
	}
	var names []string
	waves := decided.Rollout().Waves()
	for _, wave := range waves {
		shown := Wave{Nodes: []string{}}
		for i := range wave {
			shown.Nodes = append(shown.Nodes, wave[i].Name)
			shown.ToWrite += one(wave[i].Metadata.Change.Write)
		}
		out.Waves, names = append(out.Waves, shown), append(names, shown.Nodes...)
	}
	if in.Before != nil {
		out.Joining, out.Leaving = without(names, in.Before), without(in.Before, names)
	}
	out.addNodes(in.Nodes, decided)
	c := decision.Counts
	out.Summary = GroupSummary{
		Nodes: int(c.Nodes), Synced: int(c.Synced), Pending: int(c.Pending), Conflict: int(c.Conflicts), Refused: int(c.Refused), Held: int(c.Held),
		Released: len(decided.Released), ToWrite: out.Summary.ToWrite,
		ToReplace: out.Replacement.count(),
	}
	return out, Consequences{
		Group: in.Group, Labels: decided.Rollout().LabelChanges(), Unconfirmed: decided.Rollout().UnconfirmedLabels(), Guarded: guardedNodes(in, waves),
	}
}

// without returns the names of the first list that are not in the second, sorted.
func without(names, others []string) []string {
	slices.Sort(others)
	var left []string
	for _, name := range names {
		if _, found := slices.BinarySearch(others, name); !found {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	return left
}

// addNodes adds the changes of all Nodes.
func (p *NodeGroupPlan) addNodes(nodes []members.Assignment, decided *groupplan.Input) {
	byName := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Node.Name] = nodes[i].Node
	}
	index, ending := map[string]int{}, decided.Group.DeletionTimestamp != nil
	add := func(list []rollout.Node, released bool) {
		for i := range list {
			changes := NodeChanges{Released: released}
			if delay := rollout.ReleaseDelay(decided.Group.Spec.Rollout); released && !list[i].Taken && !ending && delay > 0 {
				changes.ReleaseDelay = &metav1.Duration{Duration: delay}
			}
			p.addNode(index, byName[list[i].Name], &list[i].Metadata, changes)
		}
	}
	add(decided.Nodes, false)
	add(decided.Released, true)
	slices.SortStableFunc(p.Changes, func(a, b NodeChanges) int {
		return cmp.Or(min(len(b.Changes), 1)-min(len(a.Changes), 1), len(b.Nodes)-len(a.Nodes))
	})
}

// addNode adds the changes of one Node to those that are equal. changes say whether, and when, the Node is released.
func (p *NodeGroupPlan) addNode(index map[string]int, node *corev1.Node, decision *plan.GroupDecision, changes NodeChanges) {
	changes.State, changes.Reason, changes.Drift = decision.State, decision.Reason, decision.Drift
	changes.Nodes, changes.Changes = []string{}, append([]Change{}, changesForGroup(node, decision.Change)...)
	for _, problem := range decision.Problems {
		if !slices.Contains(p.Problems, problem) {
			changes.Problems = append(changes.Problems, problem)
		}
	}
	p.Summary.ToWrite += one(decision.Change.Write)
	quiet := changes.State == plan.Synced || changes.State == plan.RefusedState
	if len(changes.Changes) == 0 && len(changes.Problems) == 0 && (quiet || changes.Released) {
		return
	}
	signature, err := json.Marshal(changes)
	if err != nil {
		panic(fmt.Sprintf("changes of strings and booleans do not marshal: %v", err))
	}
	at, found := index[string(signature)]
	if !found {
		at = len(p.Changes)
		index[string(signature)], p.Changes = at, append(p.Changes, changes)
	}
	p.Changes[at].Nodes = append(p.Changes[at].Nodes, node.Name)
}

// AddLabelUses adds what requires the labels that would change. unconfirmed are, by Node, the labels that no user has confirmed to go.
func (p *NodeGroupPlan) AddLabelUses(uses []rollout.LabelUse, unconfirmed map[string][]string) {
	for i := range uses {
		use := &uses[i]
		for _, key := range use.Keys {
			at := slices.IndexFunc(p.LabelUses, func(known LabelUse) bool { return known.Label == key })
			if at < 0 {
				at, p.LabelUses = len(p.LabelUses), append(p.LabelUses, LabelUse{Label: key, Nodes: []string{}})
			}
			p.LabelUses[at].add(use)
			p.LabelUses[at].Confirm = p.LabelUses[at].Confirm || slices.Contains(unconfirmed[use.Node], key)
		}
	}
	slices.SortFunc(p.LabelUses, func(a, b LabelUse) int { return cmp.Compare(a.Label, b.Label) })
}

func (u *LabelUse) add(use *rollout.LabelUse) {
	if !slices.Contains(u.Nodes, use.Node) {
		u.Nodes = append(u.Nodes, use.Node)
	}
	if use.Pod != nil {
		u.Pods = append(u.Pods, use.Pod.Namespace+"/"+use.Pod.Name)
	}
	if use.Volume != nil && !slices.Contains(u.Volumes, use.Volume.Name) {
		u.Volumes = append(u.Volumes, use.Volume.Name)
	}
}

// NodeGroupStatus is a NodeGroup in `status`.
type NodeGroupStatus struct {
	Name        string         `json:"name"`
	Nodes       int32          `json:"nodes"`
	Synced      int32          `json:"synced"`
	Pending     int32          `json:"pending"`
	Conflicts   int32          `json:"conflicts"`
	Refused     int32          `json:"refused"`
	Held        int32          `json:"held"`
	Unavailable int32          `json:"unavailable"`
	Budget      *int32         `json:"budget,omitempty"`
	Phase       v1alpha1.Phase `json:"phase,omitempty"`
	Wave        string         `json:"wave,omitempty"`
	Message     string         `json:"message,omitempty"`
	Created     time.Time      `json:"created"`
	// Rollout is where its roll-out is.
	Rollout Rollout `json:"-"`
}

// NewNodeGroupStatus returns what a NodeGroup reports of itself.
func NewNodeGroupStatus(group *v1alpha1.NodeGroup) NodeGroupStatus {
	s := &group.Status
	out := NodeGroupStatus{
		Name: group.Name, Nodes: s.Nodes, Synced: s.Synced, Pending: s.Pending, Conflicts: s.Conflicts, Refused: s.Refused, Held: s.Held,
		Unavailable: s.Unavailable, Budget: s.Budget, Phase: s.Phase, Message: condition(group, v1alpha1.ConditionReady).Message,
		Created: group.CreationTimestamp.Time, Rollout: RolloutOfGroup(group),
	}
	if s.Rollout != nil {
		out.Wave = s.Rollout.Wave
	}
	return out
}

// finally returns the input for what a Node is to carry when the Pods have left that do not tolerate its taints.
func finally(in plan.GroupInput) plan.GroupInput {
	in.Guard = plan.GuardClear
	return in
}
