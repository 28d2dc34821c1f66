package vsphere

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/clock"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/vcenter"
	simulated "github.com/drover-io/drover/test/vcenter"
)

// TestCreate_LinkedClone: the simulator does not link clones, so the requests are compared.
func TestCreate_LinkedClone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const linked, full = "createNewChildDiskBacking", "moveAllDiskBackingsAndConsolidate"
	for name, c := range map[string]struct {
		mode     machinev1beta1.CloneMode
		snapshot string
		want     simulated.CloneRequest
	}{
		"linked-named":   {machinev1beta1.LinkedClone, simulated.Snapshot, simulated.CloneRequest{Snapshot: "snapshot-installed", DiskMoveType: linked}},
		"linked-current": {machinev1beta1.LinkedClone, "", simulated.CloneRequest{Snapshot: "snapshot-patched", DiskMoveType: linked}},
		"full":           {machinev1beta1.FullClone, simulated.Snapshot, simulated.CloneRequest{DiskMoveType: full}},
		"mode-unset":     {"", "", simulated.CloneRequest{DiskMoveType: full}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := f.site.ProviderSpec()
			spec.CloneMode, spec.Snapshot = c.mode, c.snapshot
			machine := f.machine(name, spec)
			f.create(machine)
			if got := f.state().Requests[name]; got != c.want {
				t.Errorf("the vCenter was asked for %+v, want %+v", got, c.want)
			}
			f.remove(machine)
		})
	}
	t.Run("there is no such snapshot", func(t *testing.T) {
		spec := f.site.ProviderSpec()
		spec.CloneMode, spec.Snapshot = machinev1beta1.LinkedClone, "none"
		err := f.fails(f.machine("linked-none", spec))
		isInvalid := provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError
		if !isInvalid || !strings.Contains(err.Error(), `the template has no snapshot "none"`) {
			t.Error(err)
		}
	})
}

// TestGet_Foreign: what others have done to virtual machines is reported, and does not end Machines.
func TestGet_Foreign(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	machine := f.machine("altered", f.site.ProviderSpec())
	f.create(machine)
	vm := f.vm(machine.Name)
	t.Run("another network card", func(t *testing.T) {
		card, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
			VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"},
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := vm.AddDevice(t.Context(), card); err != nil {
			t.Fatal(err)
		}
		f.getFails(machine, "invalid network count: expected=1 current=2")
		devices, err := vm.Device(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		cards := devices.SelectByType((*types.VirtualEthernetCard)(nil))
		if err := vm.RemoveDevice(t.Context(), false, cards[len(cards)-1]); err != nil {
			t.Fatal(err)
		}
		f.gets(machine)
	})
	t.Run("an invalid providerSpec before anything is recorded", func(t *testing.T) {
		invalid := machine.DeepCopy()
		invalid.Spec.ProviderID, invalid.Status.ProviderStatus = nil, nil
		spec := f.site.ProviderSpec()
		spec.NumCPUs = -1
		invalid.Spec.ProviderSpec = f.machine("invalid", spec).Spec.ProviderSpec
		f.getFails(invalid, "the Machine may have a virtual machine in vCenter")
		if err := f.actuator.Delete(t.Context(), invalid); err == nil || !strings.Contains(err.Error(), "may have a virtual machine") {
			t.Errorf("Delete says %v", err)
		}
	})
	t.Run("the same instance UUID", func(t *testing.T) {
		f.cloneAs("other", string(machine.UID))
		f.getFails(machine, "have the same instance UUID "+string(machine.UID))
		if err := f.actuator.Delete(t.Context(), machine); err == nil {
			t.Error("one of them is deleted")
		}
		f.done(f.vm("other").Destroy(t.Context()))
		if err := simulated.EndOtherSessions(t.Context(), f.client); err != nil {
			t.Fatal(err)
		}
		f.gets(machine)
	})
	t.Run("the template has been removed", func(t *testing.T) {
		f.done(f.vm(simulated.Template).Destroy(t.Context()))
		// The first attempt has the reference that Drover has kept.
		late := f.machine("late", f.site.ProviderSpec())
		_ = f.fails(late)
		err := f.fails(late)
		isInvalid := provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError
		if !isInvalid || !strings.Contains(err.Error(), "template not found, specify valid value") {
			t.Error(err)
		}
	})
	f.remove(machine)
}

// cloneAs clones the template as another user would, with an instance UUID.
func (f *fixture) cloneAs(name, instanceUUID string) {
	f.Helper()
	finder := find.NewFinder(f.client)
	pool, err := finder.ResourcePool(f.Context(), simulated.Pool)
	if err != nil {
		f.Fatal(err)
	}
	folder, err := finder.Folder(f.Context(), "/"+simulated.Datacenter+"/vm")
	if err != nil {
		f.Fatal(err)
	}
	f.done(f.vm(simulated.Template).Clone(f.Context(), folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())},
		Config:   &types.VirtualMachineConfigSpec{InstanceUuid: instanceUUID},
	}))
}

// done waits for a task.
func (f *fixture) done(task *object.Task, err error) {
	f.Helper()
	if err == nil {
		err = task.Wait(f.Context())
	}
	if err != nil {
		f.Fatal(err)
	}
}

// getFails waits until Get returns an error, which does not end the Machine.
func (f *fixture) getFails(machine *machinev1beta1.Machine, message string) {
	f.Helper()
	eventually(f.T, "Get says: "+message, func() error {
		_, err := f.actuator.Get(f.Context(), machine)
		if err == nil || !strings.Contains(err.Error(), message) {
			return fmt.Errorf("it says %w", err)
		}
		if provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError {
			f.Error("it is terminal")
		}
		return nil
	})
}

// gets waits until Get returns an instance.
func (f *fixture) gets(machine *machinev1beta1.Machine) {
	f.Helper()
	eventually(f.T, "there is an instance", func() error {
		instance, err := f.actuator.Get(f.Context(), machine)
		if err == nil && instance == nil {
			err = errors.New("there is none")
		}
		return err
	})
}

// TestCreate_CloneHangs: a clone that does not end is canceled, and tried again. The limit of 30 minutes is 2 seconds here.
func TestCreate_CloneHangs(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(options *Options) { options.limits.Clone = 2 * time.Second })
	f.behave(simulated.Behavior{CloneDelay: time.Hour})
	machine := f.machine("hangs", f.site.ProviderSpec())
	if err := f.fails(machine); !strings.Contains(err.Error(), "the clone has not ended within 2s and was canceled") {
		t.Error(err)
	}
	target, err := f.actuator.target(t.Context(), machine)
	if err != nil {
		t.Fatal(err)
	}
	if target.vcenter.MayAppear(string(machine.UID)) {
		t.Error("the clone has been canceled, and its virtual machine is waited for")
	}
	f.behave(simulated.Behavior{CloneDelay: time.Hour, Calls: map[string]string{"CancelTask": "RuntimeFault"}})
	_ = f.fails(machine)
	if !target.vcenter.MayAppear(string(machine.UID)) {
		t.Error("the clone could not be canceled, and its virtual machine is not waited for")
	}
	machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if _, waits := provider.AsRequeueAfter(f.actuator.Delete(t.Context(), machine)); !waits {
		t.Error("Delete does not wait for it")
	}
	machine.DeletionTimestamp = nil
	f.behave(simulated.Behavior{})
	f.create(machine)
	if state := f.state(); state.Clones != 1 {
		t.Errorf("there were %d clones", state.Clones)
	}
	f.remove(machine)
}

// TestDelete_ChangedWhileCloning: a Machine that is made invalid while its virtual machine is on its way, or before its status is written, is not let
// go.
func TestDelete_ChangedWhileCloning(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	expect := func(what string, machine *machinev1beta1.Machine) {
		t.Helper()
		machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		_, getErr := f.actuator.Get(t.Context(), machine)
		for _, err := range []error{getErr, f.actuator.Delete(t.Context(), machine)} {
			if err == nil || provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	with := func(machine *machinev1beta1.Machine, change func(*machinev1beta1.VSphereMachineProviderSpec)) *machinev1beta1.Machine {
		spec, changed := f.site.ProviderSpec(), machine.DeepCopy()
		change(spec)
		changed.Spec.ProviderSpec = f.machine("spec", spec).Spec.ProviderSpec
		return changed
	}
	invalid := func(s *machinev1beta1.VSphereMachineProviderSpec) { s.NumCPUs = -1 }
	f.behave(simulated.Behavior{CloneDelay: time.Second})
	cloning := f.machine("cloning", f.site.ProviderSpec())
	f.step(cloning, false)
	expect("while it is cloned", with(cloning, invalid))
	select {
	case <-f.actuator.work.running[cloning.UID].stop:
	default:
		t.Error("the creation is not stopped")
	}
	f.remove(cloning)
	f.behave(simulated.Behavior{})

	restored := f.machine("restored", f.site.ProviderSpec())
	f.create(restored)
	instance, err := f.actuator.Get(t.Context(), restored)
	if err != nil {
		t.Fatal(err)
	}
	before := restored.DeepCopy()
	restored.UID, restored.Spec.ProviderID, restored.Status.ProviderStatus = "00000000-0000-4000-8000-00000000beef", nil, instance.Status
	expect("its datastore is not there", with(restored, func(s *machinev1beta1.VSphereMachineProviderSpec) { s.Workspace.Datastore = "none" }))
	expect("it is invalid, and recorded", with(restored, invalid))
	f.remove(before)
}

// TestDelete_InvalidAndUnavailable: a Machine with an invalid providerSpec may have a virtual machine in a vCenter that cannot be asked.
func TestDelete_InvalidAndUnavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	spec := f.site.ProviderSpec()
	spec.NumCPUs, spec.Workspace.Server = -1, "127.0.0.1:1"
	spec.CredentialsSecret = &corev1.LocalObjectReference{Name: "elsewhere"}
	machine := f.machine("unavailable", spec)
	if err := f.actuator.Delete(t.Context(), machine); err != nil {
		t.Errorf("there is no Secret, and no vCenter: %v", err)
	}
	down := vcenter.Endpoint{Server: spec.Workspace.Server, Insecure: true}
	if _, err := f.actuator.vcenters.get(down, vcenter.Credentials{Username: "user", Password: "password"}); err != nil {
		t.Fatal(err)
	}
	f.getFails(machine, "may be in vCenter "+spec.Workspace.Server)
	f.core.PrependReactor("get", "secrets", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(errors.New("broken"))
	})
	f.getFails(machine, "may have a virtual machine in vCenter "+spec.Workspace.Server)
}

// laterClock is a clock that can be set, with timers of real time.
type laterClock struct {
	clock.RealClock
	later atomic.Int64
}

// Now returns the time.
func (c *laterClock) Now() time.Time { return c.RealClock.Now().Add(time.Duration(c.later.Load())) }

// Since returns how long ago a time was.
func (c *laterClock) Since(then time.Time) time.Duration { return c.Now().Sub(then) }

// sessions returns how many sessions the vCenter has.
func (f *fixture) sessions() int {
	f.Helper()
	var manager mo.SessionManager
	ref := *f.client.ServiceContent.SessionManager
	if err := property.DefaultCollector(f.client).RetrieveOne(f.Context(), ref, []string{"sessionList"}, &manager); err != nil {
		f.Fatal(err)
	}
	return len(manager.SessionList)
}

// TestCredentials_Rotated: credentials that have changed are used without a restart, and the session of the former ones is ended.
func TestCredentials_Rotated(t *testing.T) {
	t.Parallel()
	later := &laterClock{}
	f := newFixture(t, func(options *Options) { options.Clock = later })
	machine := f.machine("rotated", f.site.ProviderSpec())
	f.create(machine)
	eventually(t, "its creation has ended", func() error {
		if f.actuator.work.isRunning(machine.UID) {
			return errors.New("it runs")
		}
		return nil
	})
	before := f.sessions()
	f.behave(simulated.Behavior{Password: "another"})
	secrets := f.core.CoreV1().Secrets(namespace)
	secret, err := secrets.Get(t.Context(), "vsphere-cloud-credentials", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	secret.Data[f.site.Host+".password"] = []byte("another")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	later.later.Store(int64(keepRead))
	f.gets(machine)
	if both := f.sessions(); both != before+1 {
		t.Errorf("there are %d sessions after %d", both, before)
	}
	later.later.Add(int64(keepIdle))
	f.gets(machine)
	f.actuator.vcenters.endIdle()
	eventually(t, "the session of the former credentials has ended", func() error {
		if left := f.sessions(); left != before {
			return fmt.Errorf("there are %d sessions, want %d", left, before)
		}
		return nil
	})
	f.remove(machine)
}

// TestOutage: a vCenter that does not answer for five minutes ends no Machine, and leaves no virtual machine behind. A second of this test is half a
// minute: the limits of calls and tasks are scaled like the outage.
func TestOutage(t *testing.T) {
	t.Parallel()
	const minute = 2 * time.Second
	f := newFixture(t, func(options *Options) {
		options.limits = vcenter.Limits{Call: minute, Changes: minute / 2, Task: 5 * minute, Clone: 30 * minute}
	})
	f.behave(simulated.Behavior{CloneDelay: minute / 8})
	running, deleted, created := f.machines("running"), f.machines("deleted"), f.machines("created")
	f.each(f.createOnce, running, deleted)
	// Some have just begun when it stops to answer.
	f.step(deleted[0], true)
	f.step(created[0], false)
	f.signal(syscall.SIGSTOP)
	for end := time.Now().Add(5 * minute); time.Now().Before(end); time.Sleep(minute / 20) {
		for _, machine := range running {
			if instance, err := f.actuator.Get(t.Context(), machine); err == nil && instance == nil {
				t.Fatal("a Machine that runs has no instance")
			}
		}
		for i := range created {
			f.step(created[i], false)
			f.step(deleted[i], true)
		}
	}
	// A Machine that is to be created is deleted instead.
	gone := created[1]
	created = append(created[:1:1], created[2:]...)
	f.step(gone, true)
	f.signal(syscall.SIGCONT)
	f.each(f.remove, deleted, []*machinev1beta1.Machine{gone})
	f.each(f.createOnce, created)
	f.each(f.gets, running)
	if state, want := f.state(), len(running)+len(created); len(state.Machines) != want {
		t.Errorf("there are the virtual machines %v, want %d", state.Machines, want)
	}
}

// machines returns three Machines.
func (f *fixture) machines(name string) (machines []*machinev1beta1.Machine) {
	for i := range 3 {
		machines = append(machines, f.machine(fmt.Sprintf("%s-%d", name, i), f.site.ProviderSpec()))
	}
	return machines
}

// each does something with all Machines at the same time.
func (f *fixture) each(do func(*machinev1beta1.Machine), machines ...[]*machinev1beta1.Machine) {
	f.Helper()
	var group sync.WaitGroup
	for _, machine := range slices.Concat(machines...) {
		group.Go(func() { do(machine) })
	}
	group.Wait()
}

func (f *fixture) createOnce(machine *machinev1beta1.Machine) { f.create(machine) }

// step calls Create or Delete once, and makes sure that no error ends the Machine.
func (f *fixture) step(machine *machinev1beta1.Machine, deletes bool) {
	f.Helper()
	var err error
	if deletes {
		machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		err = f.actuator.Delete(f.Context(), machine)
	} else {
		_, err = f.actuator.Create(f.Context(), machine)
	}
	if provider.ReasonOf(err, "") == machinev1beta1.InvalidConfigurationMachineError {
		f.Fatalf("Machine %s has failed: %v", machine.Name, err)
	}
}

func (f *fixture) signal(signal syscall.Signal) {
	f.Helper()
	if err := f.process.Signal(signal); err != nil {
		f.Fatal(err)
	}
}

// TestElsewhere_VirtualMachineGone: a virtual machine that is gone is in no vCenter, also where the connection has not heard of that yet.
func TestElsewhere_VirtualMachineGone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	all := func(string) bool { return true }
	for i := range 5 {
		machine := f.machine(fmt.Sprintf("gone-%d", i), f.site.ProviderSpec())
		f.create(machine)
		if err := f.actuator.vcenters.elsewhere(t.Context(), machine.UID, nil, all); err == nil {
			t.Error("it is found nowhere")
		}
		f.destroy(machine.Name)
		if err := f.actuator.vcenters.elsewhere(t.Context(), machine.UID, nil, all); err != nil {
			t.Error(err)
		}
	}
}

// TestElsewhere_Unavailable: a Machine with a providerID whose virtual machine was never seen in its vCenter may have it in another one, which cannot
// be asked now: its author may have changed the workspace. Other Machines do not wait for that vCenter.
func TestElsewhere_Unavailable(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	removed := f.machine("removed", f.site.ProviderSpec())
	f.create(removed)
	down := vcenter.Endpoint{Server: "127.0.0.1:1", Insecure: true}
	if _, err := f.actuator.vcenters.get(down, vcenter.Credentials{Username: "user", Password: "password"}); err != nil {
		t.Fatal(err)
	}
	f.remove(removed)
	if _, err := f.actuator.Get(t.Context(), f.machine("new", f.site.ProviderSpec())); err != nil {
		t.Errorf("a Machine without a providerID: %v", err)
	}
	moved := f.machine("moved", f.site.ProviderSpec())
	moved.Spec.ProviderID, moved.DeletionTimestamp = new("vsphere://uuid"), &metav1.Time{Time: time.Now()}
	if instance, err := f.actuator.Get(t.Context(), moved); err == nil || !strings.Contains(err.Error(), "may be in vCenter "+down.Server) {
		t.Errorf("it has the instance %+v, and the error %v", instance, err)
	}
	if err := f.actuator.Delete(t.Context(), moved); err == nil {
		t.Error("it is deleted")
	}

	// Where it was seen last is recorded.
	for server, want := range map[string]string{f.site.ProviderSpec().Workspace.Server: "", down.Server: "may be in vCenter " + down.Server,
		"elsewhere.example.com": "which Drover is not connected to"} {
		moved.Status.ProviderStatus = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"server":%q}`, server)}
		_, err := f.actuator.Get(t.Context(), moved)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("seen in %s: the error is %v, want %q", server, err, want)
		}
	}
}
