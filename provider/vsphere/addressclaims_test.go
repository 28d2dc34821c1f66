package vsphere

import (
	"context"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/conformance"
)

// claimCase is a Machine whose address comes from a pool.
func claimCase() (*Actuator, *machinev1beta1.Machine, *machinev1beta1.VSphereMachineProviderSpec) {
	spec := validSpec()
	spec.Network.Devices[0].Gateway, spec.Network.Devices[0].Nameservers = "10.0.0.254", []string{"10.0.0.53"}
	spec.Network.Devices[0].AddressesFromPools = []machinev1beta1.AddressesFromPool{{Group: "ipam.example.com", Resource: "pools", Name: "nodes"}}
	actuator := NewActuator(fake.NewClientset().CoreV1(), ctrlfake.NewClientBuilder().Build(), defaultOptions())
	return actuator, conformance.NewMachine("worker-1"), spec
}

// bind binds the claim of a Machine to an address, as a controller of addresses does.
func bind(t *testing.T, a *Actuator, claim *unstructured.Unstructured, gateway string) {
	t.Helper()
	address := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"address": "10.0.0.7", "prefix": int64(24), "gateway": gateway, "claimRef": map[string]any{"name": claim.GetName()},
	}}}
	address.SetGroupVersionKind(addressKind)
	address.SetNamespace(claim.GetNamespace())
	address.SetName("nodes-7")
	if err := a.client.Create(t.Context(), address); err != nil {
		t.Fatal(err)
	}
	claim.Object["status"] = map[string]any{"addressRef": map[string]any{"name": "nodes-7"}}
	if err := a.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
}

func TestClaims(t *testing.T) {
	a, machine, spec := claimCase()
	_, err := a.claimAddresses(t.Context(), machine, spec)
	if _, waits := provider.AsRequeueAfter(err); !waits || !strings.Contains(err.Error(), "Waiting on 1 IP address claims to be bound") {
		t.Fatalf("an address that is not there is not waited for: %v", err)
	}
	machine.Status.ProviderStatus = provider.StatusOf(err)
	checkCondition(t, machine, conditionAddress, metav1.ConditionFalse, reasonUnclaimed, "Waiting on 1 IP address claims to be bound")
	claim, err := a.claim(t.Context(), machine, claimsOf(machine, spec)[0])
	if err != nil || claim == nil {
		t.Fatalf("the claim: %v, %v", claim, err)
	}
	pool, _, _ := unstructured.NestedStringMap(claim.Object, "spec", "poolRef")
	if pool["apiGroup"] != "ipam.example.com" || pool["kind"] != "pools" || pool["name"] != "nodes" || !metav1.IsControlledBy(claim, machine) {
		t.Errorf("%+v", claim.Object)
	}
	bind(t, a, claim, "10.0.0.1")
	interfaces, err := a.claimAddresses(t.Context(), machine, spec)
	if err != nil || len(interfaces) != 1 || len(interfaces[0].Addresses) != 1 {
		t.Fatalf("%+v, %v", interfaces, err)
	}
	if got := interfaces[0].Addresses[0]; got.Prefix.String() != "10.0.0.7/24" || got.Gateway.String() != "10.0.0.1" {
		t.Errorf("the gateway of the pool counts before that of the device: %+v", got)
	}
	if held, err := a.hasClaims(t.Context(), machine, spec); err != nil || !held {
		t.Errorf("the address is not held: %t, %v", held, err)
	}
	if err := a.releaseClaims(t.Context(), machine, spec); err != nil {
		t.Fatal(err)
	}
	if held, err := a.hasClaims(t.Context(), machine, spec); err != nil || held {
		t.Errorf("the address is held: %t, %v", held, err)
	}
}

// Who may write claims cannot give a Machine the address of another claim.
func TestClaims_AddressOfAnotherClaim(t *testing.T) {
	a, machine, spec := claimCase()
	_, _ = a.claimAddresses(t.Context(), machine, spec)
	claim, err := a.claim(t.Context(), machine, claimsOf(machine, spec)[0])
	if err != nil {
		t.Fatal(err)
	}
	other := claim.DeepCopy()
	other.SetName("other")
	other.SetResourceVersion("")
	if err := a.client.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	bind(t, a, other, "10.0.0.1")
	claim.Object["status"] = other.Object["status"]
	if err := a.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if _, err := a.claimAddresses(t.Context(), machine, spec); err == nil || !strings.Contains(err.Error(), `is for IPAddressClaim "other"`) {
		t.Errorf("the address of another claim: %v", err)
	}
}

func TestClaims_OfAnotherMachine(t *testing.T) {
	a, machine, spec := claimCase()
	_, _ = a.claimAddresses(t.Context(), machine, spec)
	other := machine.DeepCopy()
	other.UID = "another"
	if _, err := a.claimAddresses(t.Context(), other, spec); err == nil || !strings.Contains(err.Error(), "is not the Machine's") {
		t.Errorf("the address of another Machine: %v", err)
	}
	if err := a.releaseClaims(t.Context(), other, spec); err != nil {
		t.Fatal(err)
	}
	if held, err := a.hasClaims(t.Context(), machine, spec); err != nil || !held {
		t.Errorf("another Machine has released the address: %t, %v", held, err)
	}
}

// TestClaims_WithoutOwner: a claim that no object controls is adopted, and released, if it is the Machine's.
func TestClaims_WithoutOwner(t *testing.T) {
	for name, c := range map[string]struct {
		change func(claim *unstructured.Unstructured)
		own    bool
	}{
		"orphaned":                {func(*unstructured.Unstructured) {}, true},
		"made by an installer":    {func(claim *unstructured.Unstructured) { claim.SetLabels(nil) }, true},
		"of another Machine":      {func(claim *unstructured.Unstructured) { claim.SetLabels(map[string]string{labelMachine: "another"}) }, false},
		"without the finalizer":   {func(claim *unstructured.Unstructured) { claim.SetFinalizers(nil) }, true},
		"of an object, as others": {func(claim *unstructured.Unstructured) { claim.SetLabels(nil); own(claim, "ConfigMap", "another") }, false},
		"of another pool": {func(claim *unstructured.Unstructured) {
			claim.SetLabels(nil)
			claim.Object["spec"] = map[string]any{"poolRef": map[string]any{"apiGroup": "ipam.example.com", "kind": "pools", "name": "others"}}
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, machine, spec := claimCase()
			_, _ = a.claimAddresses(t.Context(), machine, spec)
			claim, err := a.claim(t.Context(), machine, claimsOf(machine, spec)[0])
			if err != nil {
				t.Fatal(err)
			}
			claim.SetOwnerReferences(nil)
			c.change(claim)
			if err := a.client.Update(t.Context(), claim); err != nil {
				t.Fatal(err)
			}
			kept := slices.Contains(claim.GetFinalizers(), claimFinalizer)
			if held, err := a.hasClaims(t.Context(), machine, spec); err != nil || held != (c.own && kept) {
				t.Errorf("it is held: %t, %v", held, err)
			}
			_, err = a.claimAddresses(t.Context(), machine, spec)
			if _, waits := provider.AsRequeueAfter(err); waits != c.own {
				t.Errorf("error %v", err)
			}
			if err := a.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
				t.Fatal(err)
			}
			if metav1.IsControlledBy(claim, machine) != c.own || c.own && claim.GetLabels()[labelMachine] != string(machine.UID) {
				t.Errorf("the claim is %v", claim.Object["metadata"])
			}
			if err := a.releaseClaims(t.Context(), machine, spec); err != nil {
				t.Fatal(err)
			}
			err = a.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim)
			if err != nil || slices.Contains(claim.GetFinalizers(), claimFinalizer) == c.own {
				t.Errorf("after the release it is %v, %v", claim.Object["metadata"], err)
			}
		})
	}
}

// TestClaims_OrphanedAreReleased: a claim whose Machine was deleted with its dependents orphaned goes with the Machine nevertheless.
func TestClaims_OrphanedAreReleased(t *testing.T) {
	a, machine, spec := claimCase()
	_, _ = a.claimAddresses(t.Context(), machine, spec)
	claim, err := a.claim(t.Context(), machine, claimsOf(machine, spec)[0])
	if err != nil {
		t.Fatal(err)
	}
	claim.SetOwnerReferences(nil)
	if err := a.client.Update(t.Context(), claim); err != nil {
		t.Fatal(err)
	}
	if err := a.releaseClaims(t.Context(), machine, spec); err != nil {
		t.Fatal(err)
	}
	if err := a.client.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Fatal(err)
	}
	if !metav1.IsControlledBy(claim, machine) || len(claim.GetFinalizers()) > 0 {
		t.Errorf("the claim is %v", claim.Object["metadata"])
	}
}

// own adds an owner that is no controller.
func own(claim *unstructured.Unstructured, kind, name string) {
	claim.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: kind, Name: name, UID: "other"}})
}

// TestClaims_Restored: the claims of a Machine that has been restored from a backup name the UID that it had before.
func TestClaims_Restored(t *testing.T) {
	a, machine, spec := claimCase()
	_, _ = a.claimAddresses(t.Context(), machine, spec)
	restored := machine.DeepCopy()
	restored.UID = "restored"
	if held, err := a.hasClaims(t.Context(), restored, spec); err != nil || held {
		t.Errorf("before its virtual machine is seen: %t, %v", held, err)
	}
	a.machines.setSeen(restored, nil, string(machine.UID))
	if held, err := a.hasClaims(t.Context(), restored, spec); err != nil || !held {
		t.Errorf("the claims are not held: %t, %v", held, err)
	}
	if err := a.releaseClaims(t.Context(), restored, spec); err != nil {
		t.Fatal(err)
	}
	if held, err := a.hasClaims(t.Context(), machine, spec); err != nil || held {
		t.Errorf("the claims are held: %t, %v", held, err)
	}
}

// TestClaims_Invalid: what a controller of addresses writes is hostile input, too.
func TestClaims_Invalid(t *testing.T) {
	for name, change := range map[string]func(map[string]any){
		"no address":      func(spec map[string]any) { spec["address"] = "init=/bin/sh" },
		"a prefix of 200": func(spec map[string]any) { spec["prefix"] = int64(200) },
	} {
		t.Run(name, func(t *testing.T) {
			a, machine, spec := claimCase()
			_, _ = a.claimAddresses(t.Context(), machine, spec)
			claim, err := a.claim(t.Context(), machine, claimsOf(machine, spec)[0])
			if err != nil {
				t.Fatal(err)
			}
			bind(t, a, claim, "")
			address := &unstructured.Unstructured{}
			address.SetGroupVersionKind(addressKind)
			if err := a.client.Get(t.Context(), client.ObjectKey{Namespace: machine.Namespace, Name: "nodes-7"}, address); err != nil {
				t.Fatal(err)
			}
			fields, _, _ := unstructured.NestedMap(address.Object, "spec")
			change(fields)
			address.Object["spec"] = fields
			if err := a.client.Update(t.Context(), address); err != nil {
				t.Fatal(err)
			}
			_, err = a.claimAddresses(t.Context(), machine, spec)
			if _, waits := provider.AsRequeueAfter(err); err == nil || waits || apierrors.IsNotFound(err) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// TestClaims_Unknown: an API server that does not know claims any more has none, except of a Machine that was created with them.
func TestClaims_Unknown(t *testing.T) {
	a, machine, spec := claimCase()
	a.client = interceptor.NewClient(ctrlfake.NewClientBuilder().Build(), interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return &meta.NoKindMatchError{GroupKind: claimKind.GroupKind(), SearchedVersions: []string{claimKind.Version}}
		},
	})
	if err := a.releaseClaims(t.Context(), machine, spec); err != nil {
		t.Errorf("a Machine that was never created: %v", err)
	}
	machine.Spec.ProviderID = new("vsphere://uuid")
	if err := a.releaseClaims(t.Context(), machine, spec); err == nil {
		t.Error("the claims of a Machine that was created are taken for released")
	}
	spec.Network.Devices[0].AddressesFromPools = nil
	if err := a.releaseClaims(t.Context(), machine, spec); err != nil {
		t.Errorf("a Machine without claims: %v", err)
	}
}
