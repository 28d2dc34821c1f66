package vcenter

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/vmware/govmomi/vim25/types"
)

// VM is what the index has of a virtual machine.
type VM struct {
	// Ref identifies it in its vCenter.
	Ref types.ManagedObjectReference
	// Name is the name in the inventory.
	Name string
	// UUID is the BIOS UUID. InstanceUUID is the UUID that the vCenter keeps unique.
	UUID, InstanceUUID string
	// State is the power state.
	State types.VirtualMachinePowerState
	// Host runs it, and Parent is its folder; nil for none.
	Host, Parent *types.ManagedObjectReference
	// Addresses are at most maxAddresses IP addresses that the guest reports, without link-local and loopback addresses.
	Addresses []netip.Addr
	// Disks is how many virtual disks are attached, and Cards how many network interfaces it has.
	Disks, Cards int
	// IsTemplate reports whether it is a template.
	IsTemplate bool
}

// IsOn reports whether the virtual machine is powered on.
func (vm *VM) IsOn() bool { return vm != nil && vm.State == types.VirtualMachinePowerStatePoweredOn }

// Index has the virtual machines of a vCenter. What it returns must not be changed.
type Index struct {
	mu    sync.RWMutex
	ready bool
	// err is why it is not ready, since lostAt.
	err    error
	lostAt time.Time
	byRef  map[types.ManagedObjectReference]*VM
	byUUID map[string][]*VM
	// hidden are the virtual machines of Machines that exist, but are not shown to this user any more.
	hidden map[types.ManagedObjectReference]*VM
	// leaving are the virtual machines that Drover is destroying.
	leaving map[types.ManagedObjectReference]bool
	// waiters are closed when a virtual machine with their instance UUID changes.
	waiters map[string][]chan struct{}
	// changed is called with the instance UUID after a change.
	changed func(instanceUUID string)
	// isMachine reports whether the virtual machine with an instance UUID belongs to a Machine.
	isMachine func(instanceUUID string) bool
}

func newIndex(changed func(string), isMachine func(string) bool) *Index {
	return &Index{
		changed: changed, isMachine: isMachine, waiters: map[string][]chan struct{}{}, leaving: map[types.ManagedObjectReference]bool{},
		hidden: map[types.ManagedObjectReference]*VM{}, err: ErrStarting,
	}
}

// Get returns the virtual machine with an instance UUID, nil for none. Get returns an error while the index may be incomplete, if several virtual
// machines have the UUID, or if the virtual machine is hidden.
func (i *Index) Get(instanceUUID string) (*VM, error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	found := i.byUUID[strings.ToLower(instanceUUID)]
	switch len(found) {
	case 0:
		return nil, i.hiddenError(func(vm *VM) bool { return strings.EqualFold(vm.InstanceUUID, instanceUUID) })
	case 1:
		return found[0], nil
	}
	return nil, &DuplicateError{UUID: instanceUUID, Names: []string{found[0].Name, found[1].Name}}
}

// hiddenError returns an error if a virtual machine is hidden that is looked for.
func (i *Index) hiddenError(isSought func(*VM) bool) error {
	for _, vm := range i.hidden {
		if isSought(vm) {
			return &HiddenError{Name: vm.Name}
		}
	}
	return nil
}

// Find returns the virtual machines with a name. Find returns an error if a virtual machine with the name is hidden.
func (i *Index) Find(name string) (found []*VM, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	for _, vm := range i.byRef {
		if vm.Name == name && !vm.IsTemplate {
			found = append(found, vm)
		}
	}
	return found, i.hiddenError(func(vm *VM) bool { return vm.Name == name })
}

// All returns all virtual machines that are no templates.
func (i *Index) All() (all []*VM, err error) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	if !i.ready {
		return nil, i.err
	}
	for _, vm := range i.byRef {
		if !vm.IsTemplate {
			all = append(all, vm)
		}
	}
	return all, nil
}

// next returns a channel that is closed when the virtual machine with an instance UUID changes, or the index is complete again.
func (i *Index) next(instanceUUID string) <-chan struct{} {
	i.mu.Lock()
	defer i.mu.Unlock()
	waiter := make(chan struct{})
	key := strings.ToLower(instanceUUID)
	i.waiters[key] = append(i.waiters[key], waiter)
	return waiter
}

// keepLost is how long the index keeps the first reason why it is not up to date. The reason is in the conditions of Machines: each new reason would
// cause a write to every Machine.
const keepLost = 5 * time.Minute

// lost says that the index is not up to date, and why.
func (i *Index) lost(err error, now time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.ready || now.Sub(i.lostAt) >= keepLost {
		i.err, i.lostAt = err, now
	}
	i.ready = false
}

// replace sets all virtual machines at once. What has changed since the last time is reported; after a time without the index that is everything,
// as an empty UUID: Machines may be in back-off because of that.
func (i *Index) replace(vms map[types.ManagedObjectReference]*VM) {
	i.mu.Lock()
	keys := map[string]bool{"": true}
	if i.ready {
		keys = changedBetween(i.byRef, vms)
	}
	i.ready, i.err, i.byRef, i.byUUID = true, nil, vms, map[string][]*VM{}
	for _, vm := range vms {
		i.add(vm)
	}
	maps.DeleteFunc(i.leaving, func(ref types.ManagedObjectReference, _ bool) bool { return vms[ref] == nil })
	maps.DeleteFunc(i.hidden, func(ref types.ManagedObjectReference, _ *VM) bool { return vms[ref] != nil })
	woken := i.waiters
	i.waiters = map[string][]chan struct{}{}
	i.mu.Unlock()
	for key, waiters := range woken {
		wake(waiters)
		keys[key] = true
	}
	for key := range keys {
		i.changed(key)
	}
}

// changedBetween returns the instance UUIDs of the virtual machines that are not as they were.
func changedBetween(before, now map[types.ManagedObjectReference]*VM) map[string]bool {
	keys := map[string]bool{}
	for ref, was := range before {
		if is := now[ref]; is == nil || is.differs(was) {
			keys[strings.ToLower(was.InstanceUUID)] = true
		}
	}
	for ref, is := range now {
		if was := before[ref]; was == nil || is.differs(was) {
			keys[strings.ToLower(is.InstanceUUID)] = true
		}
	}
	// Some are templates, or their configuration is not reported.
	delete(keys, "")
	return keys
}

// differs reports whether a virtual machine is another one for its Machine than it was.
func (vm *VM) differs(was *VM) bool {
	return vm.InstanceUUID != was.InstanceUUID || vm.UUID != was.UUID || vm.State != was.State || vm.Cards != was.Cards ||
		vm.IsTemplate != was.IsTemplate || !slices.Equal(vm.Addresses, was.Addresses)
}

// setLeaving records that Drover destroys a virtual machine.
func (i *Index) setLeaving(ref types.ManagedObjectReference) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.leaving[ref] = true
}

// mayBeHidden reports whether a virtual machine that is not reported any more may be hidden: it belongs to a Machine, and Drover is not destroying
// it.
func (i *Index) mayBeHidden(ref types.ManagedObjectReference) bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.isKept(i.byRef[ref])
}

func (i *Index) isKept(vm *VM) bool {
	return vm != nil && vm.InstanceUUID != "" && !vm.IsTemplate && !i.leaving[vm.Ref] && i.isMachine(vm.InstanceUUID)
}

// missingIn returns the virtual machines of Machines that vms does not contain, including the hidden ones.
func (i *Index) missingIn(vms map[types.ManagedObjectReference]*VM) (missing []types.ManagedObjectReference) {
	i.mu.RLock()
	defer i.mu.RUnlock()
	for ref, vm := range i.byRef {
		if vms[ref] == nil && i.isKept(vm) {
			missing = append(missing, ref)
		}
	}
	for ref := range i.hidden {
		if vms[ref] == nil && i.byRef[ref] == nil {
			missing = append(missing, ref)
		}
	}
	return missing
}

// setHidden records whether a virtual machine that is not reported any more exists.
func (i *Index) setHidden(ref types.ManagedObjectReference, exists bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	vm := i.byRef[ref]
	switch {
	case !exists:
		delete(i.hidden, ref)
	case vm != nil:
		i.hidden[ref] = vm
	}
}

// isReady reports whether the index is complete.
func (i *Index) isReady() bool {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.ready
}

// forget removes a virtual machine that is gone.
func (i *Index) forget(ref types.ManagedObjectReference) {
	if i.get(ref) != nil {
		i.update(map[types.ManagedObjectReference]*VM{ref: nil})
	}
}

// update changes the virtual machines that have changed; those without a value have gone.
func (i *Index) update(changes map[types.ManagedObjectReference]*VM) {
	keys := map[string]bool{}
	i.mu.Lock()
	for ref, vm := range changes {
		if before := i.byRef[ref]; before != nil {
			i.remove(before)
			keys[strings.ToLower(before.InstanceUUID)] = true
		}
		if vm == nil {
			delete(i.leaving, ref)
		} else {
			i.byRef[ref] = vm
			delete(i.hidden, ref)
			i.add(vm)
			keys[strings.ToLower(vm.InstanceUUID)] = true
		}
	}
	var waiters []chan struct{}
	// What has no instance UUID is no virtual machine of a Machine.
	delete(keys, "")
	for key := range keys {
		waiters = append(waiters, i.waiters[key]...)
		delete(i.waiters, key)
	}
	i.mu.Unlock()
	wake(waiters)
	for key := range keys {
		i.changed(key)
	}
}

func wake(waiters []chan struct{}) {
	for _, waiter := range waiters {
		close(waiter)
	}
}

// get returns a virtual machine by its reference.
func (i *Index) get(ref types.ManagedObjectReference) *VM {
	i.mu.RLock()
	defer i.mu.RUnlock()
	return i.byRef[ref]
}

func (i *Index) add(vm *VM) {
	if key := strings.ToLower(vm.InstanceUUID); key != "" && !vm.IsTemplate {
		i.byUUID[key] = append(i.byUUID[key], vm)
	}
}

func (i *Index) remove(vm *VM) {
	delete(i.byRef, vm.Ref)
	key := strings.ToLower(vm.InstanceUUID)
	i.byUUID[key] = slices.DeleteFunc(i.byUUID[key], func(other *VM) bool { return other.Ref == vm.Ref })
	if len(i.byUUID[key]) == 0 {
		delete(i.byUUID, key)
	}
}
