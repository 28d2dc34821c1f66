package vsphere

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	vim "github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
)

// labelCluster is the label of Machines with the name of their cluster.
const labelCluster = "machine.openshift.io/cluster-api-cluster"

// annotationExcludeDraining keeps the Node of a Machine from being drained: https://github.com/openshift/machine-api-operator/blob/951196122/docs
const annotationExcludeDraining = "machine.openshift.io/exclude-node-draining"

// target is a Machine in its vCenter.
type target struct {
	machine *machinev1beta1.Machine
	spec    *machinev1beta1.VSphereMachineProviderSpec
	vcenter *vcenter.VCenter
	config  *cloudConfig
}

// target finds the vCenter of a Machine.
func (a *Actuator) target(ctx context.Context, machine *machinev1beta1.Machine) (*target, error) {
	spec, err := specOf(&machine.Spec.ProviderSpec)
	if err != nil {
		return nil, err
	}
	if err := validate(spec); err != nil {
		return nil, err
	}
	t, err := a.connect(ctx, machine.Namespace, spec)
	if err != nil {
		return nil, err
	}
	a.machines.add(machine)
	t.machine = machine
	return t, nil
}

// connect returns a target without a Machine: the vCenter of a providerSpec.
func (a *Actuator) connect(ctx context.Context, namespace string, spec *machinev1beta1.VSphereMachineProviderSpec) (*target, error) {
	config, err := a.cloudConfig(ctx)
	if err != nil {
		return nil, err
	}
	credentials, err := a.credentials(ctx, namespace, spec.CredentialsSecret.Name, spec.Workspace.Server)
	if err != nil {
		return nil, err
	}
	found, err := a.vcenters.get(config.endpoint(spec.Workspace.Server), credentials)
	if err != nil {
		return nil, err
	}
	return &target{spec: spec, vcenter: found, config: config}, nil
}

// place looks the workspace up where a virtual machine is to be created. Its error may be terminal.
func (t *target) place(ctx context.Context) (*vcenter.Place, error) {
	place, err := t.lookUpPlace(ctx)
	return place, terminal(err)
}

// lookUpPlace looks the workspace up. Its error is never terminal: the workspace of a Machine that has a virtual machine may have been changed to one
// that is not there, and the virtual machine must not be forgotten.
func (t *target) lookUpPlace(ctx context.Context) (*vcenter.Place, error) {
	workspace := t.spec.Workspace
	return t.vcenter.Place(ctx, vcenter.Workspace{
		Datacenter: workspace.Datacenter, Folder: workspace.Folder, Datastore: workspace.Datastore, ResourcePool: workspace.ResourcePool,
	})
}

// terminal makes an error terminal that says that the Machine names what the vCenter does not have.
func terminal(err error) error {
	var name *vcenter.NotUniqueError
	var network *vcenter.NetworkError
	switch {
	case errors.As(err, &name):
		return provider.InvalidConfiguration("%w", err)
	case errors.As(err, &network):
		return provider.InvalidConfiguration("error getting network specs: %w", err)
	}
	return err
}

// Get returns the virtual machine. A new virtual machine that is not powered on yet counts as missing, so that Create is called again.
func (a *Actuator) Get(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	deleting := machine.DeletionTimestamp != nil
	t, err := a.target(ctx, machine)
	if err != nil {
		return nil, a.unreadable(ctx, machine, err)
	}
	vm, err := a.find(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case vm == nil:
		return a.missing(ctx, t)
	case !vm.IsOn() && machine.Spec.ProviderID == nil && !deleting:
		return nil, nil
	case !deleting && machine.Spec.ProviderID != nil:
		if err := t.checkNetworks(vm); err != nil {
			return nil, err
		}
	}
	return a.instance(ctx, t, vm)
}

// checkPlaceIsSeen returns an error if the place cannot be seen where the virtual machine of a Machine was that is not found: it is not gone
// then, the vCenter may not show it to another user.
func (t *target) checkPlaceIsSeen(ctx context.Context) error {
	if t.machine.Spec.ProviderID == nil {
		return nil
	}
	if _, err := t.lookUpPlace(ctx); err != nil {
		return fmt.Errorf("the virtual machine is not found, nor is the place where it should be: %w", err)
	}
	return nil
}

// missing returns what there is of a Machine that has no virtual machine in its vCenter.
func (a *Actuator) missing(ctx context.Context, t *target) (*provider.Instance, error) {
	if err := t.checkPlaceIsSeen(ctx); err != nil {
		return nil, err
	}
	if t.machine.DeletionTimestamp != nil {
		return a.remains(ctx, t)
	}
	return nil, nil
}

// terminating is the instance of a Machine whose end is under way.
func terminating() *provider.Instance {
	return &provider.Instance{State: provider.Terminating, LookAgain: lookAgain}
}

// remains returns what there is of a Machine that is being deleted, and has no virtual machine: a clone may be on its way, or an address be claimed.
func (a *Actuator) remains(ctx context.Context, t *target) (*provider.Instance, error) {
	if a.work.isRunning(t.machine.UID) || t.vcenter.MayAppear(string(t.machine.UID)) {
		return terminating(), nil
	}
	claimed, err := a.hasClaims(ctx, t.machine, t.spec)
	if err != nil {
		return nil, err
	}
	if claimed {
		instance := terminating()
		instance.Off = true
		return instance, nil
	}
	a.machines.remove(t.machine)
	return nil, nil
}

// instance returns what Drover records of a virtual machine.
func (a *Actuator) instance(ctx context.Context, t *target, vm *vcenter.VM) (*provider.Instance, error) {
	uuid := strings.ToLower(vm.UUID)
	isKnown := t.machine.Spec.ProviderID != nil || t.machine.DeletionTimestamp != nil
	record := &vmRecord{
		uuid: uuid, state: string(vm.State), server: t.vcenter.Server(), reference: vm.Ref.Value, hasClaims: claimsOf(t.machine, t.spec) != nil,
	}
	record.task, record.note = a.work.recordOf(t.machine.UID)
	status, err := statusFor(t.machine, record, metav1.NewTime(a.clock.Now()))
	if err != nil {
		return nil, err
	}
	instance := &provider.Instance{
		ProviderID: "vsphere://" + uuid, State: provider.InstanceState(vm.State), Off: vm.State == "poweredOff", Addresses: addressesOf(vm), Status: status,
	}
	if vm.IsOn() && len(instance.Addresses) == 1 {
		// It is booting. A change of the index wakes the Machine, too.
		instance.LookAgain = time.Second * 5
	}
	if vm.Host != nil && t.config.hasLabels() {
		if instance.Region, instance.Zone, err = t.location(ctx, *vm.Host, isKnown); err != nil {
			return nil, err
		}
	}
	return instance, nil
}

// locationPatience is how long a Machine waits for its region and zone that may have them already.
const locationPatience = 5 * time.Second

// location returns the region and the zone of a host. A Machine that is known keeps its labels while the service of tags is down.
func (t *target) location(ctx context.Context, host vim.ManagedObjectReference, isKnown bool) (region, zone string, err error) {
	if isKnown {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, locationPatience)
		defer cancel()
	}
	location, err := t.vcenter.Location(ctx, host, [2]string{t.config.Region, t.config.Zone})
	if err != nil && isKnown {
		return "", "", nil
	}
	return location[0], location[1], err
}

// checkNetworks compares the network cards of a virtual machine with the devices of its Machine.
func (t *target) checkNetworks(vm *vcenter.VM) error {
	if expected := len(t.spec.Network.Devices); vm.Cards != expected {
		return fmt.Errorf("invalid network count: expected=%d current=%d; virtual machine %s has other network cards than the Machine says",
			expected, vm.Cards, vm.Name)
	}
	return nil
}

// addressesOf returns the addresses that the guest has, and its name.
func addressesOf(vm *vcenter.VM) (addresses []corev1.NodeAddress) {
	for _, address := range vm.Addresses {
		addresses = append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: address.String()})
	}
	return append(addresses, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: vm.Name})
}

// Create creates the virtual machine in the background, and returns it when it is powered on.
func (a *Actuator) Create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	instance, err := a.create(ctx, machine)
	return instance, withFailure(machine, err, metav1.NewTime(a.clock.Now()))
}

func (a *Actuator) create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	t, err := a.target(ctx, machine)
	if err != nil {
		return nil, err
	}
	vm, err := a.find(ctx, t)
	switch {
	case err != nil:
		return nil, err
	case vm.IsOn():
		instance, err := a.instance(ctx, t, vm)
		if err == nil {
			a.work.forget(machine.UID)
		}
		return instance, err
	case vm == nil && !t.vcenter.NoUnfollowedClones():
		return nil, provider.RequeueAfter(time.Second, "waiting for a clone that has begun before Drover was connected")
	}
	if err := a.work.state(machine, creation); err != nil {
		return nil, err
	}
	in, err := a.prepare(ctx, t, vm)
	if err != nil {
		return nil, err
	}
	stage := "powering the virtual machine on"
	if vm == nil {
		stage = stageClone(t.spec)
	}
	return nil, a.work.do(machine, creation, stage, func(ctx context.Context, op *operation) error {
		defer a.vcenters.hold(t.vcenter)()
		return bringUp(ctx, t, in, op)
	})
}

// prepare finds out what the virtual machine is made of. It is asked for in the call, so that what is wrong with the Machine is known at once.
func (a *Actuator) prepare(ctx context.Context, t *target, vm *vcenter.VM) (*bringUpInput, error) {
	in := &bringUpInput{}
	var err error
	if in.place, err = t.place(ctx); err != nil {
		return nil, err
	}
	if in.tags, err = a.tagsOf(ctx, t); err != nil {
		return nil, err
	}
	if vm != nil {
		return in, nil
	}
	clone := &cloneInput{machine: t.machine, spec: t.spec, place: in.place}
	if clone.template, err = t.vcenter.Template(ctx, in.place, t.spec.Template); err != nil {
		return nil, terminal(err)
	}
	for i := range t.spec.Network.Devices {
		backing, err := t.vcenter.Network(ctx, in.place, t.spec.Network.Devices[i].NetworkName)
		if err != nil {
			return nil, terminal(err)
		}
		clone.networks = append(clone.networks, backing)
	}
	interfaces, err := a.claimAddresses(ctx, t.machine, t.spec)
	if err != nil {
		return nil, err
	}
	if clone.extra, err = a.guestinfo(ctx, t.machine, t.spec, interfaces); err != nil {
		return nil, err
	}
	in.template = clone.template
	in.note = cloneNote(t.spec, clone.template)
	in.clone, err = cloneSpec(clone)
	return in, err
}

// tagsOf returns the tags for the virtual machine: the tags in the providerSpec, and the cluster's tag if the vCenter has it.
func (a *Actuator) tagsOf(ctx context.Context, t *target) ([]string, error) {
	tags := t.spec.TagIDs
	cluster := t.machine.Labels[labelCluster]
	if cluster == "" {
		cluster = a.options.ClusterID
	}
	if cluster == "" {
		return tags, nil
	}
	tag, err := t.vcenter.FindTag(ctx, "openshift-"+cluster, cluster)
	if err != nil {
		return nil, err
	}
	if tag != "" {
		tags = append([]string{tag}, tags...)
	}
	return tags, nil
}

// bringUpInput is what a virtual machine is brought up with.
type bringUpInput struct {
	place    *vcenter.Place
	template *vcenter.Template
	// clone is nil if the virtual machine is there already.
	clone *vim.VirtualMachineCloneSpec
	tags  []string
	// note is what a user should know about the virtual machine.
	note string
}

// stageClone says that the template is being cloned.
func stageClone(spec *machinev1beta1.VSphereMachineProviderSpec) string {
	return "cloning the template " + spec.Template
}

// bringUp clones, tags and powers on. It goes on from where a former attempt has ended.
func bringUp(ctx context.Context, t *target, in *bringUpInput, op *operation) error {
	if in.clone != nil {
		op.setNote(in.note)
		if err := op.next(stageClone(t.spec)); err != nil {
			return err
		}
		queue, cancel := op.untilStopped(ctx)
		defer cancel()
		if err := t.vcenter.Clone(ctx, queue, in.template, in.place, t.machine.Name, in.clone, op.setTask); err != nil {
			return cloneError(err)
		}
	}
	vm, err := t.find(ctx)
	if err != nil || vm == nil {
		return err
	}
	if err := op.next("tagging the virtual machine"); err != nil {
		return err
	}
	if err := mark(ctx, t, in, vm); err != nil {
		return err
	}
	if err := op.next("powering the virtual machine on"); err != nil {
		return err
	}
	err = t.vcenter.PowerOn(ctx, in.place.Datacenter, vm)
	var notAttempted *vcenter.NotAttemptedError
	if errors.As(err, &notAttempted) {
		return provider.InsufficientResources("%w", err)
	}
	return err
}

// mark gives a virtual machine its tags, and makes it a member of its VM group.
func mark(ctx context.Context, t *target, in *bringUpInput, vm *vcenter.VM) error {
	for _, tag := range in.tags {
		if err := t.vcenter.Tag(ctx, tag, vm); err != nil {
			return err
		}
	}
	if group := t.spec.Workspace.VMGroup; group != "" {
		if err := t.vcenter.JoinGroup(ctx, in.place.Cluster, group, vm); err != nil {
			return fmt.Errorf("could not update VM Group membership: %w", err)
		}
	}
	return nil
}
