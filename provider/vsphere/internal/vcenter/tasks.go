package vcenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

// pollTasks is how often running tasks are looked at, all in one call. A change of a virtual machine that one of them concerns is a reason to look
// at once.
const pollTasks = time.Second

// ErrTaskForgotten is the error of a task that its vCenter does not know any more: it has ended, and how is seen in what it has done.
var ErrTaskForgotten = errors.New("the vCenter does not know the task any more")

// tasks are the tasks that Drover waits for.
type tasks struct {
	mu      sync.Mutex
	pending map[types.ManagedObjectReference][]chan result
	poke    chan struct{}
}

// result is how a task has ended.
type result struct {
	value any
	err   error
}

func newTasks() *tasks {
	return &tasks{pending: map[types.ManagedObjectReference][]chan result{}, poke: make(chan struct{}, 1)}
}

// add waits for a task. The channel gets one result, unless it is removed before.
func (t *tasks) add(ref types.ManagedObjectReference) (ended <-chan result, remove func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	done := make(chan result, 1)
	t.pending[ref] = append(t.pending[ref], done)
	return done, func() { t.remove(ref, done) }
}

func (t *tasks) remove(ref types.ManagedObjectReference, done chan result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := slices.DeleteFunc(t.pending[ref], func(other chan result) bool { return other == done })
	if t.pending[ref] = left; len(left) == 0 {
		delete(t.pending, ref)
	}
}

func (t *tasks) running() (refs []types.ManagedObjectReference) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for ref := range t.pending {
		refs = append(refs, ref)
	}
	return refs
}

func (t *tasks) end(ref types.ManagedObjectReference, ended result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, done := range t.pending[ref] {
		done <- ended
	}
	delete(t.pending, ref)
}

// lookNow has the tasks looked at soon.
func (t *tasks) lookNow() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}

// followTasks looks at the tasks until the context ends: less and less often until something changes.
func (v *VCenter) followTasks(ctx context.Context) {
	var failing time.Duration
	for wait := pollTasks; ; wait = min(2*wait, pollTasks) {
		timer := v.clock.NewTimer(max(wait, failing))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-v.tasks.poke:
			timer.Stop()
			v.sleep(ctx, max(pace, failing))
			wait = pace
		case <-timer.C():
		}
		if refs := v.tasks.running(); len(refs) > 0 {
			// What fails is tried again, less and less often; those who wait have deadlines of their own.
			err := v.brief(ctx, func(ctx context.Context, current *login) error { return v.observeTasks(ctx, current, refs) })
			failing = pollAgain(failing, err)
		}
	}
}

// pollAgain returns how long tasks are not looked at, at least, after that has failed or succeeded.
func pollAgain(before time.Duration, err error) time.Duration {
	if err == nil {
		return 0
	}
	return min(max(2*before, pollTasks), maxCollectRetry)
}

// observeTasks reads the tasks and passes the results of finished tasks to their waiters.
func (v *VCenter) observeTasks(ctx context.Context, current *login, refs []types.ManagedObjectReference) error {
	var found []mo.Task
	err := property.DefaultCollector(current.client).Retrieve(ctx, refs, []string{"info.state", "info.error", "info.result"}, &found)
	var gone *types.ManagedObjectNotFound
	if _, isGone := fault.As(err, &gone); isGone && gone != nil {
		v.tasks.end(gone.Obj, result{err: ErrTaskForgotten})
		v.tasks.lookNow()
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading tasks: %w", err)
	}
	for i := range found {
		info := &found[i].Info
		switch info.State {
		case types.TaskInfoStateSuccess:
			v.tasks.end(found[i].Self, result{value: info.Result})
		case types.TaskInfoStateError:
			v.tasks.end(found[i].Self, result{err: &task.Error{LocalizedMethodFault: info.Error}})
		}
	}
	return nil
}

// awaitTask waits for a task that has just been started, and returns its result. A change of the virtual machine with the instance UUID, if one is
// given, is a reason to look at the task.
func (v *VCenter) awaitTask(ctx context.Context, ref types.ManagedObjectReference, instanceUUID string) (any, error) {
	ended, remove := v.tasks.add(ref)
	defer remove()
	for {
		var next <-chan struct{}
		if instanceUUID != "" {
			next = v.index.next(instanceUUID)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-next:
			v.tasks.lookNow()
		case outcome := <-ended:
			return outcome.value, outcome.err
		}
	}
}

// isAsWanted reports whether a virtual machine is as wanted; it is to be gone if wanted is nil.
func isAsWanted(vm *VM, wanted func(*VM) bool) bool {
	if wanted == nil {
		return vm == nil
	}
	return wanted(vm)
}

// awaitVM waits until a virtual machine is as wanted, or the task that is to bring that about has failed. It is to be gone if wanted is nil: then the
// end of the task is enough.
func (v *VCenter) awaitVM(ctx context.Context, instanceUUID string, ref *types.ManagedObjectReference, wanted func(*VM) bool) error {
	var ended <-chan result
	if ref != nil {
		waiting, remove := v.tasks.add(*ref)
		defer remove()
		ended = waiting
	}
	for {
		next := v.index.next(instanceUUID)
		if vm, err := v.index.Get(instanceUUID); err == nil && isAsWanted(vm, wanted) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-next:
		case outcome := <-ended:
			isKnown := !errors.Is(outcome.err, ErrTaskForgotten)
			if isKnown && (outcome.err != nil || wanted == nil) {
				return outcome.err
			}
			ended = nil
		}
	}
}
