package machines

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// ipam is the API of addresses.
var ipam = schema.GroupVersion{Group: "ipam.cluster.x-k8s.io", Version: "v1beta1"}

// installIPAM installs the CRDs of addresses until the test ends.
func installIPAM(w *harness.World) {
	w.Helper()
	file, err := os.Open("testdata/ipam.yaml")
	if err != nil {
		w.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	if output, err := harness.Kubectl(w.Context(), env, file, "apply", "-f", "-"); err != nil {
		w.Fatalf("installing the CRDs of addresses: %v\n%s", err, output)
	}
	w.Cleanup(func() {
		names := []string{"ipaddressclaims." + ipam.Group, "ipaddresses." + ipam.Group}
		if output, err := harness.Kubectl(context.Background(), env, nil, append([]string{"delete", "--wait=false", "crd"}, names...)...); err != nil {
			w.Errorf("removing the CRDs of addresses: %v\n%s", err, output)
		}
	})
	if output, err := harness.Kubectl(w.Context(), env, nil, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s"); err != nil {
		w.Fatalf("%v\n%s", err, output)
	}
}

// fromPool gives Machines an address of a pool.
func fromPool(name string) func(*machinev1beta1.VSphereMachineProviderSpec) {
	return func(spec *machinev1beta1.VSphereMachineProviderSpec) {
		device := &spec.Network.Devices[0]
		device.Nameservers = []string{"10.9.8.53"}
		device.AddressesFromPools = []machinev1beta1.AddressesFromPool{{Group: ipam.Group, Resource: "InClusterIPPool", Name: name}}
	}
}

// claim reads the claim of a Machine; nil if there is none.
func (w *vsphereWorld) claim(machine string) *unstructured.Unstructured {
	w.Helper()
	claim := &unstructured.Unstructured{}
	claim.SetGroupVersionKind(ipam.WithKind("IPAddressClaim"))
	err := w.Client.Get(w.Context(), client.ObjectKey{Namespace: cluster.MachineNamespace, Name: machine + "-claim-0-0"}, claim)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		w.Fatal(err)
	}
	return claim
}

// bind assigns an address to the claim of a Machine, as the controller of a pool does.
func (w *vsphereWorld) bind(machine, address, gateway string) {
	w.Helper()
	claim := w.claim(machine)
	if claim == nil {
		w.Fatalf("Machine %s has no claim", machine)
	}
	pool, _, _ := unstructured.NestedStringMap(claim.Object, "spec", "poolRef")
	if pool["kind"] != "InClusterIPPool" || pool["apiGroup"] != ipam.Group {
		w.Errorf("the claim is of %v", pool)
	}
	assigned := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"address": address, "prefix": int64(24), "gateway": gateway, "claimRef": map[string]any{"name": claim.GetName()},
	}}}
	assigned.SetGroupVersionKind(ipam.WithKind("IPAddress"))
	assigned.SetNamespace(claim.GetNamespace())
	assigned.SetName(claim.GetName())
	w.CreateWithCleanup(assigned)
	changed := claim.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, assigned.GetName(), "status", "addressRef", "name"); err != nil {
		w.Fatal(err)
	}
	if err := w.Client.Status().Patch(w.Context(), changed, client.MergeFrom(claim)); err != nil {
		w.Fatal(err)
	}
}

// released waits until Drover keeps the claim of a Machine no more: the garbage collector may not know the kind yet.
func (w *vsphereWorld) released(machine string) {
	w.Helper()
	w.Eventually("the claim is released", func() error {
		if claim := w.claim(machine); claim != nil && len(claim.GetFinalizers()) > 0 {
			return fmt.Errorf("it has the finalizers %v", claim.GetFinalizers())
		}
		return nil
	})
}

// extraConfig reads a value of the configuration of a virtual machine, which its guest reads.
func (w *vsphereWorld) extraConfig(name, key string) (value string) {
	w.Helper()
	var vm mo.VirtualMachine
	ref := w.vm(name).Reference()
	if err := property.DefaultCollector(w.client).RetrieveOne(w.Context(), ref, []string{"config.extraConfig"}, &vm); err != nil {
		w.Fatal(err)
	}
	for _, option := range vm.Config.ExtraConfig {
		if option.GetOptionValue().Key == key {
			value, _ = option.GetOptionValue().Value.(string)
		}
	}
	return value
}

func claimedLate(w *vsphereWorld) {
	p := w.pool("late", 1, fromPool("late"))
	machine := shows(p, corev1.ConditionFalse, "Waiting on 1 IP address claims to be bound")
	w.bind(machine.Name, "10.9.8.7", "10.9.8.1")
	p.Runs(1)
	const want = "ip=10.9.8.7::10.9.8.1:255.255.255.0:::none nameserver=10.9.8.53"
	if got := strings.TrimSpace(w.extraConfig(machine.Name, "guestinfo.afterburn.initrd.network-kargs")); got != want {
		w.Errorf("the kernel arguments of the guest are %q, want %q", got, want)
	}
	if !slices.Contains(w.claim(machine.Name).GetFinalizers(), "machine.openshift.io/ip-claim-protection") {
		w.Error("the address may be given to another while the virtual machine has it")
	}
	w.leavesNothing(p)
	w.released(machine.Name)
}

func claimedNever(w *vsphereWorld) {
	p := w.pool("never", 1, fromPool("never"))
	machine := shows(p, corev1.ConditionFalse, "Waiting on 1 IP address claims to be bound")
	time.Sleep(time.Second)
	if vms := w.vms(p.Name); len(vms) > 0 {
		w.Errorf("there are the virtual machines %v", vms)
	}
	// A wait is no failure.
	w.NoEvent("Machine", machine.Name, "FailedCreate")
	w.leavesNothing(p)
	w.released(machine.Name)
}

// claimedBefore: a claim without an owner, as OpenShift's installer makes them for the first Machines, becomes the Machine's, and goes with it.
func claimedBefore(w *vsphereWorld) {
	const name = "installed-1"
	claim := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"poolRef": map[string]any{"apiGroup": ipam.Group, "kind": "InClusterIPPool", "name": "installed"},
	}}}
	claim.SetGroupVersionKind(ipam.WithKind("IPAddressClaim"))
	claim.SetNamespace(cluster.MachineNamespace)
	claim.SetName(name + "-claim-0-0")
	w.CreateWithCleanup(claim)
	w.bind(name, "10.9.8.8", "10.9.8.1")
	p := w.machine("installed", name, fromPool("installed"))
	w.Eventually("the Machine owns the claim", func() error {
		owners := w.claim(name).GetOwnerReferences()
		if len(owners) != 1 || owners[0].UID != w.Machine(name).UID {
			return fmt.Errorf("the owners are %v", owners)
		}
		return nil
	})
	p.DeleteMachine(name)
	p.Gone(name)
	w.released(name)
}
