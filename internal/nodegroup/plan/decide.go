// Package plan decides what a NodeGroup does and reports: how far its roll-out is, which package rollout decides, and its conditions.
//
// It is pure: the group, its Nodes and the time go in, a Decision comes out. The operator and kubectl drover plan call the same functions.
package plan

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// Input is all that Decide depends on. The objects are not changed.
type Input struct {
	Group *v1alpha1.NodeGroup
	// SelectorError is why a selector is invalid; nil for none.
	SelectorError error
	// Declaration is what the group's Nodes are to carry.
	Declaration *metadataplan.Declaration
	// Nodes are the group's Nodes. Released are Nodes that have left the group and whose record still names it.
	Nodes    []rollout.Node
	Released []rollout.Node
	// Unseen reports that a write is under way that may add a record of the group, or that the cache does not show one yet.
	Unseen bool
	// Releasing are the names of the Released Nodes that were admitted before.
	Releasing sets.Set[string]
	// Overlaps are the Nodes that several groups select, this one among them.
	Overlaps []Overlap
	// Replacement is what is found about the replacement of Machines.
	Replacement replacementplan.Report
	// Budget is what the budget of the group is compared with; nil for a group without one.
	Budget *Budget
	// Uses are what requires labels that the roll-out takes away; nil where it takes none, or only what a user has confirmed.
	Uses *rollout.Uses
	// PendingPods are the Pods that count for spec.rollout.stopWhen.pendingPods.
	PendingPods []string
	// Now is the time of the decision.
	Now time.Time
}

// Rollout returns what the roll-out of the group depends on.
func (in *Input) Rollout() *rollout.Input {
	group, metadata := in.Group, in.Group.Spec.Metadata
	ending := group.DeletionTimestamp != nil
	out := &rollout.Input{
		Before: rollout.WithPossibleTimes(group.Status.Rollout, in.Now), Revision: in.Declaration.Revision,
		Nodes: in.Nodes, Released: in.Released, Releasing: in.Releasing,
		Removes: metadata != nil && metadata.OnRelease == v1alpha1.ReleaseRemove, Ending: ending,
		Suspended: group.Spec.Suspend && !ending, WasSuspended: group.Status.Phase == v1alpha1.PhaseSuspended,
		DryRun: in.isDryRun(), Unknown: in.SelectorError != nil, SpecChanged: group.Status.ObservedGeneration != group.Generation,
		Resume: group.Annotations[v1alpha1.AnnotationResume], Confirm: group.Annotations[v1alpha1.AnnotationConfirm],
		IsDisrupted: func(node *rollout.Node) bool {
			return in.disrupts(node, func(capability v1alpha1.Capability) bool { return capability != v1alpha1.CapabilityMetadata })
		},
		Uses: in.Uses, PendingPods: in.PendingPods, Now: in.Now,
	}
	if group.Spec.Rollout != nil {
		out.Settings = *group.Spec.Rollout
	}
	return out
}

// isDryRun reports whether nothing is written because of spec.dryRun.
func (in *Input) isDryRun() bool { return in.Group.Spec.DryRun && in.Group.DeletionTimestamp == nil }

// DeclaredKeys returns the keys that the group declares or has declared.
func (in *Input) DeclaredKeys() (out ownership.Section) {
	declared, before := in.Declaration.Section(), metadataplan.ParseOwnedKeys(in.Group.Status.OwnedKeys)
	for _, kind := range ownership.Kinds {
		out = out.With(kind, declared.Of(kind).Union(before.Of(kind)))
	}
	return out
}

// Overlap is a Node that several groups select.
type Overlap struct {
	Node string
	// Group is the name of another group that selects it.
	Group string
}

// Decision is what a group does now.
type Decision struct {
	rollout.Decision

	// Phase, Counts, OwnedKeys and Conditions become the status, as Rollout does.
	Phase v1alpha1.Phase
	// Message says what the phase means now.
	Message    string
	Counts     Counts
	OwnedKeys  []string
	Conditions []Condition
	// Abnormal are the conditions that are present only while they are True.
	Abnormal []Condition
	// Released reports whether no Node's record names the group, so that a group that is being deleted may go.
	Released bool

	// waves is what the roll-out was decided by.
	waves *rollout.Input
}

// Counts are the numbers of Nodes by state. They add up to Nodes.
type Counts struct {
	Nodes, Synced, Pending, Conflicts, Refused, Held int32
}

// MaxOwnedKeys bounds status.ownedKeys.
const MaxOwnedKeys = 256

// unseenInterval is how soon it is asked again whether the cache shows all writes.
const unseenInterval = time.Second

// Decide decides what a group does.
func Decide(in *Input) Decision {
	waves := in.Rollout()
	d := Decision{Decision: rollout.Decide(waves), waves: waves}
	in.Nodes, in.Released, d.Counts = waves.Nodes, waves.Released, count(waves.Nodes)
	d.OwnedKeys = in.ownedKeys(&d)
	d.Released = len(in.Released) == 0 && !slices.ContainsFunc(in.Nodes, func(n rollout.Node) bool { return !n.Owned.Empty() })
	if d.Released && in.Unseen {
		d.Released = false
		d.WakeAt(in.Now.Add(unseenInterval))
	}
	in.decideBudget(&d)
	in.conditions(&d)
	return d
}

func count(nodes []rollout.Node) Counts {
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

// ownedKeys returns the keys that the group declares, and the keys that it has declared and that a Node's record still names, or may name. A record
// alone adds no key.
func (in *Input) ownedKeys(d *Decision) []string {
	used := ownership.Section{Labels: ownership.Keys{}, Annotations: ownership.Keys{}, Taints: ownership.Keys{}}
	for _, nodes := range [][]rollout.Node{in.Nodes, in.Released} {
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
			d.WakeAt(in.Now.Add(unseenInterval))
		}
		kept = kept.With(kind, named)
	}
	keys, old := metadataplan.OwnedKeys(declared), metadataplan.OwnedKeys(kept)
	keys = append(keys, old[:min(len(old), max(0, MaxOwnedKeys-len(keys)))]...)
	slices.Sort(keys)
	return keys
}
