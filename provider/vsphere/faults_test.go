package vsphere

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/test/vcenter"
)

// behave has the vCenter behave so until the test ends.
func (f *fixture) behave(behavior vcenter.Behavior) {
	f.Helper()
	if err := f.site.SetBehavior(f.Context(), behavior); err != nil {
		f.Fatal(err)
	}
}

// fails calls Create until it returns an error that is no request to wait, and returns that.
func (f *fixture) fails(machine *machinev1beta1.Machine) (failure error) {
	f.Helper()
	eventually(f.T, "Create fails", func() error {
		_, err := f.actuator.Create(f.Context(), machine)
		if _, waits := provider.AsRequeueAfter(err); err == nil || waits {
			return fmt.Errorf("it has not: %w", err)
		}
		failure = err
		return nil
	})
	return failure
}

func TestCreate_Faults(t *testing.T) {
	f := newFixture(t)
	for fault, reason := range map[string]machinev1beta1.MachineStatusError{
		"NoDiskSpace": machinev1beta1.InsufficientResourcesMachineError, "InsufficientResources": machinev1beta1.InsufficientResourcesMachineError,
		"RuntimeFault": machinev1beta1.CreateMachineError,
	} {
		t.Run("the clone ends with "+fault, func(t *testing.T) {
			f.behave(vcenter.Behavior{CloneFault: fault})
			machine := f.machine("clone-"+strings.ToLower(fault), f.site.ProviderSpec())
			err := f.fails(machine)
			if got := provider.ReasonOf(err, machinev1beta1.CreateMachineError); got != reason || !strings.Contains(err.Error(), "cloning the template") {
				t.Errorf("reason %s: %v", got, err)
			}
			f.behave(vcenter.Behavior{})
			f.create(machine)
			f.remove(machine)
		})
	}
	t.Run("another virtual machine has the name", func(t *testing.T) {
		foreign := f.machine("taken", f.site.ProviderSpec())
		f.create(foreign)
		machine := f.machine("taken", f.site.ProviderSpec())
		machine.UID = "00000000-0000-4000-8000-00000000beef"
		if err := f.fails(machine); !strings.Contains(err.Error(), "the name taken is taken in the folder of the workspace") {
			t.Error(err)
		}
		machine.Spec.ProviderID = nil
		f.remove(machine)
		if f.state().Machines["taken"] == "" {
			t.Error("the other virtual machine is gone")
		}
		f.remove(foreign)
	})
	for name, change := range map[string]func(*machinev1beta1.VSphereMachineProviderSpec){
		"template not found, specify valid value": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Template = "none"
		},
		"datastore not found, specify valid value": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.Datastore = "none"
		},
		"folder not found, specify valid value": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.Folder = "/DC0/vm/none"
		},
		"resource pool not found, specify valid value": func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Workspace.ResourcePool = "none"
		},
		`error getting network specs: unable to get network for "x"`: func(s *machinev1beta1.VSphereMachineProviderSpec) {
			s.Network.Devices[0].NetworkName = "x"
		},
	} {
		t.Run(name, func(t *testing.T) {
			spec := f.site.ProviderSpec()
			change(spec)
			err := f.fails(f.machine("invalid", spec))
			if provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError || !strings.Contains(err.Error(), name) {
				t.Error(err)
			}
		})
	}
}

// TestCreate_AnotherProcess: a process that ends in the middle of a clone leaves one virtual machine, which the next process finds.
func TestCreate_AnotherProcess(t *testing.T) {
	f := newFixture(t)
	f.behave(vcenter.Behavior{CloneDelay: time.Second})
	machine := f.machine("interrupted", f.site.ProviderSpec())
	if _, err := f.actuator.Create(t.Context(), machine); err == nil {
		t.Fatal("the clone takes no time")
	}
	eventually(t, "the clone has begun", func() error {
		if task, _ := f.actuator.work.recordOf(machine.UID); task == "" {
			return errors.New("it has not")
		}
		return nil
	})
	f.actuator = f.newActuator()
	f.create(machine)
	if state := f.state(); state.Clones != 1 || len(state.Machines) != 1 {
		t.Errorf("%+v", state)
	}
	f.remove(machine)
}

// TestCreate_TwoTemplates: where two virtual machines have the name of the template, its path picks one, which the error says.
func TestCreate_TwoTemplates(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	finder := find.NewFinder(f.client)
	root, err := finder.Folder(t.Context(), "/"+vcenter.Datacenter+"/vm")
	if err != nil {
		t.Fatal(err)
	}
	folder, err := root.CreateFolder(t.Context(), "others")
	if err != nil {
		t.Fatal(err)
	}
	pool, err := finder.ResourcePool(t.Context(), vcenter.Pool)
	if err != nil {
		t.Fatal(err)
	}
	task, err := f.vm(vcenter.Template).Clone(t.Context(), folder, vcenter.Template, types.VirtualMachineCloneSpec{
		Location: types.VirtualMachineRelocateSpec{Pool: types.NewReference(pool.Reference())}, Config: &types.VirtualMachineConfigSpec{},
	})
	if err == nil {
		err = task.Wait(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	err = f.fails(f.machine("ambiguous", f.site.ProviderSpec()))
	const want = "multiple templates found, specify one in config: its full inventory path picks one, as in /DATACENTER/vm/FOLDER/NAME"
	if provider.ReasonOf(err, "") != machinev1beta1.InvalidConfigurationMachineError || !strings.Contains(err.Error(), want) {
		t.Error(err)
	}
	spec := f.site.ProviderSpec()
	spec.Template = "/" + vcenter.Datacenter + "/vm/" + vcenter.Template
	machine := f.machine("by-path", spec)
	f.create(machine)
	f.remove(machine)
}

// TestDelete_VMGroup: a virtual machine joins a VM group of its cluster, and leaves it.
func TestDelete_VMGroup(t *testing.T) {
	f := newFixture(t)
	spec := f.site.ProviderSpec()
	spec.Workspace.VMGroup = vcenter.VMGroup
	machine := f.machine("grouped", spec)
	if errs := f.create(machine); len(errs) > 0 {
		t.Error(errs)
	}
	f.remove(machine)
}

// TestCalls prints and bounds the calls for each Machine that is created and deleted.
func TestCalls(t *testing.T) {
	const count = 20
	f := newFixture(t)
	f.behave(vcenter.Behavior{CloneDelay: 500 * time.Millisecond})
	machines := make([]*machinev1beta1.Machine, count)
	for i := range machines {
		machines[i] = f.machine(fmt.Sprintf("calls-%d", i), f.site.ProviderSpec())
		machines[i].Labels = map[string]string{labelCluster: "cluster-a"}
	}
	all := func(do func(*machinev1beta1.Machine)) map[string]float64 {
		before := f.calls()
		var group sync.WaitGroup
		for _, machine := range machines {
			group.Go(func() { do(machine) })
		}
		group.Wait()
		made := f.calls()
		maps.DeleteFunc(made, func(method string, n float64) bool { return n == before[method] })
		for method := range made {
			made[method] -= before[method]
		}
		return made
	}
	created := all(func(machine *machinev1beta1.Machine) { f.create(machine) })
	idle := all(func(machine *machinev1beta1.Machine) {
		if _, err := f.actuator.Get(t.Context(), machine); err != nil {
			t.Error(err)
		}
	})
	deleted := all(func(machine *machinev1beta1.Machine) { f.remove(machine) })
	for what, bound := range map[string]struct {
		made map[string]float64
		most float64
	}{"created": {created, 5}, "that runs": {idle, 0.2}, "deleted": {deleted, 3}} {
		total := 0.0
		for _, method := range slices.Sorted(maps.Keys(bound.made)) {
			// The collector waits whether there are Machines or not.
			if method != "WaitForUpdatesEx" {
				total += bound.made[method]
			}
			t.Logf("%s: %s %.0f", what, method, bound.made[method])
		}
		t.Logf("calls for each Machine %s: %.2f", what, total/count)
		if total/count > bound.most {
			t.Errorf("there were %.2f calls for each Machine %s, want at most %.1f", total/count, what, bound.most)
		}
	}
}

// calls returns how often each method has been called.
func (f *fixture) calls() map[string]float64 {
	f.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(f.actuator.calls)
	families, err := registry.Gather()
	if err != nil {
		f.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "method" {
					counts[label.GetValue()] += metric.GetCounter().GetValue()
				}
			}
		}
	}
	return counts
}
