package vcenter

import (
	"context"
	"errors"
	"sync"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

// views has container views follow the inventory in a goroutine of their own. The simulator's views follow it in the goroutine that makes a change,
// which can deadlock: the change holds the lock of a virtual machine and waits for the lock of the view, the view waits for a filter, and the filter
// waits for the virtual machine:
// https://github.com/vmware/govmomi/blob/v0.52.0/simulator/view_manager.go#L200
// https://github.com/vmware/govmomi/blob/v0.52.0/simulator/property_filter.go#L68
type views struct{ *simulator.ViewManager }

// replaceViews puts views in the place of the simulator's.
func (s *Server) replaceViews() error {
	registry := s.model.Map()
	for _, object := range registry.AllReference("ViewManager") {
		if manager, ok := object.(*simulator.ViewManager); ok {
			registry.Put(&views{manager})
			return nil
		}
	}
	return errors.New("the simulator has no ViewManager")
}

// CreateContainerView creates a view that follows the inventory in a goroutine.
func (v *views) CreateContainerView(ctx *simulator.Context, request *types.CreateContainerView) soap.HasFault {
	answer := v.ViewManager.CreateContainerView(ctx, request)
	if body, ok := answer.(*methods.CreateContainerViewBody); ok && body.Res != nil {
		if container, ok := ctx.Session.Get(body.Res.Returnval).(*simulator.ContainerView); ok {
			ctx.Map.AddHandler(&follower{ContainerView: container})
		}
	}
	return answer
}

// follower takes changes of the inventory over, in their order.
type follower struct {
	*simulator.ContainerView

	mu      sync.Mutex
	waiting []func()
	running bool
}

// PutObject takes a new object over.
func (f *follower) PutObject(ctx *simulator.Context, object mo.Reference) {
	own := background(ctx)
	f.add(func() { f.ContainerView.PutObject(own, object) })
}

// RemoveObject drops an object that is gone.
func (f *follower) RemoveObject(ctx *simulator.Context, ref types.ManagedObjectReference) {
	own := background(ctx)
	f.add(func() { f.ContainerView.RemoveObject(own, ref) })
}

// background returns a context that shares no lock with the one of a request.
func background(ctx *simulator.Context) *simulator.Context {
	return &simulator.Context{Context: context.Background(), Session: ctx.Session, Map: ctx.Map}
}

func (f *follower) add(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting = append(f.waiting, change)
	if !f.running {
		f.running = true
		go f.run()
	}
}

func (f *follower) run() {
	for next := f.next(); next != nil; next = f.next() {
		next()
	}
}

// next returns the change that comes next; nil if there is none.
func (f *follower) next() func() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.waiting) == 0 {
		f.running = false
		return nil
	}
	next := f.waiting[0]
	f.waiting = f.waiting[1:]
	return next
}
