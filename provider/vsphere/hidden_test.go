package vsphere

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/vim25/types"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// TestDelete_PlaceNotSeen: the addresses of a virtual machine that a user of the vCenter is not shown any more are not released.
func TestDelete_PlaceNotSeen(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	spec := f.site.ProviderSpec()
	spec.Workspace.Datastore = "none"
	spec.Network.Devices[0].AddressesFromPools = []machinev1beta1.AddressesFromPool{{Group: "ipam.example.com", Resource: "pools", Name: "nodes"}}
	machine := f.machine("hidden", spec)
	claim := claimsOf(machine, spec)[0]
	if err := f.actuator.createClaim(t.Context(), machine, claim); err != nil {
		t.Fatal(err)
	}
	machine.Spec.ProviderID, machine.DeletionTimestamp = new("vsphere://uuid"), &metav1.Time{Time: time.Now()}
	if err := f.actuator.Delete(t.Context(), machine); err == nil || !strings.Contains(err.Error(), "nor is the place where it should be") {
		t.Errorf("error %v", err)
	}
	kept, err := f.actuator.claim(t.Context(), machine, claim)
	if err == nil && kept == nil {
		err = errors.New("there is no claim")
	}
	if err != nil {
		t.Fatal(err)
	}
	if !controllerutil.ContainsFinalizer(kept, claimFinalizer) {
		t.Error("the claim is released")
	}
}

// TestDelete_UnreadableAfterRestart: the virtual machine of a Machine whose providerSpec cannot be read any more is looked for by a Drover that has
// just started, where the providerSpec still says.
func TestDelete_UnreadableAfterRestart(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	machine := f.machine("unreadable", f.site.ProviderSpec())
	f.create(machine)
	changed := machine.DeepCopy()
	changed.Spec.ProviderID, changed.Status.ProviderStatus = nil, nil
	var spec map[string]any
	if err := json.Unmarshal(machine.Spec.ProviderSpec.Value.Raw, &spec); err != nil {
		t.Fatal(err)
	}
	for name, wrong := range map[string]string{"numCPUs": "two", "template": "", "network": "none", "credentialsSecret": "none"} {
		spec[name] = wrong
		raw, err := json.Marshal(spec)
		if err != nil {
			t.Fatal(err)
		}
		changed.Spec.ProviderSpec.Value.Raw = raw
		restarted := *f
		restarted.actuator = f.newActuator()
		restarted.actuator.vcenters.known = map[string]*connection{}
		restarted.getFails(changed, "may have a virtual machine in vCenter "+f.site.Host)
	}
	f.remove(machine)
}

// TestGet_NotShown: the virtual machine of a Machine that exists is not taken for gone by a connection that has never been shown it.
func TestGet_NotShown(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	machine := f.machine("not-shown", f.site.ProviderSpec())
	f.create(machine)
	vm := f.vm(machine.Name)
	// The simulator shows every user everything: one with another name and UUID is as good as none.
	f.done(vm.Reconfigure(t.Context(), types.VirtualMachineConfigSpec{Name: "renamed", InstanceUuid: "00000000-0000-4000-8000-00000000dead"}))
	f.actuator = f.newActuator()
	f.getFails(machine, "exists in vCenter "+f.site.Host+", and is not shown to the user of Secret "+namespace+"/vsphere-cloud-credentials")
	deleted := machine.DeepCopy()
	deleted.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	if err := f.actuator.Delete(t.Context(), deleted); err == nil || !strings.Contains(err.Error(), "is not shown") {
		t.Errorf("Delete says %v", err)
	}
	f.done(vm.PowerOff(t.Context()))
	f.done(vm.Destroy(t.Context()))
	if instance, err := f.actuator.Get(t.Context(), machine); instance != nil || err != nil {
		t.Errorf("it is destroyed: %+v, %v", instance, err)
	}
}

// TestEndIdle_Held: the connection that an operation needs is not ended, however long it takes.
func TestEndIdle_Held(t *testing.T) {
	t.Parallel()
	later := &laterClock{}
	f := newFixture(t, func(options *Options) { options.Clock = later })
	target, err := f.actuator.target(t.Context(), f.machine("held", f.site.ProviderSpec()))
	if err != nil {
		t.Fatal(err)
	}
	release := f.actuator.vcenters.hold(target.vcenter)
	later.later.Add(int64(keepIdle))
	f.actuator.vcenters.endIdle()
	if !f.actuator.vcenters.isConnected(f.site.Host) {
		t.Error("the connection has ended under the operation")
	}
	release()
	f.actuator.vcenters.endIdle()
	if !f.actuator.vcenters.isConnected(f.site.Host) {
		t.Error("the connection has ended at once after the operation")
	}
	later.later.Add(int64(keepIdle))
	f.actuator.vcenters.endIdle()
	if f.actuator.vcenters.isConnected(f.site.Host) {
		t.Error("the idle connection has not ended")
	}
}
