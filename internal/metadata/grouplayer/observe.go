package grouplayer

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// Observation is what a reconciliation has read of a Node and its NodeGroup. The objects are the cache's own and must not be changed.
type Observation struct {
	name string
	// node is nil if no Node has the name.
	node       *corev1.Node
	groups     []*members.Group
	assignment members.Assignment
	// err is why it is not known which NodeGroup the Node has; nil if it is, or if there is no Node.
	err error
}

// Observe finds the NodeGroup of a Node; node is nil if it does not exist. Call Gate.BeginWrite before reading the Node from the cache, and Begin
// afterwards.
func (l *Layer) Observe(ctx context.Context, name string, node *corev1.Node) *Observation {
	o := &Observation{name: name, node: node}
	if node == nil {
		return o
	}
	if o.groups, o.err = l.Finder.Groups(ctx); o.err != nil {
		return o
	}
	if o.assignment, o.err = l.Finder.Assign(ctx, o.groups, o.node); o.err == nil {
		o.err = o.assignment.Decodable()
	}
	return o
}

// GroupLayer returns what the Node has from its NodeGroup, for a decision about the Node's MachineSet, whose UID is set.
func (o *Observation) GroupLayer(set types.UID) (plan.GroupLayer, error) {
	if o.err != nil {
		return plan.GroupLayer{}, o.err
	}
	return o.assignment.GroupLayerFor(o.groups, set), nil
}

// isOfGroup reports whether the layer has anything to do for the Node. A Node without a group and a record may have a record that the cache does not
// show yet.
func (o *Observation) isOfGroup(pending bool) bool {
	return pending || o.assignment.Group != nil || o.node.Annotations[ownership.AnnotationGroupRecord] != ""
}
