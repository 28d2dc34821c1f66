package vcenter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/vim25/types"
	testclock "k8s.io/utils/clock/testing"
)

// TestFormerClones: a virtual machine may appear while a clone runs that this process does not follow, and after a request without an answer.
func TestFormerClones(t *testing.T) {
	now := testclock.NewFakePassiveClock(time.Now())
	v := &VCenter{former: newUnfollowedClones(now)}
	expect := func(when string, settled, mayAppear bool) {
		t.Helper()
		if v.NoUnfollowedClones() != settled || v.MayAppear("A") != mayAppear {
			t.Errorf("%s: settled %t, may appear %t", when, v.NoUnfollowedClones(), v.MayAppear("A"))
		}
	}
	expect("before they are known", false, true)
	clone := types.ManagedObjectReference{Type: "Task", Value: "task-1"}
	v.former.add([]types.ManagedObjectReference{clone})
	expect("while one runs", false, true)
	v.former.ended(clone)
	expect("when it has ended", true, false)
	v.former.mayBegin("a", time.Minute)
	expect("after a request without an answer", true, true)
	now.SetTime(now.Now().Add(time.Minute))
	expect("a while after it", true, false)
	v.former.mayBegin("a", time.Minute)
	v.former.cloned("a")
	expect("after another request with a virtual machine", true, false)
	v.former.lost()
	expect("after the connection was lost", false, true)
}

// TestAwaitFormerClones: each clone is waited for beside the others, until the index has its virtual machine.
func TestAwaitFormerClones(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := New(Endpoint{}, Credentials{}, Options{Changed: func(string) {}})
		v.index.replace(map[types.ManagedObjectReference]*VM{})
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { v.awaitFormerClones(ctx) })
		defer func() { cancel(); group.Wait() }()
		task := func(name string) types.ManagedObjectReference {
			return types.ManagedObjectReference{Type: "Task", Value: name}
		}
		pending := func(when string, want ...string) {
			t.Helper()
			synctest.Wait()
			v.former.mu.Lock()
			defer v.former.mu.Unlock()
			for _, name := range want {
				if _, found := v.former.pending[task(name)]; !found || len(v.former.pending) != len(want) {
					t.Errorf("%s: %v are waited for, want %q", when, v.former.pending, want)
				}
			}
		}
		v.former.add([]types.ManagedObjectReference{task("hangs"), task("failed"), task("made"), task("forgotten")})
		pending("all run", "hangs", "failed", "made", "forgotten")
		made := newVM("made", "made")
		v.tasks.end(task("failed"), result{err: errors.New("no space")})
		v.tasks.end(task("made"), result{value: made.Ref})
		v.tasks.end(task("forgotten"), result{err: ErrTaskForgotten})
		pending("three have ended", "hangs", "made", "forgotten")
		v.index.update(map[types.ManagedObjectReference]*VM{made.Ref: made})
		time.Sleep(pace)
		pending("the index has the virtual machine of one", "hangs", "forgotten")
		time.Sleep(v.limits.Call)
		pending("the collector had its time", "hangs")
	})
}

// TestTasks: each who waits for a task gets its result.
func TestTasks(t *testing.T) {
	tasks, ref := newTasks(), types.ManagedObjectReference{Type: "Task", Value: "task-1"}
	one, _ := tasks.add(ref)
	_, remove := tasks.add(ref)
	three, _ := tasks.add(ref)
	remove()
	tasks.end(ref, result{value: "done"})
	if first, second := <-one, <-three; first.value != "done" || second.value != "done" || len(tasks.running()) > 0 {
		t.Errorf("%v, %v; %v run", first, second, tasks.running())
	}
}

// TestVM_Set: a virtual machine keeps its identity when its configuration is not reported any more.
func TestVM_Set(t *testing.T) {
	vm := &VM{}
	for _, change := range []types.PropertyChange{
		{Name: propertyUUID, Val: "b"}, {Name: propertyInstance, Val: "i"}, {Name: propertyCards, Val: int32(2)}, {Name: propertyName, Val: "name"},
		{Name: propertyUUID}, {Name: propertyInstance}, {Name: propertyCards}, {Name: propertyDisks, Val: int32(1)},
	} {
		vm.set(&change)
	}
	if vm.UUID != "b" || vm.InstanceUUID != "i" || vm.Cards != 2 || vm.Disks != 1 || vm.Name != "name" {
		t.Errorf("%+v", vm)
	}
}
