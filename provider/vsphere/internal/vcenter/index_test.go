package vcenter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25/types"
)

func ref(value string) types.ManagedObjectReference {
	return types.ManagedObjectReference{Type: "VirtualMachine", Value: value}
}

// newVM returns a virtual machine whose reference is its name.
func newVM(name, instanceUUID string) *VM {
	return &VM{Ref: ref(name), Name: name, InstanceUUID: instanceUUID, State: types.VirtualMachinePowerStatePoweredOff}
}

func TestIndex(t *testing.T) {
	var changed []string
	index := newIndex(func(uuid string) { changed = append(changed, uuid) }, func(string) bool { return true })
	if _, err := index.Get("a"); !errors.Is(err, ErrStarting) {
		t.Errorf("before it is complete: %v", err)
	}
	template := newVM("t", "c")
	template.IsTemplate = true
	index.replace(map[types.ManagedObjectReference]*VM{ref("one"): newVM("one", "AA"), ref("t"): template})
	if vm, err := index.Get("aa"); err != nil || vm == nil || vm.Name != "one" {
		t.Errorf("%+v, %v", vm, err)
	}
	if vm, err := index.Get("c"); err != nil || vm != nil {
		t.Errorf("a template is found: %+v, %v", vm, err)
	}
	woken := index.next("bb")
	index.update(map[types.ManagedObjectReference]*VM{ref("two"): newVM("two", "BB")})
	select {
	case <-woken:
	default:
		t.Error("who waits for it is not woken")
	}
	index.update(map[types.ManagedObjectReference]*VM{ref("three"): newVM("three", "bb")})
	var twice *DuplicateError
	if _, err := index.Get("bb"); !errors.As(err, &twice) || !strings.Contains(err.Error(), "have the same instance UUID bb") {
		t.Errorf("two have the same UUID: %v", err)
	}
	index.update(map[types.ManagedObjectReference]*VM{ref("two"): nil})
	if vm, err := index.Get("bb"); err != nil || vm == nil || vm.Name != "three" {
		t.Errorf("%+v, %v", vm, err)
	}
	if found, err := index.Find("three"); err != nil || len(found) != 1 {
		t.Errorf("%v, %v", found, err)
	}
	index.lost(&UnavailableError{Server: "vcenter", Err: errors.New("broken")}, time.Now())
	if _, err := index.Get("aa"); err == nil || !strings.Contains(err.Error(), "vCenter vcenter is not available: broken") {
		t.Errorf("after the connection is lost: %v", err)
	}
	if got := strings.Join(changed, " "); got != " bb bb bb" {
		t.Errorf("changed: %s", got)
	}
}

// TestIndex_Lost: an index that cannot be read for a while has one reason for that, not a new one each second.
func TestIndex_Lost(t *testing.T) {
	index, now := newIndex(func(string) {}, func(string) bool { return true }), time.Now()
	text := func() string {
		_, err := index.Get("a")
		return fmt.Sprint(err)
	}
	for _, step := range []struct {
		after      time.Duration
		err, wants string
	}{{0, "first", "first"}, {time.Second, "second", "first"}, {keepLost, "third", "third"}} {
		now = now.Add(step.after)
		index.lost(errors.New(step.err), now)
		if got := text(); got != step.wants {
			t.Errorf("after %s it says %q, want %q", step.err, got, step.wants)
		}
	}
	index.replace(nil)
	index.lost(errors.New("fourth"), now)
	if got := text(); got != "fourth" {
		t.Errorf("after it was ready it says %q", got)
	}
}

func TestLimiter(t *testing.T) {
	l := newLimiter(4)
	for range 4 {
		if err := l.acquire(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	overloaded := &task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: &types.LimitExceeded{}}}
	l.release(overloaded)
	if l.limit != 2 || l.running != 3 {
		t.Errorf("when it is overloaded %d of %d run", l.running, l.limit)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.acquire(canceled); err == nil {
		t.Error("a place is given beyond the limit")
	}
	for range 3 {
		l.release(nil)
	}
	if l.limit != 4 || l.running != 0 || len(l.waiting) != 0 {
		t.Errorf("after all %d of %d run", l.running, l.limit)
	}
}

// TestIndex_Replace: a sweep reports what has changed since the last one, and everything after a time without the index.
func TestIndex_Replace(t *testing.T) {
	var changed []string
	index := newIndex(func(uuid string) { changed = append(changed, uuid) }, func(string) bool { return true })
	expect := func(when string, want ...string) {
		t.Helper()
		slices.Sort(changed)
		if !slices.Equal(changed, want) {
			t.Errorf("%s: %q are reported, want %q", when, changed, want)
		}
		changed = nil
	}
	on := newVM("on", "on")
	on.State = types.VirtualMachinePowerStatePoweredOn
	sweep := func(vms ...*VM) {
		all := map[types.ManagedObjectReference]*VM{}
		for _, vm := range vms {
			all[vm.Ref] = vm
		}
		index.replace(all)
	}
	sweep(on, newVM("same", "same"), newVM("gone", "GONE"), newVM("moved", "from"))
	expect("the first", "")
	sweep(newVM("on", "on"), newVM("same", "same"), newVM("new", "new"), newVM("moved", "to"), newVM("unknown", ""))
	expect("another one", "from", "gone", "new", "on", "to")
	index.lost(errors.New("lost"), time.Now())
	index.replace(map[types.ManagedObjectReference]*VM{})
	expect("one after an outage", "")
}

// TestAddressesOf: the guest reports its addresses itself.
func TestAddressesOf(t *testing.T) {
	long := "fd00::1%" + strings.Repeat("z", 100)
	nic := types.GuestNicInfo{IpAddress: []string{"fe80::1", "127.0.0.1", "fd00::1%eth0", "10.0.0.1", long, "none"}}
	for range 100 {
		nic.IpAddress = append(nic.IpAddress, "10.0.0.2")
	}
	got := addressesOf([]types.GuestNicInfo{nic})
	if len(got) != maxAddresses || got[0].String() != "fd00::1" || got[1].String() != "10.0.0.1" || got[2].String() != "10.0.0.2" {
		t.Errorf("%d addresses: %v", len(got), got)
	}
}
