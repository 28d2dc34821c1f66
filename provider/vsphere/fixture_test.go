package vsphere

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/vim25"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/clock"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
	"github.com/drover-io/drover/test/cluster"
	wait "github.com/drover-io/drover/test/eventually"
	"github.com/drover-io/drover/test/vcenter"
)

// namespace is the namespace of the Machines.
const namespace = "conformance"

// fixture is an Actuator beside a vCenter that drover-sandbox plays, as a process of its own: the simulator is not free of data races.
type fixture struct {
	*testing.T
	site     *vcenter.Site
	process  *os.Process
	client   *vim25.Client
	options  Options
	core     *fake.Clientset
	actuator *Actuator
}

// newFixture starts a vCenter, and the provider, perhaps with other options.
func newFixture(t *testing.T, change ...func(*Options)) *fixture {
	t.Helper()
	f := &fixture{T: t, options: defaultOptions()}
	f.options.Clock = clock.RealClock{}
	for _, change := range change {
		change(&f.options)
	}
	f.site, f.process = startVCenter(t)
	var err error
	if f.client, err = f.site.VIM(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.actuator = f.newActuator()
	return f
}

// startVCenter starts a vCenter whose guests never boot.
func startVCenter(t *testing.T) (*vcenter.Site, *os.Process) {
	t.Helper()
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	ready := filepath.Join(t.TempDir(), "ready")
	ctx, cancel := context.WithCancel(context.Background())
	command := exec.CommandContext(ctx, binary, cluster.VCenter, "--ready-file="+ready, "--cluster-id=cluster-a")
	command.Stderr = os.Stderr
	if err := command.Start(); err != nil {
		cancel()
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = command.Wait() })
	site := &vcenter.Site{}
	eventually(t, "the vCenter runs", func() error {
		text, err := os.ReadFile(filepath.Clean(ready))
		if err != nil {
			return err
		}
		return json.Unmarshal(text, site)
	})
	return site, command.Process
}

// newActuator starts the provider, as another process of Drover would.
func (f *fixture) newActuator() *Actuator {
	f.Helper()
	var objects []runtime.Object
	for _, object := range f.site.Objects(namespace) {
		objects = append(objects, object)
	}
	f.core = fake.NewClientset(objects...)
	actuator := NewActuator(f.core.CoreV1(), ctrlfake.NewClientBuilder().Build(), f.options)
	actuator.work.retry = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = actuator.Run(ctx, func(types.NamespacedName) {})
	}()
	f.Cleanup(func() { cancel(); <-done })
	eventually(f.T, "the provider knows the vCenter", func() error {
		_, err := actuator.Get(ctx, f.machine("none", f.site.ProviderSpec()))
		return err
	})
	return actuator
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, condition func() error) {
	t.Helper()
	if err := wait.Until(t.Context(), time.Minute, 20*time.Millisecond, condition); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}

// machine returns a Machine with a providerSpec. Its UID follows from its name.
func (f *fixture) machine(name string, spec *machinev1beta1.VSphereMachineProviderSpec) *machinev1beta1.Machine {
	f.Helper()
	raw, err := json.Marshal(spec)
	if err != nil {
		f.Fatal(err)
	}
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name))
	machine := conformance.NewMachine(name)
	machine.UID = types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012x", hash.Sum32()))
	machine.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: raw}
	return machine
}

// create calls Create until it returns an instance, and records that. Errors that are no request to wait are counted.
func (f *fixture) create(machine *machinev1beta1.Machine) (errs []error) {
	f.Helper()
	eventually(f.T, "there is an instance", func() error {
		instance, err := f.actuator.Create(f.Context(), machine)
		if _, waits := provider.AsRequeueAfter(err); err != nil && !waits {
			errs = append(errs, err)
			f.Logf("creating %s: %v", machine.Name, err)
		}
		if err == nil {
			machine.Spec.ProviderID, machine.Status.ProviderStatus = &instance.ProviderID, instance.Status
		}
		return err
	})
	return errs
}

// remove deletes a Machine until there is no instance.
func (f *fixture) remove(machine *machinev1beta1.Machine) {
	f.Helper()
	machine.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	eventually(f.T, "there is no instance", func() error {
		if err := f.actuator.Delete(f.Context(), machine); err != nil {
			return err
		}
		instance, err := f.actuator.Get(f.Context(), machine)
		if err == nil && instance != nil {
			err = fmt.Errorf("it is %s", instance.State)
		}
		return err
	})
}

// vm returns a virtual machine by its name.
func (f *fixture) vm(name string) *object.VirtualMachine {
	f.Helper()
	finder := find.NewFinder(f.client)
	datacenter, err := finder.Datacenter(f.Context(), vcenter.Datacenter)
	if err != nil {
		f.Fatal(err)
	}
	vm, err := finder.SetDatacenter(datacenter).VirtualMachine(f.Context(), name)
	if err != nil {
		f.Fatal(err)
	}
	return vm
}

// state is how the vCenter is.
func (f *fixture) state() vcenter.State {
	f.Helper()
	state, err := f.site.State(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return state
}
