package machines

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	"github.com/vmware/govmomi/vim25/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/vcenter"
)

// vsphereWorld is a control plane with a vCenter.
type vsphereWorld struct {
	*harness.World

	site *vcenter.Site
	// client is the client of another user of the vCenter.
	client *vim25.Client
	faults *vsphereFaults
}

// vsphereFaults are how the vCenter behaves, which several tests change.
type vsphereFaults struct {
	mu       sync.Mutex
	behavior vcenter.Behavior
}

// behave changes how the vCenter behaves.
func (w *vsphereWorld) behave(change func(*vcenter.Behavior)) {
	w.Helper()
	w.faults.mu.Lock()
	defer w.faults.mu.Unlock()
	change(&w.faults.behavior)
	if err := w.site.SetBehavior(w.Context(), w.faults.behavior); err != nil {
		w.Fatal(err)
	}
	w.faults.behavior.Calls = nil
}

// in returns the same for another test.
func (w *vsphereWorld) in(t *testing.T) *vsphereWorld {
	t.Helper()
	return &vsphereWorld{World: harness.NewWorld(t, env), site: w.site, client: w.client, faults: w.faults}
}

// pool makes a MachineSet whose Machines are virtual machines of the vCenter.
func (w *vsphereWorld) pool(name string, replicas int32, change func(*machinev1beta1.VSphereMachineProviderSpec)) *harness.Pool {
	w.Helper()
	return w.MakeVSpherePool(w.site, name, replicas, change)
}

// vms returns the power states of a pool's virtual machines. Their names begin with the pool's name.
func (w *vsphereWorld) vms(pool string) (states []string) {
	w.Helper()
	state, err := w.site.State(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	for name, power := range state.Machines {
		if strings.HasPrefix(name, pool+"-") {
			states = append(states, power)
		}
	}
	return states
}

// leavesNothing removes the Machines of a pool, and waits until they have left nothing in the vCenter.
func (w *vsphereWorld) leavesNothing(p *harness.Pool) {
	w.Helper()
	p.Scale(0)
	w.Eventually("pool "+p.Name+" leaves nothing", func() error {
		if machines, vms := p.Machines(), w.vms(p.Name); len(machines)+len(vms) > 0 {
			return fmt.Errorf("%d Machines and %d virtual machines are left", len(machines), len(vms))
		}
		return nil
	})
}

// vm returns a virtual machine as another user of the vCenter sees it.
func (w *vsphereWorld) vm(name string) *object.VirtualMachine {
	w.Helper()
	finder := find.NewFinder(w.client)
	vm, err := finder.VirtualMachine(w.Context(), "/"+vcenter.Datacenter+"/vm/"+name)
	if err != nil {
		w.Fatal(err)
	}
	return vm
}

// clone clones the template as another user of the vCenter.
func (w *vsphereWorld) clone(name, instanceUUID string) *object.VirtualMachine {
	w.Helper()
	finder := find.NewFinder(w.client)
	pool, err := finder.ResourcePool(w.Context(), vcenter.Pool)
	if err != nil {
		w.Fatal(err)
	}
	folder, err := finder.Folder(w.Context(), "/"+vcenter.Datacenter+"/vm")
	if err != nil {
		w.Fatal(err)
	}
	w.done(w.vm(vcenter.Template).Clone(w.Context(), folder, name, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())},
		Config:   &types.VirtualMachineConfigSpec{InstanceUuid: instanceUUID},
	}))
	return w.vm(name)
}

// done waits for a task.
func (w *vsphereWorld) done(task *object.Task, err error) {
	w.Helper()
	if err == nil {
		err = task.Wait(w.Context())
	}
	if err != nil {
		w.Fatal(err)
	}
}

// shows waits until a Machine of a pool shows a message in InstanceExists with a status, and returns the Machine, which has not failed.
func shows(p *harness.Pool, want corev1.ConditionStatus, message string) (found *machinev1beta1.Machine) {
	p.Helper()
	p.Eventually(fmt.Sprintf("InstanceExists is %s: %s", want, message), func() error {
		machines := p.Machines()
		for i := range machines {
			exists := status.MachineCondition(machines[i].Status.Conditions, machinev1beta1.InstanceExistsCondition)
			if exists != nil && exists.Status == want && strings.Contains(exists.Message, message) {
				found = &machines[i]
				return nil
			}
		}
		return fmt.Errorf("it is not: %s", harness.JSON(machines))
	})
	if reason := found.Status.ErrorReason; reason != nil {
		p.Errorf("Machine %s has failed: %s", found.Name, *reason)
	}
	return found
}

// failed waits until a Machine of a pool has failed, and returns it.
func failed(p *harness.Pool, message string) (found *machinev1beta1.Machine) {
	p.Helper()
	p.Eventually("a Machine has failed: "+message, func() error {
		machines := p.Machines()
		for i := range machines {
			if text := machines[i].Status.ErrorMessage; text != nil && strings.Contains(*text, message) {
				found = &machines[i]
				return nil
			}
		}
		return errors.New("it has not")
	})
	return found
}

// TestVSphere_Faults: what goes wrong in a vCenter is shown on the Machine by its condition and an event, and mended when it passes.
func TestVSphere_Faults(t *testing.T) {
	prepared := prepared(t)
	installIPAM(prepared)
	site := prepared.StartVCenter(cluster.VCenterOptions{ClusterID: "cluster-a"})
	client, err := site.VIM(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w := &vsphereWorld{World: prepared, site: site, client: client, faults: &vsphereFaults{}}
	second := w.secondVCenter()
	// A worker that waits for a vCenter would be missed.
	w.Operator(harness.Options{Args: []string{"--controllers=*", vsphereProviders, "--machines-workers=4"}})
	w.behave(func(b *vcenter.Behavior) {
		b.Clones = map[string]vcenter.CloneBehavior{"full": {Fault: "NoDiskSpace"}, "slow": {Held: true}}
	})
	t.Run("of one Machine", func(t *testing.T) {
		for name, test := range map[string]func(*vsphereWorld){
			"the datastore is full": datastoreFull, "the Machine is deleted while its clone runs": deletedWhileCloned,
			"another virtual machine has the name": nameTaken, "another virtual machine has the instance UUID": uuidTaken,
			"another network card": anotherCard, "there is no such template": noTemplate, "an address is claimed late": claimedLate,
			"an address is never claimed": claimedNever, "another vCenter is down": second.isDown,
			"the installer has claimed the address": claimedBefore, "the Machine is deleted while it is turned off": deletedWhileOff,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(w.in(t))
			})
		}
	})
	t.Run("the session ends", func(t *testing.T) { sessionEnds(w.in(t)) })
	t.Run("the service of tags is down", func(t *testing.T) { tagsDown(w.in(t)) })
	t.Run("the vCenter does not answer for a while", func(t *testing.T) { outage(w.in(t)) })
	t.Run("the template is removed", func(t *testing.T) { templateRemoved(w.in(t)) })
}

func datastoreFull(w *vsphereWorld) {
	p := w.pool("full", 1, nil)
	machine := shows(p, corev1.ConditionFalse, "cloning the template")
	w.AwaitEvent("Machine", machine.Name, "FailedCreate", "NoDiskSpace")
	w.NoEvent("Machine", machine.Name, "Create")
	w.behave(func(b *vcenter.Behavior) { delete(b.Clones, "full") })
	p.Runs(1)
	w.AwaitEvent("Machine", machine.Name, "Create", "Created an instance")
	w.leavesNothing(p)
}

func deletedWhileCloned(w *vsphereWorld) {
	p := w.pool("slow", 1, nil)
	machine := shows(p, corev1.ConditionFalse, "cloning the template "+vcenter.Template)
	p.Scale(0)
	shows(p, corev1.ConditionTrue, "cloning the template "+vcenter.Template)
	w.behave(func(b *vcenter.Behavior) { delete(b.Clones, "slow") })
	p.Gone(machine.Name)
	if left := w.vms(p.Name); len(left) > 0 {
		w.Errorf("the virtual machines %v are left", left)
	}
}

// deletedWhileOff: of a node that is off no eviction can be answered, and no budget keeps its Machine.
func deletedWhileOff(w *vsphereWorld) {
	s, p := w.Site(), w.pool("off", 1, nil)
	name := p.Runs(1)[0].Name
	w.ChangeNode(name, func(node *corev1.Node) {
		node.Labels[harness.SiteLabel], node.Labels[corev1.LabelHostname] = s.Name, name
	})
	s.Pod("needed", harness.Pods{Node: name, Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists},
		{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}})
	s.Budget("needed", "needed", harness.MinAvailable(1))
	if err := w.site.PowerOff(w.Context(), name); err != nil {
		w.Fatal(err)
	}
	w.AwaitNode(name, "no readiness", func(node *corev1.Node) error {
		for _, condition := range node.Status.Conditions {
			if condition.Type == corev1.NodeReady && condition.Status != corev1.ConditionTrue {
				return nil
			}
		}
		return errors.New("it is ready")
	})
	p.DeleteMachine(name)
	p.Gone(name)
	w.leavesNothing(p)
}

// machine creates a Machine that belongs to a pool. It has no MachineSet, which would give it another name.
func (w *vsphereWorld) machine(pool, name string, change func(*machinev1beta1.VSphereMachineProviderSpec)) *harness.Pool {
	w.Helper()
	spec := w.site.ProviderSpec()
	if change != nil {
		change(spec)
	}
	raw, err := json.Marshal(spec)
	if err != nil {
		w.Fatal(err)
	}
	machine := harness.NewMachine(name)
	machine.Labels = map[string]string{cluster.MachineSetLabel: pool}
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	w.CreateWithCleanup(machine)
	return &harness.Pool{World: w.World, Name: pool}
}

func nameTaken(w *vsphereWorld) {
	const name = "taken-1"
	foreign := w.clone(name, "")
	p := w.machine("taken", name, nil)
	shows(p, corev1.ConditionFalse, "the name taken-1 is taken in the folder of the workspace")
	w.AwaitEvent("Machine", name, "FailedCreate", "rename or delete that virtual machine")
	w.done(foreign.Destroy(w.Context()))
	p.Eventually("the Machine runs", func() error {
		if w.Machine(name).Status.NodeRef == nil {
			return errors.New("it has no Node")
		}
		return nil
	})
	p.DeleteMachine(name)
	p.Gone(name)
}

func uuidTaken(w *vsphereWorld) {
	p := w.pool("twin", 1, nil)
	machine := p.Runs(1)[0]
	other := w.clone("another", string(machine.UID))
	shows(p, corev1.ConditionUnknown, "have the same instance UUID")
	w.AwaitEvent("Machine", machine.Name, "FailedUpdate", "have the same instance UUID")
	w.done(other.Destroy(w.Context()))
	if err := vcenter.EndOtherSessions(w.Context(), w.client); err != nil {
		w.Fatal(err)
	}
	shows(p, corev1.ConditionTrue, "")
	w.leavesNothing(p)
}

func anotherCard(w *vsphereWorld) {
	p := w.pool("card", 1, nil)
	machine := p.Runs(1)[0]
	vm := w.vm(machine.Name)
	card, err := object.EthernetCardTypes().CreateEthernetCard("vmxnet3", &types.VirtualEthernetCardNetworkBackingInfo{
		VirtualDeviceDeviceBackingInfo: types.VirtualDeviceDeviceBackingInfo{DeviceName: "VM Network"},
	})
	if err == nil {
		err = vm.AddDevice(w.Context(), card)
	}
	if err != nil {
		w.Fatal(err)
	}
	shows(p, corev1.ConditionUnknown, "invalid network count: expected=1 current=2")
	w.AwaitEvent("Machine", machine.Name, "FailedUpdate", "invalid network count: expected=1 current=2")
	devices, err := vm.Device(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	cards := devices.SelectByType((*types.VirtualEthernetCard)(nil))
	if err := vm.RemoveDevice(w.Context(), false, cards[len(cards)-1]); err != nil {
		w.Fatal(err)
	}
	shows(p, corev1.ConditionTrue, "")
	w.leavesNothing(p)
}

func noTemplate(w *vsphereWorld) {
	p := w.pool("template", 1, func(spec *machinev1beta1.VSphereMachineProviderSpec) { spec.Template = "none" })
	machine := failed(p, "template not found, specify valid value")
	w.AwaitEvent("Machine", machine.Name, "FailedCreate", "template not found, specify valid value")
	w.leavesNothing(p)
}

func sessionEnds(w *vsphereWorld) {
	w.behave(func(b *vcenter.Behavior) { b.Calls = map[string]string{"CloneVM_Task": "NotAuthenticated"} })
	p := w.pool("session", 1, nil)
	machine := p.Runs(1)[0]
	// It was renewed at once: there is nothing that a user should do.
	w.NoEvent("Machine", machine.Name, "FailedCreate")
	w.leavesNothing(p)
}

func tagsDown(w *vsphereWorld) {
	w.behave(func(b *vcenter.Behavior) { b.REST = http.StatusServiceUnavailable })
	running := w.pool("untagged", 1, nil)
	running.Runs(1)
	p := w.pool("tagged", 1, func(spec *machinev1beta1.VSphereMachineProviderSpec) {
		spec.TagIDs = []string{w.site.ClusterTag}
	})
	machine := shows(p, corev1.ConditionFalse, "attaching the tag "+w.site.ClusterTag)
	w.AwaitEvent("Machine", machine.Name, "FailedCreate", "503")
	if vms := w.vms(p.Name); !slices.Equal(vms, []string{"poweredOff"}) {
		w.Errorf("the virtual machines are %v, want one that has not been powered on", vms)
	}
	w.leavesNothing(running)
	w.behave(func(b *vcenter.Behavior) { b.REST = 0 })
	p.Runs(1)
	w.leavesNothing(p)
}

func outage(w *vsphereWorld) {
	p := w.pool("outage", 2, nil)
	p.Runs(2)
	if err := env.Kill(cluster.VCenter, syscall.SIGSTOP); err != nil {
		w.Fatal(err)
	}
	p.Scale(3)
	p.Eventually("the third Machine exists", func() error {
		if len(p.Machines()) != 3 {
			return errors.New("it does not")
		}
		return nil
	})
	shows(p, corev1.ConditionFalse, "")
	if err := env.Kill(cluster.VCenter, syscall.SIGCONT); err != nil {
		w.Fatal(err)
	}
	for _, machine := range p.Runs(3) {
		if machine.Status.ErrorReason != nil {
			w.Errorf("machine %s: %s", machine.Name, *machine.Status.ErrorReason)
		}
	}
	w.leavesNothing(p)
}

func templateRemoved(w *vsphereWorld) {
	w.done(w.vm(vcenter.Template).Destroy(w.Context()))
	p := w.pool("removed", 1, nil)
	machine := failed(p, "template not found, specify valid value")
	w.AwaitEvent("Machine", machine.Name, "FailedCreate", "template not found, specify valid value")
	w.leavesNothing(p)
}
