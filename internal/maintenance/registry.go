package maintenance

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
)

// indexNode is the index of NodeMaintenances by spec.nodeName.
const indexNode = "spec.nodeName"

// Registry knows the NodeMaintenances of all groups that are served, so that a node has one at a time.
type Registry struct {
	cache client.Reader

	mu       sync.Mutex
	flavours []*Flavour
	// wakers put the NodeMaintenances of a node into the queue of each group's controller.
	wakers map[*Flavour]func(node string)
}

// NewRegistry makes one that reads from a cache with the indexes of Index.
func NewRegistry(cache client.Reader) *Registry {
	return &Registry{cache: cache, wakers: map[*Flavour]func(string){}}
}

// listen calls back when a NodeMaintenance of any group has let a node go, until the returned function is called.
func (r *Registry) listen(flavour *Flavour, waker func(node string)) (stop func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakers[flavour] = waker
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.wakers, flavour)
	}
}

// free tells the controllers of all groups that a node has been let go: another one may have waited for it.
func (r *Registry) free(node string) {
	r.mu.Lock()
	wakers := slices.Collect(maps.Values(r.wakers))
	r.mu.Unlock()
	for _, wake := range wakers {
		wake(node)
	}
}

// enter adds a group while its controller runs.
func (r *Registry) enter(flavour *Flavour) (leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flavours = append(r.flavours, flavour)
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.flavours = slices.DeleteFunc(r.flavours, func(f *Flavour) bool { return f == flavour })
	}
}

// claim is one NodeMaintenance that names a node.
type claim struct {
	flavour *Flavour
	name    string
	uid     types.UID
	created time.Time
	// deleting reports whether it is being deleted and has not released the node yet.
	deleting bool
}

func claimOf(flavour *Flavour, object client.Object) claim {
	return claim{flavour, object.GetName(), object.GetUID(), object.GetCreationTimestamp().Time, object.GetDeletionTimestamp() != nil}
}

// String returns the resource, its group and the name.
func (c claim) String() string {
	return fmt.Sprintf("%s %s", c.flavour.Resource.GroupResource(), c.name)
}

// ended reports whether a NodeMaintenance is being deleted and has released its node: only the finalizer of another controller keeps it.
func ended(object client.Object) bool {
	return object.GetDeletionTimestamp() != nil && !slices.Contains(object.GetFinalizers(), medik8s.Finalizer)
}

// claims lists who names a node, the oldest first. Those that have ended are left out.
func (r *Registry) claims(ctx context.Context, node string) ([]claim, error) {
	r.mu.Lock()
	flavours := slices.Clone(r.flavours)
	r.mu.Unlock()
	var found []claim
	for _, flavour := range flavours {
		list := flavour.list()
		if err := r.cache.List(ctx, list, client.MatchingFields{indexNode: node}); err != nil {
			return nil, fmt.Errorf("listing the %s of node %s: %w", flavour.Resource.GroupResource(), node, err)
		}
		for _, object := range flavour.items(list) {
			if ended(object) {
				continue
			}
			found = append(found, claimOf(flavour, object))
		}
	}
	slices.SortFunc(found, func(a, b claim) int {
		return cmp.Or(a.created.Compare(b.created), cmp.Compare(a.flavour.Name, b.flavour.Name), cmp.Compare(a.name, b.name))
	})
	return found, nil
}
