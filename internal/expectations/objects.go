// Package expectations reports whether the cache shows a write yet, before a controller decides by what the cache shows.
//
// Two writers matter. A controller's own writes reach its cache a moment after the API server has answered: Objects and Owned record those
// answers, and report what the cache does not show. The writes of the previous leader are not recorded anywhere: LeaderBarrier compares the caches
// with the API server once, after leadership is acquired and before any worker starts.
package expectations

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// pendingTimeout is how long a cache may lag behind a write before the API server is asked whether it has the write.
const pendingTimeout = time.Minute

// Objects records a controller's own last write of each object, by UID. A decision by a cache that does not show the write yet would repeat or
// undo it.
type Objects struct {
	live  *Live
	clock clock.PassiveClock

	mu      sync.Mutex
	written map[string]Write
	// pending has the time at which the cache was first seen to lag behind the last write of an object.
	pending map[string]time.Time
	// sending are the objects whose writes are being sent.
	sending map[string]*sending
}

// sending is what waits for the answers to the writes of an object.
type sending struct {
	writes    int
	postponed []func()
}

// Write is one of a controller's own writes.
type Write struct {
	// Version is the resourceVersion of the API server's answer.
	Version string
	// Exact reports whether the answer had exactly what was decided: no change of another writer, except of taints.
	Exact bool
	// Taints reports whether the write changed the taints, which is guarded by the taints that were observed.
	Taints bool
	// Awaited reports whether a reconciliation is to follow when the cache shows this write, also because one was delayed until then.
	Awaited bool
}

// NewObjects returns an empty tracker. live is asked about a write that the cache does not show for a minute; with nil such a write is dropped. A nil
// clock is the real one.
func NewObjects(live *Live, passive clock.PassiveClock) *Objects {
	if passive == nil {
		passive = clock.RealClock{}
	}
	return &Objects{live: live, clock: passive, written: map[string]Write{}, pending: map[string]time.Time{}, sending: map[string]*sending{}}
}

// Expect records a write of the object with this UID.
func (o *Objects) Expect(uid string, last Write) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written[uid] = last
	delete(o.pending, uid)
}

// Send sends a write of the object with this UID, and records it as Expect does unless it has failed. send returns the write, and whether it was
// made.
func (o *Objects) Send(uid string, send func() (last Write, made bool)) {
	o.mu.Lock()
	current := o.sending[uid]
	if current == nil {
		current = &sending{}
		o.sending[uid] = current
	}
	current.writes++
	o.mu.Unlock()
	defer func() {
		for _, do := range o.answered(uid, current) {
			do()
		}
	}()
	if last, made := send(); made {
		o.Expect(uid, last)
	}
}

// answered ends one of the writes of an object, and returns what waited for the last of them.
func (o *Objects) answered(uid string, current *sending) []func() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if current.writes--; current.writes > 0 {
		return nil
	}
	delete(o.sending, uid)
	return current.postponed
}

// Handle calls a function for an event of the object with this UID; while a write of it is sent, after the answer. The event of a write often comes
// before the answer, without which it is not known whose write that was.
func (o *Objects) Handle(uid string, event func()) {
	o.mu.Lock()
	current := o.sending[uid]
	if current != nil {
		current.postponed = append(current.postponed, event)
	}
	o.mu.Unlock()
	if current == nil {
		event()
	}
}

// Pending reports whether an object from the cache is older than the last write of it. Versions that cannot be compared are not pending. A
// write that no cache will ever show (etcd was restored from a backup, and versions went back) is dropped after a minute.
func (o *Objects) Pending(ctx context.Context, cached client.Object) bool {
	uid := string(cached.GetUID())
	last, overdue := o.observe(uid, cached.GetResourceVersion())
	if last.Version == "" {
		return false
	}
	if overdue && !o.live.has(ctx, cached, last.Version) {
		return !o.drop(uid, last.Version)
	}
	return true
}

// drop drops the last write of an object, and reports whether it was this one.
func (o *Objects) drop(uid, version string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.written[uid].Version != version {
		return false
	}
	delete(o.written, uid)
	delete(o.pending, uid)
	return true
}

// observe compares a version from the cache with the last write. It returns the zero Write when the cache shows the write, or none is recorded;
// otherwise it records that the write is awaited. overdue reports whether the API server is to be asked about it, which happens once a minute.
func (o *Objects) observe(uid, version string) (last Write, overdue bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, ok := o.written[uid]
	if !ok || !Older(version, last.Version) {
		delete(o.pending, uid)
		return Write{}, false
	}
	now := o.clock.Now()
	since, known := o.pending[uid]
	if !known {
		since = now
		o.pending[uid] = since
	}
	if overdue = now.Sub(since) >= pendingTimeout; overdue {
		o.pending[uid] = now
	}
	last.Awaited = true
	o.written[uid] = last
	return last, overdue
}

// Own returns the last write, and reports whether the write made a version: no other writer has changed the object since.
func (o *Objects) Own(uid, version string) (Write, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last := o.written[uid]
	return last, last.Version == version
}

// Forget drops an object that is gone, and a write of it that is being sent.
func (o *Objects) Forget(uid string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.written, uid)
	delete(o.pending, uid)
	if current := o.sending[uid]; current != nil {
		current.postponed = append(current.postponed, func() { o.Forget(uid) })
	}
}

// Len returns the number of objects with a recorded write.
func (o *Objects) Len() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.written)
}
