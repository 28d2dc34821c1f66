package vcenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	"k8s.io/utils/clock"
)

// maxFormerClone is how long clones of a former process, or of another user, are waited for.
const maxFormerClone = 30 * time.Minute

// unfollowedClones are the clones that this process does not follow: clones that were running when it connected to the vCenter, and clones that it
// requested without getting an answer. Each of them may become the virtual machine of a Machine that has none yet.
type unfollowedClones struct {
	clock clock.PassiveClock
	// found gets a value when there are clones to wait for.
	found chan struct{}

	mu sync.Mutex
	// known is false until they have been read after the connection began.
	known   bool
	pending map[types.ManagedObjectReference]time.Time
	// awaited are the pending clones that a goroutine is waiting for.
	awaited map[types.ManagedObjectReference]bool
	// unanswered says until when clones may begin that were asked for, by the instance UUIDs of their virtual machines.
	unanswered map[string]time.Time
}

func newUnfollowedClones(clock clock.PassiveClock) *unfollowedClones {
	return &unfollowedClones{
		clock: clock, found: make(chan struct{}, 1), pending: map[types.ManagedObjectReference]time.Time{},
		awaited: map[types.ManagedObjectReference]bool{}, unanswered: map[string]time.Time{},
	}
}

// lost has them read again: the vCenter may have begun some while it did not answer.
func (f *unfollowedClones) lost() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = false
}

// mayBegin records that a clone was asked for without an answer, and may begin within a time.
func (f *unfollowedClones) mayBegin(instanceUUID string, within time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.unanswered[strings.ToLower(instanceUUID)] = f.clock.Now().Add(within)
}

// cloned records that a clone has created the virtual machine. An earlier request without an answer can now only fail, because the name is taken.
func (f *unfollowedClones) cloned(instanceUUID string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.unanswered, strings.ToLower(instanceUUID))
}

func (f *unfollowedClones) isKnown() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known
}

// add records the clones that run now.
func (f *unfollowedClones) add(refs []types.ManagedObjectReference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.known = true
	for _, ref := range refs {
		if _, found := f.pending[ref]; !found {
			f.pending[ref] = f.clock.Now().Add(maxFormerClone)
		}
	}
	select {
	case f.found <- struct{}{}:
	default:
	}
}

// toAwait returns the clones that are not being waited for yet. They are from then on.
func (f *unfollowedClones) toAwait() (refs []types.ManagedObjectReference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for ref := range f.pending {
		if !f.awaited[ref] {
			f.awaited[ref] = true
			refs = append(refs, ref)
		}
	}
	return refs
}

func (f *unfollowedClones) ended(ref types.ManagedObjectReference) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.pending, ref)
	delete(f.awaited, ref)
}

// NoUnfollowedClones reports whether no clone is running that this process does not follow, and that could become a virtual machine which the index
// does not have.
func (v *VCenter) NoUnfollowedClones() bool {
	f := v.former
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, until := range f.pending {
		if f.clock.Now().Before(until) {
			return false
		}
	}
	return f.known
}

// MayAppear reports whether a virtual machine that the index does not have may appear: a clone is running that could become it, or was asked for
// and may begin.
func (v *VCenter) MayAppear(instanceUUID string) bool {
	if !v.NoUnfollowedClones() {
		return true
	}
	f := v.former
	f.mu.Lock()
	defer f.mu.Unlock()
	key := strings.ToLower(instanceUUID)
	until, found := f.unanswered[key]
	if found && !f.clock.Now().Before(until) {
		delete(f.unanswered, key)
		found = false
	}
	return found
}

// findFormerClones finds the clones that run, once after each connection.
func (v *VCenter) findFormerClones(ctx context.Context, current *login) error {
	if v.former.isKnown() {
		return nil
	}
	if current.client.ServiceContent.TaskManager == nil {
		return errors.New("reading the recent tasks: the server has no task manager, so it is no vCenter")
	}
	collector := property.DefaultCollector(current.client)
	var manager mo.TaskManager
	if err := collector.RetrieveOne(ctx, *current.client.ServiceContent.TaskManager, []string{"recentTask"}, &manager); err != nil {
		return fmt.Errorf("reading the recent tasks: %w", err)
	}
	followed := v.tasks.running()
	refs := slices.DeleteFunc(manager.RecentTask, func(ref types.ManagedObjectReference) bool { return slices.Contains(followed, ref) })
	recent, err := readTasks(ctx, collector, refs)
	if err != nil {
		return fmt.Errorf("reading the recent tasks: %w", err)
	}
	var clones []types.ManagedObjectReference
	for i := range recent {
		info := &recent[i].Info
		running := info.State == types.TaskInfoStateRunning || info.State == types.TaskInfoStateQueued
		if running && strings.HasPrefix(info.DescriptionId, "VirtualMachine.clone") {
			clones = append(clones, recent[i].Self)
		}
	}
	v.former.add(clones)
	return nil
}

// readTasks reads tasks, all in one call: there may be hundreds. The call fails while one of them is gone, and is repeated without that one.
func readTasks(ctx context.Context, collector *property.Collector, refs []types.ManagedObjectReference) (found []mo.Task, err error) {
	for len(refs) > 0 {
		found = nil
		err := collector.Retrieve(ctx, refs, []string{"info.descriptionId", "info.state"}, &found)
		var gone *types.ManagedObjectNotFound
		if _, isGone := fault.As(err, &gone); !isGone || gone == nil || !slices.Contains(refs, gone.Obj) {
			return found, err
		}
		refs = slices.DeleteFunc(refs, func(ref types.ManagedObjectReference) bool { return ref == gone.Obj })
	}
	return nil, nil
}

// awaitFormerClones waits for the clones of a former process until the context ends. It waits for all of them at the same time, so that a clone that
// hangs delays no other Machine.
func (v *VCenter) awaitFormerClones(ctx context.Context) {
	var group sync.WaitGroup
	defer group.Wait()
	for {
		select {
		case <-v.former.found:
		case <-ctx.Done():
			return
		}
		for _, ref := range v.former.toAwait() {
			group.Go(func() { v.awaitFormerClone(ctx, ref) })
		}
	}
}

// awaitFormerClone waits until a clone has ended, and the index has its virtual machine.
func (v *VCenter) awaitFormerClone(ctx context.Context, ref types.ManagedObjectReference) {
	defer v.former.ended(ref)
	value, err := v.awaitTask(ctx, ref, "")
	if err != nil && !errors.Is(err, ErrTaskForgotten) {
		return
	}
	made, isKnown := value.(types.ManagedObjectReference)
	// How one has ended that is forgotten is not known: the collector reports its virtual machine within this time.
	for until := v.clock.Now().Add(v.limits.Call); ctx.Err() == nil && v.clock.Now().Before(until); v.sleep(ctx, pace) {
		if isKnown && v.index.get(made) != nil {
			return
		}
	}
}
