package nodegroup

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/undecodable"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	group *members.Group
	// groups are all of them.
	groups []*members.Group
	// nodes are the Nodes that the group selects, and the Nodes whose record names it.
	nodes []members.Assignment
	// unseen reports that a Node may have the record of the group that nodes do not show yet.
	unseen bool
}

// observe reads a group and its Nodes; nil when the group is gone.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (*observation, error) {
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	for _, group := range groups {
		if group.Name != key.Name {
			continue
		}
		if err := undecodable.Check(group.NodeGroup); err != nil {
			return nil, err
		}
		// Before the Nodes are listed: they show every write that is over then.
		unseen := r.Gate.InFlight(group.UID, r.Clock.Now(), func(node, version string) bool { return r.shows(ctx, node, version) })
		found, err := r.Finder.Nodes(ctx, groups, group.UID)
		return &observation{group: group, groups: groups, nodes: found, unseen: unseen}, err
	}
	return nil, nil
}

// shows reports whether the cache has a version of a Node, or a later one, or no such Node.
func (r *Reconciler) shows(ctx context.Context, node, version string) bool {
	cached := &corev1.Node{}
	if err := r.Cache.Get(ctx, types.NamespacedName{Name: node}, cached); err != nil {
		return apierrors.IsNotFound(err)
	}
	return !expectations.Older(cached.ResourceVersion, version)
}

// input returns what is decided on.
func (rc *reconciliation) input(report replacementplan.Report) *plan.Input {
	in := members.PlanInput(rc.group, rc.nodes, rc.now, rc.decideMetadata)
	in.Group = rc.state.known(in.Group)
	in.Replacement, in.Unseen = report, rc.unseen
	for _, nodes := range [][]rollout.Node{in.Nodes, in.Released} {
		for i := range nodes {
			nodes[i].Failing = rc.Gate.Trouble(nodes[i].Name).Failing
		}
	}
	rc.state.noteLeft(in.Released, rc.now)
	in.Releasing = rc.Gate.Releasing(rc.group.UID)
	return in
}

// noteLeft sets since when Nodes have been out of the group, and forgets Nodes that have come back or are gone.
func (s *groupState) noteLeft(released []rollout.Node, now time.Time) {
	left := make(map[string]time.Time, len(released))
	for i := range released {
		node := &released[i]
		at, known := s.left[node.Name]
		if !known || at.After(now) {
			// The latter after the clock was set back.
			at = now
		}
		node.Left, left[node.Name] = at, at
	}
	s.left = left
}

// known returns a group with what this process knows of its roll-out. Another writer of the status, who may not change the spec, does not end a
// pause, resume a roll-out that has stopped, or have failures forgotten: the next write overwrites that. What was written before this process began
// is believed.
func (s *groupState) known(group *v1alpha1.NodeGroup) *v1alpha1.NodeGroup {
	if s.own == nil {
		s.own = group.Status.DeepCopy()
		return group
	}
	corrected := *group
	corrected.Status.Rollout, corrected.Status.Phase = s.own.Rollout, s.own.Phase
	corrected.Status.ObservedGeneration, corrected.Status.OwnedKeys = s.own.ObservedGeneration, s.own.OwnedKeys
	return &corrected
}

// decideMetadata decides what a Node is to carry. Guarded taints count as taints to set, unless they are held back or Pods did not leave in time.
// Contended keys count as keys that cannot be set.
func (rc *reconciliation) decideMetadata(assignment *members.Assignment) metadataplan.GroupDecision {
	in, trouble := assignment.Input(rc.options.Protected, rc.now), rc.Gate.Trouble(assignment.Node.Name)
	in.Held, in.WithoutRecord = trouble.Held, true
	if in.Held == "" && (in.Declaration == nil || in.Declaration.TimeoutOf(assignment.Node.Annotations, rc.options.Protected, rc.now) == nil) {
		in.Guard = metadataplan.GuardClear
	}
	if !trouble.Contended.Empty() {
		in.Contended = func(kind ownership.Kind, key string) bool { return trouble.Contended.Of(kind).Has(key) }
	}
	return metadataplan.DecideGroup(in)
}
