// Package rollout decides how a change reaches Nodes in waves: which of them may be written now, what the next wave waits for, what stops the
// roll-out and what a user has to confirm first, and which Nodes give back what they were given.
//
// It is pure: its input is what is declared, the Nodes, where the roll-out was and the time; its output is a Decision. A NodeGroup configures the
// roll-out in its spec, and keeps where it is in its status. For a MachineSet in no group, Drover's configuration configures it. The operator and
// kubectl drover plan call the same functions.
package rollout

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Reasons why a roll-out has stopped.
const (
	// ReasonNodesNotReady (Blocked=True): as many Nodes as spec.rollout.stopWhen.notReady says have become NotReady since the roll-out began; a change
	// of spec.metadata or `kubectl drover rollout resume` continues it, and any other change of the spec outside of a suspension if there are fewer by
	// then.
	ReasonNodesNotReady = "NodesNotReady"
	// ReasonPodsPending (Blocked=True): as many Pods as spec.rollout.stopWhen.pendingPods says have become unschedulable since the roll-out began; a
	// change of spec.metadata or `kubectl drover rollout resume` continues it, and any other change of the spec outside of a suspension if there are
	// fewer by then.
	ReasonPodsPending = "PodsPending"
)

// Input is all that a decision depends on. The objects are not changed; Decide sorts Nodes and Released.
type Input struct {
	// Settings configure the roll-out; the zero value writes all Nodes at once.
	Settings v1alpha1.Rollout
	// Before is where the roll-out was, WithPossibleTimes; nil for none.
	Before *v1alpha1.RolloutStatus
	// Revision identifies what is declared now. If the text before its first dot changes, another roll-out begins. If only the text after the dot
	// changes, which authors of MachineSets can bring about, the waves begin anew.
	Revision string
	// Nodes are the Nodes that get what is declared. Released are Nodes that have got it and are not among Nodes any more. Releasing are the names of
	// the Released Nodes that were admitted before.
	Nodes     []Node
	Released  []Node
	Releasing sets.Set[string]
	// Removes reports that Nodes that are released lose what they have got.
	Removes bool
	// Ending reports that all Nodes are released.
	Ending bool
	// Suspended reports that no Node is written, and WasSuspended that so it was until now. DryRun reports that none is released, and Unknown that it is
	// not known which Nodes are to be, unless all are.
	Suspended, WasSuspended, DryRun, Unknown bool
	// SpecChanged reports that the Settings, or what is declared, may have changed since the last decision.
	SpecChanged bool
	// Resume and Confirm are annotations: with Resume a user resumes a roll-out, and with Confirm a user confirms what becomes of labels.
	Resume, Confirm string
	// IsDisrupted reports whether a Node is disrupted for something else than the roll-out; nil for none.
	IsDisrupted func(node *Node) bool
	// Uses are what requires labels that the roll-out takes away; nil where it takes none, or only what a user has confirmed.
	Uses *Uses
	// PendingPods are the Pods that count for Settings.StopWhen.PendingPods.
	PendingPods []string
	// Now is the time of the decision.
	Now time.Time

	// texts are the texts of the messages; the zero value stands for the texts of a NodeGroup.
	texts texts
	// passes reports whether the roll-out goes on past Nodes that are stuck.
	passes bool
}

// Node is a Node that a roll-out reaches.
type Node struct {
	Name, Zone string
	Created    time.Time
	// Labels are the labels that it carries.
	Labels map[string]string
	// Metadata is what is decided about what it carries.
	Metadata metadataplan.GroupDecision
	// Owned are the keys that its record names.
	Owned ownership.Section
	// Guarded are the keys that it gets for its MachineSet, in addition to the keys that its group declares.
	Guarded ownership.Section
	// Ready reports whether its kubelet is ready, since ReadyChange.
	Ready       bool
	ReadyChange time.Time
	// Leaving reports that another program, or Drover, takes the Node away or restarts it, so that it becomes NotReady on purpose; Joining that it has
	// not been initialized since it was created.
	Leaving, Joining bool
	// Taken and Left describe a released Node. Taken reports that another group has it. Left is since when it is out of the group; zero if the delay is
	// not counted from any time.
	Taken bool
	Left  time.Time
	// Failing is why the Node cannot be written; empty while it can.
	Failing string
}

// toWrite reports whether the roll-out has to write the Node. What another writer has changed since does not count: Drover reverts it at once.
func (n *Node) toWrite() bool {
	return n.Metadata.Change.Write && !n.Metadata.Drift && !n.Metadata.Handover
}

// IsFailing reports whether the roll-out has to write the Node and cannot.
func (n *Node) IsFailing() bool { return n.Failing != "" && n.toWrite() }

// IsPending reports whether the Node is to be written, and can be.
func (n *Node) IsPending() bool { return n.Metadata.Change.Write && !n.IsFailing() }

// isStuck reports whether the Node cannot be finished now: it cannot be written, or Pods did not leave in time.
func (n *Node) isStuck() bool { return n.IsFailing() || n.Metadata.TimedOut }

// Decision is how far a roll-out is.
type Decision struct {
	// Admitted are the Nodes that may be written, and Releasing the Nodes that are released.
	Admitted, Releasing sets.Set[string]
	// Delayed are how many Nodes have left and are kept as they are in case they come back, the first of them until DelayEnd.
	Delayed  int
	DelayEnd time.Time
	// Waves is how many waves the roll-out has. Wave is the number of the current wave, from 1; Waves plus 1 when all have finished.
	Wave, Waves int
	// Rollout is where the roll-out is.
	Rollout *v1alpha1.RolloutStatus
	// Unconfirmed says which labels keep the roll-out from beginning before a user confirms that they go; empty for none.
	Unconfirmed string
	// UnconfirmedReleases says which labels keep Nodes from being released before a user confirms that they go; empty for none.
	UnconfirmedReleases string
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time
}

// Decide decides how far the roll-out is.
func Decide(in *Input) Decision {
	in.Nodes = sorted(in.Nodes)
	d := Decision{
		Admitted: sets.Set[string]{}, Releasing: sets.Set[string]{}, Unconfirmed: in.unconfirmed(false), UnconfirmedReleases: in.unconfirmed(true),
	}
	if at := in.confirmTime(); d.Unconfirmed+d.UnconfirmedReleases != "" && at.After(in.Now) {
		d.WakeAt(at)
	}
	in.decideWaves(&d)
	in.decideReleases(&d)
	return d
}

// WakeAt has the decision made again at a time, or before.
func (d *Decision) WakeAt(at time.Time) { d.Wake = bounded.Earliest(d.Wake, at) }

// IsOver reports whether all Nodes are as declared, or cannot be, and all waves are over.
func (in *Input) IsOver(d *Decision) bool { return in.Pending() == 0 && d.Wave > d.Waves }

// Pending returns how many Nodes are to be written.
func (in *Input) Pending() int {
	pending := 0
	for i := range in.Nodes {
		if in.Nodes[i].IsPending() {
			pending++
		}
	}
	return pending
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

// Resolve returns an int or percentage of a total, rounded up. Nil is the default.
func Resolve(value *intstr.IntOrString, fallback intstr.IntOrString, total int) int {
	if value == nil {
		value = &fallback
	}
	number, _ := bounded.Scaled(*value, total) // zero for what the schema rejects
	return number
}

func timestamp(now time.Time) *metav1.Time { return &metav1.Time{Time: now.Truncate(time.Second)} }

// maxNamed is how many objects a status names.
const maxNamed = 5
