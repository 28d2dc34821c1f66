package nodes

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/ownership"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	members.Assignment
	// pending reports that the cache does not show Drover's own last write of the Node.
	pending bool
}

// observe reads a Node and the group that it belongs to; nil when there is nothing to do for the Node. A Node without a group and a record may have
// a record that the cache does not show yet.
func (l *Layer) observe(ctx context.Context, name string) (*observation, error) {
	node := &corev1.Node{}
	err := l.Cache.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	case node.DeletionTimestamp != nil:
		return nil, nil
	}
	groups, err := l.Finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	assignment, err := l.Finder.Assign(ctx, groups, node)
	if err == nil {
		err = assignment.Decodable()
	}
	if err != nil {
		return nil, err
	}
	if assignment.Group != nil && assignment.MachineSet != nil && l.Gate.IsUnfit(assignment.Group.UID, assignment.MachineSet.UID) {
		assignment.Hold()
	}
	pending := l.versions.Pending(ctx, node)
	if !pending && assignment.Group == nil && node.Annotations[ownership.AnnotationGroupRecord] == "" {
		return nil, nil
	}
	return &observation{Assignment: assignment, pending: pending}, nil
}
