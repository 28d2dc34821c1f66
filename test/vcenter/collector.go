package vcenter

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vmware/govmomi/simulator"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/soap"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	// machineKind is the kind of the objects that a collector follows.
	machineKind = "VirtualMachine"
	// gather is how long a collector waits for more changes after the first one, as the simulator's does.
	gather = 20 * time.Millisecond
	// maxUpdates is how many objects an answer has at most.
	maxUpdates = 100
)

// collector reports what has changed of the virtual machines of a view at a cost that depends on the changes, as a vCenter does. The simulator's
// reads all objects of a filter again for each change of any object, and thousands of them take minutes of processor time:
// https://github.com/vmware/govmomi/blob/v0.52.0/simulator/property_collector.go#L928 Filters of other objects, such as tasks, are left to the
// simulator.
type collector struct {
	simulator.PropertyCollector

	followed *followed
}

// replaceCollector puts a collector in the place of the simulator's. Each session gets one of its own of the same type.
func (s *Server) replaceCollector() error {
	registry := s.model.Map()
	for _, object := range registry.AllReference("PropertyCollector") {
		own := &collector{}
		own.Self = object.Reference()
		registry.Put(own)
		return nil
	}
	return errors.New("the simulator has no PropertyCollector")
}

// created numbers the collectors.
var created atomic.Int64

// CreatePropertyCollector creates a collector of the same kind.
func (c *collector) CreatePropertyCollector(ctx *simulator.Context, _ *types.CreatePropertyCollector) soap.HasFault {
	own := &collector{}
	own.Self = types.ManagedObjectReference{Type: "PropertyCollector", Value: fmt.Sprintf("followed-%d", created.Add(1))}
	return &methods.CreatePropertyCollectorBody{Res: &types.CreatePropertyCollectorResponse{Returnval: ctx.Session.Put(own).Reference()}}
}

// WaitForUpdatesEx returns what has changed since the last call, and waits for a change if there is none.
func (c *collector) WaitForUpdatesEx(ctx *simulator.Context, request *types.WaitForUpdatesEx) soap.HasFault {
	paths, follows := c.machinesOfView(ctx)
	if !follows {
		return c.PropertyCollector.WaitForUpdatesEx(ctx, request)
	}
	body := &methods.WaitForUpdatesExBody{Res: &types.WaitForUpdatesExResponse{}}
	switch {
	case request.Version == "":
		c.followed = newFollowed(c.Self)
		ctx.Map.AddHandler(c.followed)
		for _, object := range ctx.Map.AllReference(machineKind) {
			c.followed.note(object.Reference(), false)
		}
		c.collect(ctx, paths)
	case len(c.followed.pending) == 0:
		limit := -1
		if options := request.Options; options != nil && options.MaxWaitSeconds != nil {
			limit = int(*options.MaxWaitSeconds)
		}
		switch c.wait(ctx, paths, limit) {
		case outOfTime:
			return body
		case canceled:
			return &methods.WaitForUpdatesExBody{Fault_: simulator.Fault("", &types.RequestCanceled{})}
		}
	}
	most := maxUpdates
	if options := request.Options; options != nil && options.MaxObjectUpdates > 0 {
		most = min(most, int(options.MaxObjectUpdates))
	}
	body.Res.Returnval = c.followed.page(c.Filter[0], most)
	return body
}

// CancelWaitForUpdates ends a call that waits.
func (c *collector) CancelWaitForUpdates(request *types.CancelWaitForUpdates) soap.HasFault {
	if c.followed != nil {
		c.followed.cancel()
	}
	return c.PropertyCollector.CancelWaitForUpdates(request)
}

// DestroyPropertyCollector ends the collector, and a call that waits.
func (c *collector) DestroyPropertyCollector(ctx *simulator.Context, request *types.DestroyPropertyCollector) soap.HasFault {
	if c.followed != nil {
		c.followed.cancel()
	}
	return c.PropertyCollector.DestroyPropertyCollector(ctx, request)
}

// machinesOfView returns which properties the one filter has, if it is one of the virtual machines of a view of the whole inventory.
func (c *collector) machinesOfView(ctx *simulator.Context) (paths []string, follows bool) {
	if len(c.Filter) != 1 {
		return nil, false
	}
	filter, ok := ctx.Session.Get(c.Filter[0]).(*simulator.PropertyFilter)
	if !ok || len(filter.Spec.ObjectSet) != 1 || len(filter.Spec.PropSet) != 1 || filter.Spec.PropSet[0].Type != machineKind {
		return nil, false
	}
	view, ok := ctx.Session.Get(filter.Spec.ObjectSet[0].Obj).(*simulator.ContainerView)
	if !ok {
		return nil, false
	}
	root, ok := ctx.Map.Get(view.Container).(mo.Entity)
	return filter.Spec.PropSet[0].PathSet, ok && root.Entity().Parent == nil
}

// waited is how a wait ended.
type waited int

const (
	changed waited = iota
	outOfTime
	canceled
)

// wait waits until a property has changed, for so many seconds; for less than zero without limit.
func (c *collector) wait(ctx *simulator.Context, paths []string, seconds int) waited {
	var limit <-chan time.Time
	if seconds >= 0 {
		limit = time.After(time.Duration(seconds) * time.Second)
	}
	for {
		select {
		case <-ctx.Done():
			return canceled
		case <-c.followed.canceled:
			return canceled
		case <-limit:
			return outOfTime
		case <-c.followed.noted:
			time.Sleep(gather)
			if c.collect(ctx, paths); len(c.followed.pending) > 0 {
				return changed
			}
		}
	}
}

// collect reads the virtual machines that may have changed, and adds what has changed of them to what is pending.
func (c *collector) collect(ctx *simulator.Context, paths []string) {
	f := c.followed
	for ref, removed := range f.take() {
		var now map[string]types.AnyType
		if !removed {
			now = c.read(ctx, ref, paths)
		}
		before, known := f.reported[ref]
		update := types.ObjectUpdate{Obj: ref, Kind: types.ObjectUpdateKindModify}
		switch {
		case now == nil && known:
			update.Kind = types.ObjectUpdateKindLeave
			delete(f.reported, ref)
		case now == nil:
			continue
		case !known:
			update.Kind = types.ObjectUpdateKindEnter
		}
		if now != nil {
			f.reported[ref] = now
			update.ChangeSet = changesOf(before, now, paths)
		}
		if update.Kind != types.ObjectUpdateKindModify || len(update.ChangeSet) > 0 {
			f.pending = append(f.pending, update)
		}
	}
}

// changesOf returns the properties that differ. A property that is not set any more has no value.
func changesOf(before, now map[string]types.AnyType, paths []string) (changes []types.PropertyChange) {
	for _, path := range paths {
		if !reflect.DeepEqual(before[path], now[path]) {
			changes = append(changes, types.PropertyChange{Name: path, Op: types.PropertyChangeOpAssign, Val: now[path]})
		}
	}
	return changes
}

// read returns the properties of a virtual machine that are set; nil if the virtual machine is gone.
func (c *collector) read(ctx *simulator.Context, ref types.ManagedObjectReference, paths []string) map[string]types.AnyType {
	answer := c.RetrievePropertiesEx(ctx, &types.RetrievePropertiesEx{SpecSet: []types.PropertyFilterSpec{{
		ObjectSet: []types.ObjectSpec{{Obj: ref}}, PropSet: []types.PropertySpec{{Type: machineKind, PathSet: paths}},
		ReportMissingObjectsInResults: types.NewBool(true),
	}}})
	body, ok := answer.(*methods.RetrievePropertiesExBody)
	if !ok || body.Res == nil || body.Res.Returnval == nil || len(body.Res.Returnval.Objects) == 0 {
		return nil
	}
	values := map[string]types.AnyType{}
	for _, property := range body.Res.Returnval.Objects[0].PropSet {
		values[property.Name] = property.Val
	}
	return values
}

// followed is what a collector knows of the virtual machines. Its methods are called with locks of the simulator, and take none of them.
type followed struct {
	self types.ManagedObjectReference
	// noted has an element after a change, canceled is closed when no call may wait any more.
	noted, canceled chan struct{}
	end             sync.Once

	mu sync.Mutex
	// changed are the virtual machines that may have changed, and whether they are gone.
	changed map[types.ManagedObjectReference]bool

	// reported are the properties as they were reported, pending is what is reported next, and version counts the answers. Only WaitForUpdatesEx uses
	// them, and its calls do not overlap.
	reported map[types.ManagedObjectReference]map[string]types.AnyType
	pending  []types.ObjectUpdate
	version  int
}

func newFollowed(self types.ManagedObjectReference) *followed {
	return &followed{
		self: self, noted: make(chan struct{}, 1), canceled: make(chan struct{}),
		changed: map[types.ManagedObjectReference]bool{}, reported: map[types.ManagedObjectReference]map[string]types.AnyType{},
	}
}

// Reference returns the reference of the collector, so that the simulator removes the handler with the collector.
func (f *followed) Reference() types.ManagedObjectReference { return f.self }

// PutObject notes a new object.
func (f *followed) PutObject(_ *simulator.Context, object mo.Reference) {
	f.note(object.Reference(), false)
}

// UpdateObject notes a change.
func (f *followed) UpdateObject(_ *simulator.Context, object mo.Reference, _ []types.PropertyChange) {
	f.note(object.Reference(), false)
}

// RemoveObject notes an object that is about to go.
func (f *followed) RemoveObject(_ *simulator.Context, ref types.ManagedObjectReference) {
	f.note(ref, true)
}

func (f *followed) note(ref types.ManagedObjectReference, removed bool) {
	if ref.Type != machineKind {
		return
	}
	f.mu.Lock()
	f.changed[ref] = f.changed[ref] || removed
	f.mu.Unlock()
	select {
	case f.noted <- struct{}{}:
	default:
	}
}

// take returns the virtual machines that may have changed since the last call, and whether they are gone.
func (f *followed) take() map[types.ManagedObjectReference]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	taken := maps.Clone(f.changed)
	clear(f.changed)
	return taken
}

func (f *followed) cancel() { f.end.Do(func() { close(f.canceled) }) }

// page returns what is reported next.
func (f *followed) page(filter types.ManagedObjectReference, most int) *types.UpdateSet {
	f.version++
	most = min(most, len(f.pending))
	set := &types.UpdateSet{
		Version:   fmt.Sprint(f.version),
		FilterSet: []types.PropertyFilterUpdate{{Filter: filter, ObjectSet: f.pending[:most:most]}},
		Truncated: types.NewBool(most < len(f.pending)),
	}
	f.pending = f.pending[most:]
	return set
}
