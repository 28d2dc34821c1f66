package vcenter

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/vmware/govmomi/task"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// roundTrip answers calls of the SOAP API.
type roundTrip func(request, response soap.HasFault) error

// RoundTrip answers a call.
func (r roundTrip) RoundTrip(_ context.Context, request, response soap.HasFault) error {
	return r(request, response)
}

// newAnswered returns a VCenter that does not run, whose calls a function answers.
func newAnswered(answer roundTrip) *VCenter {
	v := New(Endpoint{Server: "vcenter"}, Credentials{}, Options{Changed: func(string) {}, IsMachine: func(string) bool { return true }})
	v.sessions.current = &login{client: &vim25.Client{RoundTripper: answer}}
	return v
}

// TestPowerOn: a virtual machine whose power-on hangs, or that is gone, does not block the others of its datacenter.
func TestPowerOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const taskTime = 2 * time.Second
		datacenter, missing := types.ManagedObjectReference{Type: "Datacenter", Value: "dc"}, ref("gone")
		vms := map[types.ManagedObjectReference]*VM{}
		for _, name := range []string{"hangs", "good", "other", "broken", "gone"} {
			vms[ref(name)] = newVM(name, name)
		}
		var v *VCenter
		taskOf := func(vm types.ManagedObjectReference) *types.ManagedObjectReference {
			return &types.ManagedObjectReference{Type: "Task", Value: "task-" + vm.Value}
		}
		end := func(vm types.ManagedObjectReference) {
			switch vm.Value {
			case "hangs":
			case "broken":
				v.tasks.end(*taskOf(vm), result{err: &task.Error{LocalizedMethodFault: &types.LocalizedMethodFault{Fault: &types.InvalidState{}}}})
			default:
				on := *vms[vm]
				on.State = types.VirtualMachinePowerStatePoweredOn
				v.index.update(map[types.ManagedObjectReference]*VM{vm: &on})
			}
		}
		v = newAnswered(func(request, response soap.HasFault) error {
			called, _ := request.(*methods.PowerOnMultiVM_TaskBody)
			answer, _ := response.(*methods.PowerOnMultiVM_TaskBody)
			if called == nil || answer == nil {
				return errors.New("it is another call")
			}
			if slices.Contains(called.Req.Vm, missing) {
				return soap.WrapVimFault(&types.ManagedObjectNotFound{Obj: missing})
			}
			answer.Res = &types.PowerOnMultiVM_TaskResponse{Returnval: *taskOf(called.Req.Vm[0])}
			answer.Res.Returnval.Value += "-together"
			outcome := types.ClusterPowerOnVmResult{}
			for _, vm := range called.Req.Vm {
				outcome.Attempted = append(outcome.Attempted, types.ClusterAttemptedVmInfo{Vm: vm, Task: taskOf(vm)})
			}
			time.AfterFunc(taskTime, func() { v.tasks.end(answer.Res.Returnval, result{value: outcome}) })
			time.AfterFunc(2*taskTime, func() {
				for _, vm := range called.Req.Vm {
					end(vm)
				}
			})
			return nil
		})
		v.index.replace(vms)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go v.powerOns.run(ctx)
		begin := func(name string) <-chan error {
			done := make(chan error, 1)
			go func() { done <- v.PowerOn(ctx, datacenter, newVM(name, name)) }()
			return done
		}
		began := time.Now()
		hangs, good, gone := begin("hangs"), begin("good"), begin("gone")
		if err := <-gone; !isGone(err, missing) {
			t.Errorf("one that is gone: %v", err)
		}
		if err := <-good; err != nil {
			t.Errorf("one that was asked for with it: %v", err)
		}
		other, broken := begin("other"), begin("broken")
		if err := <-other; err != nil {
			t.Error(err)
		}
		if err := <-broken; !isFault(err) {
			t.Errorf("one whose task fails: %v", err)
		}
		if took := time.Since(began); took > 5*taskTime {
			t.Errorf("the others take %s", took)
		}
		if err := <-hangs; !errors.Is(err, context.DeadlineExceeded) || len(v.powerOns.attempts) > 0 {
			t.Errorf("one that hangs: %v; %v are left", err, v.powerOns.attempts)
		}
	})
}

// TestIsFault: only what the vCenter says is a fault, and not what keeps it from being asked.
func TestIsFault(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want bool
	}{
		"none":          {nil, false},
		"a name server": {&url.Error{Op: "Post", Err: &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host"}}}, false},
		"a fault":       {fmt.Errorf("powering on: %w", soap.WrapVimFault(&types.NoPermission{})), true},
	} {
		if got := isFault(c.err); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
