package view

import (
	"cmp"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

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
	Changes []Group `json:"changes"`
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
	Summary        Summary          `json:"summary"`
	// Consequences is what may have to be looked up to complete the plan.
	Consequences Consequences `json:"-"`
}

// Wave is the Nodes that are changed at once.
type Wave struct {
	Nodes []string `json:"nodes"`
	// ToWrite is how many of them would change.
	ToWrite int `json:"toWrite"`
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

// Consequences are what a plan means for others than the Nodes.
type Consequences struct {
	group *members.Group
	// Labels are what would become of the labels of its Nodes. Unconfirmed are, by Node, those that no user has confirmed to go.
	Labels      []rollout.LabelChange
	Unconfirmed map[string][]string
	// Guarded are the Nodes that lack taints with the effect NoExecute, before or with which Pods leave.
	Guarded []GuardedNode
}

// NewNodeGroupPlan returns what would change for a NodeGroup, as the operator decides it.
func NewNodeGroupPlan(in *GroupInput) *NodeGroupPlan {
	decided := members.PlanInput(in.Group, in.Nodes, in.Now, func(assignment *members.Assignment) plan.GroupDecision {
		return plan.DecideGroup(finally(assignment.Input(in.Protected, in.Now)))
	})
	decision := groupplan.Decide(decided)
	spec, waves, c := &in.Group.Spec, decided.Rollout().PreviewWaves(), decision.Counts
	out := &NodeGroupPlan{
		Name: in.Group.Name, Generation: in.Group.Generation, Suspended: spec.Suspend, DryRun: spec.DryRun, Problems: in.Group.Declaration.Problems,
		Waves: []Wave{}, Wave: decision.Wave, Disruption: disruptionOf(in), Replacement: NewReplacementPlan(in), AutoscaledSets: autoscaledSets(in),
		Summary: Summary{
			Nodes: int(c.Nodes), Synced: int(c.Synced), Pending: int(c.Pending), Conflict: int(c.Conflicts), Refused: int(c.Refused), Held: int(c.Held),
			Released: len(decided.Released),
		},
		Consequences: Consequences{
			group: in.Group, Labels: decided.Rollout().LabelChanges(), Unconfirmed: decided.Rollout().UnconfirmedLabels(), Guarded: guardedNodes(in, waves),
		},
	}
	out.Summary.ToReplace = out.Replacement.count()
	for _, condition := range decision.Conditions {
		if condition.Reason == groupplan.ReasonInvalidSelector || condition.Reason == groupplan.ReasonOverlapping {
			out.Notes = append(out.Notes, condition.Message)
		}
	}
	var names []string
	for _, wave := range waves {
		shown := Wave{Nodes: []string{}}
		for i := range wave {
			shown.Nodes = append(shown.Nodes, wave[i].Name)
			shown.ToWrite += one(wave[i].Metadata.Change.Write)
		}
		out.Waves, names = append(out.Waves, shown), append(names, shown.Nodes...)
	}
	if in.Before != nil {
		before, after := sets.New(in.Before...), sets.New(names...)
		out.Joining, out.Leaving = sets.List(after.Difference(before)), sets.List(before.Difference(after))
	}
	out.addNodes(in.Nodes, decided)
	return out
}

// addNodes adds the changes of all Nodes.
func (p *NodeGroupPlan) addNodes(nodes []members.Assignment, decided *groupplan.Input) {
	byName := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Node.Name] = nodes[i].Node
	}
	all := grouping{known: p.Problems}
	delay, ending := rollout.ReleaseDelay(decided.Group.Spec.Rollout), decided.Group.DeletionTimestamp != nil
	add := func(node *rollout.Node, released bool) {
		decision := &node.Metadata
		group := Group{
			State: decision.State, Reason: decision.Reason, Drift: decision.Drift, Released: released, Problems: decision.Problems,
			Changes: changesForGroup(byName[node.Name], decision.Change),
		}
		if released && !node.Taken && !ending && delay > 0 {
			group.ReleaseDelay = &metav1.Duration{Duration: delay}
		}
		p.Summary.ToWrite += one(decision.Change.Write)
		all.add(group, "", node.Name)
	}
	for i := range decided.Nodes {
		add(&decided.Nodes[i], false)
	}
	for i := range decided.Released {
		add(&decided.Released[i], true)
	}
	p.Changes, p.Summary.NodeWrites = all.sorted(), p.Summary.ToWrite
}

// AddLabelUses adds what requires the labels that would change.
func (p *NodeGroupPlan) AddLabelUses(uses []rollout.LabelUse) {
	for i := range uses {
		use := &uses[i]
		for _, key := range use.Keys {
			at := slices.IndexFunc(p.LabelUses, func(known LabelUse) bool { return known.Label == key })
			if at < 0 {
				at, p.LabelUses = len(p.LabelUses), append(p.LabelUses, LabelUse{Label: key, Nodes: []string{}})
			}
			p.LabelUses[at].add(use)
			p.LabelUses[at].Confirm = p.LabelUses[at].Confirm || slices.Contains(p.Consequences.Unconfirmed[use.Node], key)
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
