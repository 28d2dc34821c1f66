package plan

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Input is all that Decide depends on. The objects are not changed.
type Input struct {
	Group *v1alpha1.NodeGroup
	// SelectorError is why a selector is invalid; nil for none.
	SelectorError error
	// Declaration is what the group's Nodes are to carry.
	Declaration *metadataplan.Declaration
	// Nodes are those of the group. Released are Nodes that the group has left and whose record still names it.
	Nodes    []Node
	Released []Node
	// Unseen reports that a write is under way that may add a record of the group, or that the cache does not show one yet.
	Unseen bool
	// Releasing are the names of those of Released that were admitted before.
	Releasing sets.Set[string]
	// Overlaps are the Nodes that several groups select, this one among them.
	Overlaps []Overlap
	// Replacement is what package replacement reports; nil before it has.
	Replacement *replacementplan.Report
	// Budget is what the budget of the group is compared with; nil for a group without one.
	Budget *Budget
	// Uses are what requires labels that the roll-out takes away; nil where it takes none, or only what a user has confirmed.
	Uses *Uses
	// PendingPods are the Pods that count for spec.rollout.stopWhen.pendingPods.
	PendingPods []string
	// Now is the time of the decision.
	Now time.Time

	// texts are those of the messages; the zero value is those of a NodeGroup.
	texts texts
	// passes reports whether the roll-out goes on past Nodes that are stuck.
	passes bool
}

// Node is a Node of the group.
type Node struct {
	Name, Zone string
	Created    time.Time
	// Labels are those that it carries.
	Labels map[string]string
	// Metadata is what is decided about what it carries.
	Metadata metadataplan.GroupDecision
	// Owned are the keys that its record names.
	Owned ownership.Section
	// Guarded are the keys that it gets for its MachineSet, in addition to those that the group declares.
	Guarded ownership.Section
	// Ready reports whether its kubelet is ready, since ReadyChange.
	Ready       bool
	ReadyChange time.Time
	// Leaving reports that another program, or Drover, takes the Node away or restarts it, so that it becomes NotReady on purpose; Joining that it has
	// not been initialized since it was created.
	Leaving, Joining bool
	// Taken reports that another group has the Node, of one that the group has left.
	Taken bool
	// Failing is why the Node cannot be written; empty while it can.
	Failing string
}

// toWrite reports whether the roll-out has to write the Node. What another writer has changed since does not count: Drover reverts it at once.
func (n *Node) toWrite() bool { return n.Metadata.Change.Write && !n.Metadata.Drift }

// isFailing reports whether the roll-out has to write the Node and cannot.
func (n *Node) isFailing() bool { return n.Failing != "" && n.toWrite() }

// isPending reports whether the Node is to be written, and can be.
func (n *Node) isPending() bool { return n.Metadata.Change.Write && !n.isFailing() }

// isStuck reports whether the Node cannot be finished now: it cannot be written, or Pods did not leave in time.
func (n *Node) isStuck() bool { return n.isFailing() || n.Metadata.TimedOut }

// Overlap is a Node that several groups select.
type Overlap struct {
	Node string
	// Group is the name of another group that selects it.
	Group string
}

// Decision is what a group does now.
type Decision struct {
	// Admitted are the Nodes of the group that may be written, and Releasing those that have left it.
	Admitted, Releasing sets.Set[string]
	// Waves is how many waves the roll-out has, and Wave the one that is under way, from 1; Waves plus 1 when all are over.
	Wave, Waves int
	// Rollout, Phase, Counts, OwnedKeys and Conditions become the status.
	Rollout *v1alpha1.RolloutStatus
	Phase   v1alpha1.Phase
	// Message says what the phase means now.
	Message string
	Counts  Counts
	// Unconfirmed says which labels keep the roll-out from beginning before a user confirms that they go; empty for none.
	Unconfirmed string
	// UnconfirmedReleases says that of Nodes that have left the group, which wait for the confirmation.
	UnconfirmedReleases string
	// Replacement is what is known of the replacement of Machines.
	Replacement replacementplan.Report
	OwnedKeys   []string
	Conditions  []Condition
	// Abnormal are the conditions that are present only while they are True.
	Abnormal []Condition
	// Released reports whether no Node's record names the group, so that one that is being deleted may go.
	Released bool
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time
}

// Counts are the numbers of Nodes by state. They add up to Nodes.
type Counts struct {
	Nodes, Synced, Pending, Conflicts, Refused, Held int32
}

// MaxOwnedKeys bounds status.ownedKeys.
const MaxOwnedKeys = 256

// maxNamed is how many objects a status names.
const maxNamed = 5

// unseenInterval is how soon it is asked again whether the cache shows all writes.
const unseenInterval = time.Second

// Decide decides what a group does.
func Decide(in *Input) Decision {
	in.Group = withPossibleTimes(in.Group, in.Now)
	in.Nodes = sorted(in.Nodes)
	d := Decision{Admitted: sets.Set[string]{}, Releasing: sets.Set[string]{}, Counts: count(in.Nodes), Replacement: in.replacement()}
	d.OwnedKeys, d.Unconfirmed, d.UnconfirmedReleases = in.ownedKeys(&d), in.unconfirmed(false), in.unconfirmed(true)
	d.Released = len(in.Released) == 0 && !slices.ContainsFunc(in.Nodes, func(n Node) bool { return !n.Owned.Empty() })
	if d.Released && in.Unseen {
		d.Released = false
		d.wake(in.Now.Add(unseenInterval))
	}
	if at := in.confirmTime(); d.Unconfirmed+d.UnconfirmedReleases != "" && at.After(in.Now) {
		d.wake(at)
	}
	in.decideWaves(&d)
	in.decideReleases(&d)
	in.decideBudget(&d)
	in.conditions(&d)
	return d
}

// sorted returns Nodes in the order of waves. They are copied once each: a Node takes hundreds of bytes.
func sorted(nodes []Node) []Node {
	order := make([]*Node, len(nodes))
	for i := range nodes {
		order[i] = &nodes[i]
	}
	slices.SortFunc(order, compareNodes)
	out := make([]Node, len(order))
	for i, node := range order {
		out[i] = *node
	}
	return out
}

// compareNodes is the order of waves: by zone, then by age. The Nodes that the roll-out has reached come before: kubelets may change the zone of
// their Nodes, which must not move others into another wave.
func compareNodes(a, b *Node) int {
	return cmp.Or(compareReached(a, b), cmp.Compare(a.Zone, b.Zone), a.Created.Compare(b.Created), cmp.Compare(a.Name, b.Name))
}

func compareReached(a, b *Node) int {
	switch first, second := a.Metadata.Reached, b.Metadata.Reached; {
	case first == second:
		return 0
	case first:
		return -1
	}
	return 1
}

func count(nodes []Node) Counts {
	var c Counts
	for i := range nodes {
		c.Nodes++
		switch nodes[i].Metadata.State {
		case metadataplan.Synced:
			c.Synced++
		case metadataplan.Conflicted:
			c.Conflicts++
		case metadataplan.RefusedState:
			c.Refused++
		case metadataplan.Held:
			c.Held++
		default:
			c.Pending++
		}
	}
	return c
}

// ownedKeys returns the keys that the group declares, and those that it has declared and that a Node's record still names, or may. A record alone
// adds none.
func (in *Input) ownedKeys(d *Decision) []string {
	used := ownership.Section{Labels: ownership.Keys{}, Annotations: ownership.Keys{}, Taints: ownership.Keys{}}
	for _, nodes := range [][]Node{in.Nodes, in.Released} {
		for i := range nodes {
			for _, kind := range ownership.Kinds {
				maps.Copy(used.Of(kind), nodes[i].Owned.Of(kind))
			}
		}
	}
	before, declared := metadataplan.ParseOwnedKeys(in.Group.Status.OwnedKeys), in.Declaration.Section()
	for i := range in.Nodes {
		// Authors of MachineSets cannot fill the status: what does not fit is none of these.
		maps.Copy(declared.Of(ownership.Taint), in.Nodes[i].Guarded.Of(ownership.Taint))
	}
	kept := ownership.Section{}
	for _, kind := range ownership.Kinds {
		old := before.Of(kind).Minus(declared.Of(kind))
		named := old.And(used.Of(kind))
		if in.Unseen && len(named) < len(old) {
			named = old
			d.wake(in.Now.Add(unseenInterval))
		}
		kept = kept.With(kind, named)
	}
	keys, old := metadataplan.OwnedKeys(declared), metadataplan.OwnedKeys(kept)
	keys = append(keys, old[:min(len(old), max(0, MaxOwnedKeys-len(keys)))]...)
	slices.Sort(keys)
	return keys
}

// settings returns spec.rollout, or the defaults.
func (in *Input) settings() v1alpha1.Rollout {
	if in.Group.Spec.Rollout == nil {
		return v1alpha1.Rollout{}
	}
	return *in.Group.Spec.Rollout
}

// Resolve returns an int or percentage of a total, rounded up. Nil is the default.
func Resolve(value *intstr.IntOrString, fallback intstr.IntOrString, total int) int {
	if value == nil {
		value = &fallback
	}
	number, err := intstr.GetScaledValueFromIntOrPercent(value, total, true)
	if err != nil {
		// The schema rejects such a value.
		return 0
	}
	return max(0, number)
}

// unfinished reports whether any Node is to be written.
func (in *Input) unfinished() bool {
	return in.pending() > 0
}

func (d *Decision) wake(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}
