package nodegroup

import (
	"context"

	"k8s.io/apimachinery/pkg/types"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	group *members.Group
	// groups are all of them.
	groups []*members.Group
	// nodes are those that the group selects, and those whose record names it.
	nodes []members.Assignment
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
		found, err := r.Finder.Nodes(ctx, groups, group.UID)
		return &observation{group: group, groups: groups, nodes: found}, err
	}
	return nil, nil
}

// input returns what is decided on.
func (rc *reconciliation) input() *plan.Input {
	in := members.PlanInput(rc.group, rc.nodes, rc.now, rc.decideMetadata)
	in.Defaults, in.Replacement = rc.options.Rollout, rc.replacement()
	return in
}

// decideMetadata decides what a Node is to carry: guarded taints count as ones that are to be set, unless they are held back.
func (rc *reconciliation) decideMetadata(assignment *members.Assignment) metadataplan.GroupDecision {
	in := assignment.Input(rc.options.Protected, rc.now)
	if in.Held = rc.Admissions.Held(assignment.Node.Name); in.Held == "" {
		in.Guard = metadataplan.GuardClear
	}
	return metadataplan.DecideGroup(in)
}

// replacement returns what is known of the replacement of Machines; nil for nothing yet.
func (rc *reconciliation) replacement() *replacementplan.Report {
	switch {
	case rc.group.Spec.Nodes.MachineSets == nil:
		return &replacementplan.Report{}
	case rc.Replacements == nil:
		return new(replacementplan.Unavailable(rc.group.NodeGroup))
	}
	return rc.Replacements.Of(rc.group.UID)
}
