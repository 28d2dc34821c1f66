package vcenter

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/vmware/govmomi/fault"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/view"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
)

const (
	// sweep is how often the collector begins anew with all virtual machines, in pages, lest a lost update is missed for ever.
	sweep = 10 * time.Minute
	// pace is the least time between two answers of the collector: many changes then come in one.
	pace = 100 * time.Millisecond
	// maxCollectRetry is how long the collector waits at most after it has failed. Logins that fail have longer delays of their own.
	maxCollectRetry = 30 * time.Second
)

// The properties of a virtual machine that the index has.
const (
	propertyName     = "name"
	propertyUUID     = "config.uuid"
	propertyInstance = "config.instanceUuid"
	propertyTemplate = "config.template"
	propertyState    = "runtime.powerState"
	propertyHost     = "runtime.host"
	propertyParent   = "parent"
	propertyNICs     = "guest.net"
	propertyDisks    = "summary.config.numVirtualDisks"
	propertyCards    = "summary.config.numEthernetCards"
)

// collect keeps the index up to date until the context ends.
func (v *VCenter) collect(ctx context.Context) {
	var wait time.Duration
	for ctx.Err() == nil {
		begun := v.clock.Now()
		err := v.do(ctx, func(ctx context.Context, current *login) error { return v.watch(ctx, current) })
		if err != nil && ctx.Err() == nil {
			wait = collectAgain(wait, v.index.isReady() && v.clock.Since(begun) >= maxCollectRetry)
			v.index.lost(&UnavailableError{Server: v.endpoint.Server, Err: err}, v.clock.Now())
			v.former.lost()
			v.sleep(ctx, wait)
		}
	}
}

// collectAgain returns how long the collector waits after it has failed. What fails before the index is complete, or soon after, may fail each time,
// and costs the vCenter a sweep.
func collectAgain(before time.Duration, wasReady bool) time.Duration {
	if wasReady {
		return minRetry
	}
	return min(max(2*before, minRetry), maxCollectRetry)
}

// watch follows the changes of all virtual machines for one sweep.
func (v *VCenter) watch(ctx context.Context, current *login) error {
	w, end, err := v.beginSweep(ctx, current)
	if err != nil {
		return err
	}
	defer end()
	for until := v.clock.Now().Add(sweep); v.clock.Now().Before(until); {
		if err := w.next(ctx); err != nil {
			return err
		}
		v.sleep(ctx, pace)
	}
	return nil
}

// beginSweep has the vCenter collect changes, in bounded time. The returned function ends that.
func (v *VCenter) beginSweep(ctx context.Context, current *login) (w *watcher, end func(), err error) {
	limited, cancel := context.WithTimeout(ctx, v.limits.Call)
	defer cancel()
	// They are found before the virtual machines are: a clone that ends between the two is seen as a virtual machine.
	if err := v.findFormerClones(limited, current); err != nil {
		return nil, nil, err
	}
	root, kinds := current.client.ServiceContent.RootFolder, []string{"VirtualMachine"}
	container, err := view.NewManager(current.client).CreateContainerView(limited, root, kinds, true)
	if err != nil {
		return nil, nil, err
	}
	collector, err := property.DefaultCollector(current.client).Create(limited)
	if err != nil {
		return nil, nil, err
	}
	end = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), v.limits.Call)
		defer cancel()
		_, _ = collector.Destroy(ctx), container.Destroy(ctx)
	}
	if _, err := collector.CreateFilter(limited, filterOf(container.Reference())); err != nil {
		end()
		return nil, nil, err
	}
	return &watcher{vcenter: v, login: current, collector: collector.Reference(), all: map[types.ManagedObjectReference]*VM{}}, end, nil
}

// filterOf selects the virtual machines of a view, and the properties that the index has.
func filterOf(container types.ManagedObjectReference) types.CreateFilter {
	return types.CreateFilter{Spec: types.PropertyFilterSpec{
		ObjectSet: []types.ObjectSpec{{
			Obj: container, Skip: types.NewBool(true),
			SelectSet: []types.BaseSelectionSpec{&types.TraversalSpec{Type: "ContainerView", Path: "view"}},
		}},
		PropSet: []types.PropertySpec{{Type: "VirtualMachine", PathSet: []string{
			propertyName, propertyUUID, propertyInstance, propertyTemplate, propertyState, propertyHost, propertyParent, propertyNICs, propertyDisks,
			propertyCards,
		}}},
	}}
}

// watcher is one sweep. Until it has all virtual machines the index stays as it is.
type watcher struct {
	vcenter   *VCenter
	login     *login
	collector types.ManagedObjectReference
	version   string
	all       map[types.ManagedObjectReference]*VM
	complete  bool
}

// next waits for the next changes and applies them.
func (w *watcher) next(ctx context.Context) error {
	limits := &w.vcenter.limits
	ctx, cancel := context.WithTimeout(ctx, limits.Changes+limits.Call)
	defer cancel()
	seconds := int32(max(limits.Changes/time.Second, 1)) // #nosec G115 -- a limit is no century
	response, err := methods.WaitForUpdatesEx(ctx, w.login.client, &types.WaitForUpdatesEx{
		This: w.collector, Version: w.version, Options: &types.WaitOptions{MaxWaitSeconds: &seconds},
	})
	if err != nil || response.Returnval == nil {
		return err
	}
	set := response.Returnval
	w.version = set.Version
	changes := map[types.ManagedObjectReference]*VM{}
	for i := range set.FilterSet {
		for _, update := range set.FilterSet[i].ObjectSet {
			w.apply(changes, &update)
		}
	}
	if err := w.checkGone(ctx, changes, set); err != nil {
		return err
	}
	switch {
	case w.complete:
		w.vcenter.index.update(changes)
	case set.Truncated == nil || !*set.Truncated:
		w.complete = true
		w.vcenter.index.replace(w.all)
		w.all = nil
	}
	return nil
}

// maxHidden is how many virtual machines may be hidden one by one. More of them at once are a mistake in the permissions.
const maxHidden = 20

// checkGone verifies that virtual machines of Machines are gone when the vCenter stops reporting them: after a change of permissions the vCenter
// reports fewer of them. A virtual machine that still exists is marked hidden. If more than maxHidden are missing and one of them exists, checkGone
// returns an error, so that none of them counts as gone.
func (w *watcher) checkGone(ctx context.Context, changes map[types.ManagedObjectReference]*VM, set *types.UpdateSet) error {
	index := w.vcenter.index
	var missing []types.ManagedObjectReference
	if w.complete {
		for ref, vm := range changes {
			if vm == nil && index.mayBeHidden(ref) {
				missing = append(missing, ref)
			}
		}
	} else if set.Truncated == nil || !*set.Truncated {
		missing = index.missingIn(w.all)
	}
	for _, ref := range missing {
		exists, err := exists(ctx, w.login, ref)
		if err != nil {
			return fmt.Errorf("looking for virtual machine %s, which is not reported any more: %w", ref.Value, err)
		}
		if exists && len(missing) > maxHidden {
			return fmt.Errorf("%d virtual machines of Machines are not shown to this user any more, of which %s exists: check the permissions of the user",
				len(missing), ref.Value)
		}
		index.setHidden(ref, exists)
	}
	return nil
}

// exists asks the vCenter for a virtual machine, which may exist without being shown.
func exists(ctx context.Context, current *login, ref types.ManagedObjectReference) (bool, error) {
	var vm mo.ManagedEntity
	err := property.DefaultCollector(current.client).RetrieveOne(ctx, ref, []string{"name"}, &vm)
	switch {
	case err == nil, fault.Is(err, &types.NoPermission{}):
		return true, nil
	case isGone(err, ref), fault.Is(err, &types.ManagedObjectNotFound{}):
		return false, nil
	}
	return false, err
}

// apply adds what has changed of one virtual machine.
func (w *watcher) apply(changes map[types.ManagedObjectReference]*VM, update *types.ObjectUpdate) {
	if update.Kind == types.ObjectUpdateKindLeave {
		changes[update.Obj] = nil
		delete(w.all, update.Obj)
		return
	}
	before := changes[update.Obj]
	switch {
	case before != nil:
	case w.complete:
		before = w.vcenter.index.get(update.Obj)
		if before == nil && update.Kind == types.ObjectUpdateKindModify {
			// It has been destroyed.
			return
		}
	default:
		before = w.all[update.Obj]
	}
	vm := &VM{Ref: update.Obj}
	if before != nil {
		*vm = *before
	} else if known := w.vcenter.index.get(update.Obj); known != nil {
		// What set keeps was known in an earlier sweep.
		vm.UUID, vm.InstanceUUID, vm.IsTemplate, vm.Disks, vm.Cards = known.UUID, known.InstanceUUID, known.IsTemplate, known.Disks, known.Cards
	}
	for _, change := range update.ChangeSet {
		vm.set(&change)
	}
	changes[update.Obj] = vm
	if !w.complete {
		w.all[update.Obj] = vm
	}
}

// set changes one property. While the files of a virtual machine are inaccessible, the vCenter does not report its configuration, but the virtual
// machine must not count as gone. Therefore set keeps its identity and its numbers of devices when the vCenter unsets them.
func (vm *VM) set(change *types.PropertyChange) {
	switch change.Name {
	case propertyName:
		vm.Name, _ = change.Val.(string)
	case propertyUUID:
		vm.UUID = known(change.Val, vm.UUID)
	case propertyInstance:
		vm.InstanceUUID = known(change.Val, vm.InstanceUUID)
	case propertyTemplate:
		vm.IsTemplate = known(change.Val, vm.IsTemplate)
	case propertyState:
		vm.State, _ = change.Val.(types.VirtualMachinePowerState)
	case propertyHost:
		vm.Host = reference(change.Val)
	case propertyParent:
		vm.Parent = reference(change.Val)
	case propertyNICs:
		nics, _ := change.Val.(types.ArrayOfGuestNicInfo)
		vm.Addresses = addressesOf(nics.GuestNicInfo)
	case propertyDisks:
		vm.Disks = number(change.Val, vm.Disks)
	case propertyCards:
		vm.Cards = number(change.Val, vm.Cards)
	}
}

// The guest reports its addresses itself, and must not be able to fill the memory with them: so many are kept, and longer ones are none.
const maxAddresses, maxAddress = 64, 64

// addressesOf returns the addresses that the guest has. Containers have link-local addresses in great numbers; they are skipped, because they concern
// no other host.
func addressesOf(nics []types.GuestNicInfo) (addresses []netip.Addr) {
	for i := range nics {
		for _, text := range nics[i].IpAddress {
			if len(text) > maxAddress || len(addresses) == maxAddresses {
				continue
			}
			address, err := netip.ParseAddr(text)
			if err == nil && !address.IsLinkLocalUnicast() && !address.IsLoopback() {
				addresses = append(addresses, address.WithZone(""))
			}
		}
	}
	return addresses
}

func reference(value any) *types.ManagedObjectReference {
	if ref, ok := value.(types.ManagedObjectReference); ok {
		return &ref
	}
	return nil
}

// number returns a value, or what it was before if there is none.
func number(value any, before int) int {
	if now, ok := value.(int32); ok {
		return int(now)
	}
	return before
}

// known returns a value, or what it was before if there is none.
func known[T any](value any, before T) T {
	if now, ok := value.(T); ok {
		return now
	}
	return before
}
