package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/watch"
)

// indexNode is the index of NodeMaintenances by spec.nodeName.
const indexNode = "spec.nodeName"

// Registry has the NodeMaintenances of all groups that are served, so that a node has one at a time.
type Registry struct {
	cache client.Reader

	// released has an event when a NodeMaintenance of any group has released a node: another one may wait for the node.
	released watch.NodeEvents

	mu     sync.Mutex
	served []*Group
}

// NewRegistry returns a Registry that reads from a cache with the indexes of Index.
func NewRegistry(cache client.Reader) *Registry {
	return &Registry{cache: cache}
}

// serve adds a group while its controller runs.
func (r *Registry) serve(group *Group) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.served = append(r.served, group)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.served = slices.DeleteFunc(r.served, func(g *Group) bool { return g == group })
	}
}

// peersOf returns the NodeMaintenances that name a node and have not released it, the oldest first.
func (r *Registry) peersOf(ctx context.Context, node string) ([]plan.Peer, error) {
	r.mu.Lock()
	served := slices.Clone(r.served)
	r.mu.Unlock()
	var peers []plan.Peer
	for _, group := range served {
		objects, err := group.List(ctx, r.cache, client.MatchingFields{indexNode: node})
		if err != nil {
			return nil, err
		}
		for _, object := range objects {
			if !hasReleased(object) {
				peers = append(peers, plan.Peer{
					UID: object.GetUID(), Name: describe(group, object), Created: object.GetCreationTimestamp().Time,
					Deleting: object.GetDeletionTimestamp() != nil, OwnLease: group.OwnLease,
				})
			}
		}
	}
	slices.SortFunc(peers, comparePeers)
	return peers, nil
}

// comparePeers puts the oldest NodeMaintenance of a node first. If two were created in the same second, a NodeMaintenance of
// nodemaintenance.medik8s.io comes first, because its spec says how to drain. The other group has a lease of its own (OwnLease).
func comparePeers(a, b plan.Peer) int {
	byGroup := 0
	switch {
	case b.OwnLease && !a.OwnLease:
		byGroup = -1
	case a.OwnLease && !b.OwnLease:
		byGroup = 1
	}
	return cmp.Or(a.Created.Compare(b.Created), byGroup, cmp.Compare(a.Name, b.Name))
}

// describe returns the resource, its group and the name of a NodeMaintenance.
func describe(group *Group, object metav1.Object) string {
	return fmt.Sprintf("%s %s", group.Resource.GroupResource(), object.GetName())
}

// hasReleased reports whether a NodeMaintenance is deleted and has released its node: only the finalizer of another controller keeps it.
func hasReleased(object metav1.Object) bool {
	return object.GetDeletionTimestamp() != nil && !slices.Contains(object.GetFinalizers(), medik8s.Finalizer)
}
