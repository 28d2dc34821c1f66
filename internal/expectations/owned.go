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

// Owned records what a controller has created, updated and deleted of one kind, by owner, until the cache of the kind shows it. A controller that
// counts objects would otherwise create too many while the cache does not show the new ones, and delete too many while it still shows deleted ones.
type Owned struct {
	reader  client.Reader
	live    *Live
	kind    func() client.Object
	version func() string
	clock   clock.PassiveClock

	mu sync.Mutex
	// pending has the last write of each object that the cache may not show yet, by owner.
	pending map[string]map[types.NamespacedName]expectation
	// checks are due for the recorded writes, in this order: writes for an owner that is not reconciled again have to be dropped, too.
	checks []check
}

// check is the time at which a write is compared with the cache although its owner is not reconciled.
type check struct {
	owner string
	key   types.NamespacedName
	due   time.Time
}

// expectation is one write that the cache may not show yet.
type expectation struct {
	verb    verb
	uid     types.UID
	version string
	// asked is when the API server was asked about the write last, at first when it was made.
	asked time.Time
}

type verb int

const (
	created verb = iota
	updated
	deleted
)

// OwnedOptions configure an Owned. With the zero value it looks up each object, and drops an expectation after a minute.
type OwnedOptions struct {
	// Version returns the newest resourceVersion that the cache has seen, empty if that is not known (see StoreVersion).
	Version func() string
	// Live asks the API server about an expectation that is not satisfied for a minute.
	Live *Live
	// Clock returns the time; nil is the real clock.
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

// Created records an object as the API server returned it from its creation.
func (o *Owned) Created(owner string, object client.Object) { o.expect(owner, object, created) }

// Updated records an object as the API server returned it from an update.
func (o *Owned) Updated(owner string, object client.Object) { o.expect(owner, object, updated) }

// Deleted records an object of the cache whose deletion the API server has accepted. It may remain, with a deletion timestamp.
func (o *Owned) Deleted(owner string, object client.Object) { o.expect(owner, object, deleted) }

func (o *Owned) expect(owner string, object client.Object, did verb) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.pending[owner] == nil {
		o.pending[owner] = map[types.NamespacedName]expectation{}
	}
	key, now := client.ObjectKeyFromObject(object), o.clock.Now()
	o.pending[owner][key] = expectation{verb: did, uid: object.GetUID(), version: object.GetResourceVersion(), asked: now}
	o.checks = append(o.checks, check{owner, key, now.Add(pendingTimeout)})
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
	o.sweep(ctx, newest)
	return false, nil
}

// sweep drops the write whose check is due if the cache shows it, and otherwise checks it again a minute later.
func (o *Owned) sweep(ctx context.Context, newest string) {
	next, write, found := o.nextCheck()
	if !found {
		return
	}
	if satisfied, err := o.satisfied(ctx, next.key, write, newest); err == nil && satisfied {
		o.drop(next.owner, next.key, write)
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	next.due = o.clock.Now().Add(pendingTimeout)
	o.checks = append(o.checks, next)
}

// nextCheck removes and returns the first check that is due.
func (o *Owned) nextCheck() (next check, write expectation, found bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.clock.Now()
	for len(o.checks) > 0 && !found && !o.checks[0].due.After(now) {
		next, o.checks = o.checks[0], o.checks[1:]
		write, found = o.pending[next.owner][next.key]
	}
	return next, write, found
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
		// A cache that is as new as the write has shown it, even when the object has been created and deleted meanwhile. The answer to a deletion
		// has no resourceVersion: the object is always looked up, and is recorded as deleted until the cache shows that once.
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
	// An object with another UID is either the successor of the recorded one, or a predecessor whose deletion the cache does not show: the versions
	// decide which.
	return !Older(object.GetResourceVersion(), write.version), nil
}

// overdue reports whether the cache will never show a write. It asks the API server once a minute.
func (o *Owned) overdue(ctx context.Context, owner string, key types.NamespacedName, write expectation) bool {
	now := o.clock.Now()
	if now.Sub(write.asked) < pendingTimeout {
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
		log.FromContext(ctx).Error(err, "reading from the API server what the cache does not show", "object", key.String())
		return false
	case found == nil:
		// The cache does not show the deletion yet.
		return write.verb != deleted
	case write.verb == deleted:
		return found.UID == write.uid && found.DeletionTimestamp == nil
	}
	return Older(found.ResourceVersion, write.version)
}
