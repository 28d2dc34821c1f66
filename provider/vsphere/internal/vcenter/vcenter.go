// Package vcenter is what the provider knows of a vCenter and does there: one session for each vCenter and user, an index of the virtual machines
// that one property collector keeps up to date, inventory lookups that are cached, and calls that are limited, batched and counted.
package vcenter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Limits are how long a VCenter is waited for. What is zero is the default.
type Limits struct {
	// Call is for a call that does not wait for anything; 30 seconds.
	Call time.Duration
	// Changes is how long the collector waits for changes in one call; 30 seconds.
	Changes time.Duration
	// Task is the limit for a task, 5 minutes, and Clone the limit for a clone, 30 minutes. A clone that takes longer is canceled.
	Task, Clone time.Duration
}

// orDefault returns the limits with the defaults where they are zero.
func (l Limits) orDefault() Limits {
	return Limits{
		Call: cmp.Or(l.Call, 30*time.Second), Changes: cmp.Or(l.Changes, 30*time.Second), Task: cmp.Or(l.Task, 5*time.Minute),
		Clone: cmp.Or(l.Clone, 30*time.Minute),
	}
}

// Options are the options of a VCenter.
type Options struct {
	// MaxClones is how many clones run at once; zero is 8.
	MaxClones int
	// Limits are how long it is waited for.
	Limits Limits
	// Calls counts the calls.
	Calls Calls
	// Clock returns the time; nil is the real clock.
	Clock clock.Clock
	// Changed is called with the instance UUID of a virtual machine that has changed; with an empty one if any may have changed.
	Changed func(instanceUUID string)
	// IsMachine reports whether the virtual machine with an instance UUID belongs to a Machine. Only such virtual machines can be hidden.
	IsMachine func(instanceUUID string) bool
}

// VCenter is one vCenter as one user sees it.
type VCenter struct {
	endpoint  Endpoint
	limits    Limits
	clock     clock.Clock
	sessions  *sessions
	index     *Index
	tasks     *tasks
	former    *unfollowedClones
	clones    *limiter
	inventory *inventory
	powerOns  *powerOns
	tagging   *batches[string]
	groups    *batches[group]
	disks     *diskReads
	clusters  clusterLocks
}

// New returns a VCenter. Nothing is read before Run.
func New(endpoint Endpoint, credentials Credentials, options Options) *VCenter {
	if options.MaxClones <= 0 {
		options.MaxClones = 8
	}
	if options.Clock == nil {
		options.Clock = clock.RealClock{}
	}
	v := &VCenter{
		endpoint: endpoint, limits: options.Limits.orDefault(), clock: options.Clock, index: newIndex(options.Changed, options.IsMachine),
		tasks:  newTasks(),
		clones: newLimiter(options.MaxClones), former: newUnfollowedClones(options.Clock), inventory: newInventory(options.Clock),
	}
	v.sessions = &sessions{endpoint: endpoint, credentials: credentials, calls: options.Calls, clock: options.Clock, timeout: v.limits.Call}
	v.powerOns = newPowerOns(v)
	v.tagging = newBatches(v.clock, v.attachTag)
	v.groups = newBatches(v.clock, v.changeGroup)
	v.disks = newDiskReads(v)
	return v
}

// Server is the name of the vCenter in workspaces.
func (v *VCenter) Server() string { return v.endpoint.Server }

// Index has the virtual machines.
func (v *VCenter) Index() *Index { return v.index }

// Run keeps the index up to date until the context ends, and ends the session then.
func (v *VCenter) Run(ctx context.Context) {
	var group sync.WaitGroup
	for _, run := range []func(context.Context){
		v.collect, v.followTasks, v.awaitFormerClones, v.powerOns.run, v.tagging.run, v.groups.run, v.disks.run,
	} {
		group.Go(func() { run(ctx) })
	}
	group.Wait()
	// Operations that are still under way must not decide by what it has.
	v.index.lost(&UnavailableError{Server: v.endpoint.Server, Err: errors.New("it is not followed any more")}, v.clock.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	v.sessions.logout(ctx)
}

// do makes calls with the session, and once more with a new one if it has ended.
func (v *VCenter) do(ctx context.Context, call func(context.Context, *login) error) (err error) {
	defer recoverPanic(ctx, &err)
	current, err := v.sessions.get(ctx)
	if err != nil {
		return err
	}
	var refused atomic.Pointer[countedREST]
	err = call(context.WithValue(ctx, refusedKey{}, &refused), current)
	switch ended := refused.Load(); {
	case isSessionEnded(err):
		v.sessions.drop(current, err)
		if current, err = v.sessions.get(ctx); err != nil {
			return err
		}
	case err != nil && ended != nil:
		// The two APIs have sessions of their own, which end at different times.
		current.rest.drop(ended)
	default:
		return stable(err)
	}
	return stable(call(ctx, current))
}

// recoverPanic makes an error of a panic. govmomi takes the answers of a vCenter over by reflection, and panics at an object of another type than it
// was asked for. The author of a Machine chooses the vCenter and names the objects, and must not be able to end the process of all Machines.
func recoverPanic(ctx context.Context, err *error) {
	if reason := recover(); reason != nil {
		*err = fmt.Errorf("the answer of the vCenter is not understood: %v", reason)
		log.FromContext(ctx).Error(*err, "a call of a vCenter has panicked", "stack", string(debug.Stack()))
	}
}

// brief makes calls that wait for nothing, in bounded time.
func (v *VCenter) brief(ctx context.Context, call func(context.Context, *login) error) error {
	ctx, cancel := context.WithTimeout(ctx, v.limits.Call)
	defer cancel()
	return v.do(ctx, call)
}

// sleep waits for a while, or until the context ends.
func (v *VCenter) sleep(ctx context.Context, duration time.Duration) {
	timer := v.clock.NewTimer(duration)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C():
	}
}
