package expectations

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Owned records what a controller has created, updated and deleted of one kind, by owner, until the cache of the kind shows it. A controller
// that counts would otherwise create again what the cache does not show yet, and delete in place of what it still shows.
type Owned struct {
	reader  client.Reader
	live    *Live
	kind    func() client.Object
	version func() string
	clock   clock.PassiveClock

	mu      sync.Mutex
	pending map[string]map[types.NamespacedName]expectation
}

// expectation is one write that the cache may not show yet.
type expectation struct {
	verb    verb
	uid     types.UID
	version string
	// asked is when the write was made, or the API server was asked about it last.
	asked time.Time
}

type verb int

const (
	created verb = iota
	updated
	deleted
)

// OwnedOptions are what Owned needs besides the cache. The zero value works; it looks up each object, and drops an expectation after a minute.
type OwnedOptions struct {
	// Version returns the newest resourceVersion that the cache has seen, empty where that is not known (StoreVersion makes one).
	Version func() string
	// Live asks the API server about an expectation that is not satisfied for a minute.
	Live *Live
	// Clock is the real one if nil.
	Clock clock.PassiveClock
}

// NewOwned returns an empty tracker for the cache that a reader reads. kind returns an empty object of the kind.
func NewOwned(reader client.Reader, kind func() client.Object, options OwnedOptions) *Owned {
	if options.Version == nil {
		options.Version = func() string { return "" }
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	return &Owned{
		reader: reader, live: options.Live, kind: kind, version: options.Version, clock: options.Clock,
		pending: map[string]map[types.NamespacedName]expectation{},
	}
}

// Created records an object as the API server answered its creation.
func (o *Owned) Created(owner string, object client.Object) { o.expect(owner, object, created) }

// Updated records an object as the API server answered a change of it.
func (o *Owned) Updated(owner string, object client.Object) { o.expect(owner, object, updated) }

// Deleted records an object of the cache whose deletion the API server has accepted. It may stay, with a deletion timestamp.
func (o *Owned) Deleted(owner string, object client.Object) { o.expect(owner, object, deleted) }

func (o *Owned) expect(owner string, object client.Object, did verb) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[owner] == nil {
		o.pending[owner] = map[types.NamespacedName]expectation{}
	}
	o.pending[owner][client.ObjectKeyFromObject(object)] = expectation{
		verb: did, uid: object.GetUID(), version: object.GetResourceVersion(), asked: o.clock.Now(),
	}
}

// Pending reports whether the cache has yet to show a write that was made for an owner. A write that no cache will ever show is dropped after
// a minute, when the API server says so.
func (o *Owned) Pending(ctx context.Context, owner string) (bool, error) {
	o.mu.Lock()
	writes := maps.Clone(o.pending[owner])
	o.mu.Unlock()
	newest := o.version()
	for key, write := range writes {
		satisfied, err := o.satisfied(ctx, key, write, newest)
		if err != nil {
			return true, fmt.Errorf("reading %s from the cache: %w", key, err)
		}
		if !satisfied && !o.overdue(ctx, owner, key, write) {
			return true, nil
		}
		o.drop(owner, key, write)
	}
	return false, nil
}

// drop removes an expectation, unless another one has taken its place.
func (o *Owned) drop(owner string, key types.NamespacedName, write expectation) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if current, ok := o.pending[owner][key]; !ok || current.verb != write.verb || current.version != write.version {
		return
	}
	delete(o.pending[owner], key)
	if len(o.pending[owner]) == 0 {
		delete(o.pending, owner)
	}
}

// Forget drops the expectations of an owner.
func (o *Owned) Forget(owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.pending, owner)
}

// Len returns the number of owners with expectations.
func (o *Owned) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.pending)
}

func (o *Owned) satisfied(ctx context.Context, key types.NamespacedName, write expectation, newest string) (bool, error) {
	if write.verb != deleted && reached(newest, write.version) {
		// A cache that is as new as the write has shown it, even when the object has come and gone meanwhile. The answer to a deletion has no
		// version: that object is always looked up, and a deletion that the cache has shown once stays shown.
		return true, nil
	}
	object := o.kind()
	switch err := o.reader.Get(ctx, key, object); {
	case apierrors.IsNotFound(err):
		return write.verb != created, nil
	case err != nil:
		return false, err
	case write.verb == deleted:
		return object.GetUID() != write.uid || object.GetDeletionTimestamp() != nil, nil
	}
	// Under another UID it is either a successor of the recorded object, or a predecessor whose replacement the cache has not seen: the versions
	// tell which.
	return !older(object.GetResourceVersion(), write.version), nil
}

// overdue reports whether the cache will never show a write, by asking the API server once a minute.
func (o *Owned) overdue(ctx context.Context, owner string, key types.NamespacedName, write expectation) bool {
	now := o.clock.Now()
	if now.Sub(write.asked) < patience {
		return false
	}
	if o.live == nil {
		return true
	}
	o.mu.Lock()
	if current, ok := o.pending[owner][key]; ok {
		current.asked = now
		o.pending[owner][key] = current
	}
	o.mu.Unlock()
	found, err := o.live.find(ctx, o.kind(), key)
	switch {
	case err != nil:
		log.FromContext(ctx).Error(err, "cannot ask the API server about a write that the cache does not show", "object", key.String())
		return false
	case found == nil:
		// Of an object that is gone the cache has still to show the deletion.
		return write.verb != deleted
	case write.verb == deleted:
		return found.UID == write.uid && found.DeletionTimestamp == nil
	}
	return older(found.ResourceVersion, write.version)
}
