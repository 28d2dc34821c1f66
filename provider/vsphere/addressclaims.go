package vsphere

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/vsphere/internal/guestinfo"
)

// The API of addresses: https://github.com/kubernetes-sigs/cluster-api/tree/main/api/ipam/v1beta1
var (
	claimKind   = schema.GroupVersionKind{Group: "ipam.cluster.x-k8s.io", Version: "v1beta1", Kind: "IPAddressClaim"}
	addressKind = schema.GroupVersionKind{Group: "ipam.cluster.x-k8s.io", Version: "v1beta1", Kind: "IPAddress"}
)

// claimFinalizer keeps an address while a virtual machine has it.
const claimFinalizer = "machine.openshift.io/ip-claim-protection"

// awaitAddress is how soon claims are looked at again.
const awaitAddress = 5 * time.Second

// claim is a claim of an address for a network device.
type claim struct {
	name   string
	device int
	pool   machinev1beta1.AddressesFromPool
}

// claimsOf returns the claims of a Machine; nil for none.
func claimsOf(machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec) (claims []claim) {
	for i := range spec.Network.Devices {
		for j, pool := range spec.Network.Devices[i].AddressesFromPools {
			claims = append(claims, claim{name: fmt.Sprintf("%s-claim-%d-%d", machine.Name, i, j), device: i, pool: pool})
		}
	}
	return claims
}

// claimAddresses returns the static addresses of the network devices. It asks to wait until all claims are bound.
func (a *Actuator) claimAddresses(
	ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec,
) ([]guestinfo.Interface, error) {
	interfaces := make([]guestinfo.Interface, len(spec.Network.Devices))
	for i := range spec.Network.Devices {
		device := &spec.Network.Devices[i]
		interfaces[i].Nameservers = device.Nameservers
		gateway, _ := netip.ParseAddr(device.Gateway)
		for _, text := range device.IPAddrs {
			prefix, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, provider.InvalidConfiguration("providerSpec.network.devices[%d].ipAddrs: %w", i, err)
			}
			interfaces[i].Addresses = append(interfaces[i].Addresses, guestinfo.Address{Prefix: prefix, Gateway: gateway})
		}
	}
	unbound := 0
	for _, wanted := range claimsOf(machine, spec) {
		address, err := a.address(ctx, machine, wanted)
		if err != nil {
			return nil, err
		}
		if address == nil {
			unbound++
			continue
		}
		if !address.Gateway.IsValid() {
			address.Gateway, _ = netip.ParseAddr(spec.Network.Devices[wanted.device].Gateway)
		}
		interfaces[wanted.device].Addresses = append(interfaces[wanted.device].Addresses, *address)
	}
	if unbound > 0 {
		return nil, waitForAddresses(machine, unbound, metav1.NewTime(a.clock.Now()))
	}
	return interfaces, nil
}

// address returns the address that a claim is bound to; nil if it is not bound. A claim that is not there is created.
func (a *Actuator) address(ctx context.Context, machine *machinev1beta1.Machine, wanted claim) (*guestinfo.Address, error) {
	existing, err := a.claim(ctx, machine, wanted)
	if err != nil {
		return nil, err
	}
	if existing == nil {
		return nil, a.createClaim(ctx, machine, wanted)
	}
	if metav1.GetControllerOf(existing) == nil {
		if err := a.adoptClaim(ctx, machine, existing); err != nil {
			return nil, err
		}
	}
	name, _, _ := unstructured.NestedString(existing.Object, "status", "addressRef", "name")
	if name == "" {
		return nil, nil
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(addressKind)
	if err := a.client.Get(ctx, client.ObjectKey{Namespace: machine.Namespace, Name: name}, object); err != nil {
		return nil, fmt.Errorf("reading IPAddress %s/%s: %w", machine.Namespace, name, err)
	}
	if holder, _, _ := unstructured.NestedString(object.Object, "spec", "claimRef", "name"); holder != existing.GetName() {
		return nil, fmt.Errorf("IPAddress %s/%s is for IPAddressClaim %q, not for %s", machine.Namespace, name, holder, existing.GetName())
	}
	return addressOf(object)
}

// addressOf returns what an IPAddress says.
func addressOf(object *unstructured.Unstructured) (*guestinfo.Address, error) {
	text, _, _ := unstructured.NestedString(object.Object, "spec", "address")
	bits, _, _ := unstructured.NestedInt64(object.Object, "spec", "prefix")
	gateway, _, _ := unstructured.NestedString(object.Object, "spec", "gateway")
	parsed, err := netip.ParseAddr(text)
	if err != nil {
		return nil, fmt.Errorf("IPAddress %s/%s: spec.address: %w", object.GetNamespace(), object.GetName(), err)
	}
	prefix := netip.PrefixFrom(parsed, int(bits))
	if !prefix.IsValid() {
		return nil, fmt.Errorf("IPAddress %s/%s: spec.prefix: %d is not valid for %s", object.GetNamespace(), object.GetName(), bits, text)
	}
	address := &guestinfo.Address{Prefix: prefix}
	address.Gateway, _ = parseAddress(gateway)
	return address, nil
}

// claim reads a claim of a Machine; nil if there is none. One of that name that is another's is an error.
func (a *Actuator) claim(ctx context.Context, machine *machinev1beta1.Machine, wanted claim) (existing *unstructured.Unstructured, err error) {
	existing, err = a.anyClaim(ctx, machine.Namespace, wanted.name)
	if err == nil && existing != nil && !a.isOwn(machine, existing, &wanted) {
		return nil, fmt.Errorf("IPAddressClaim %s/%s is not the Machine's; delete it, or give the Machine another name", machine.Namespace, wanted.name)
	}
	return existing, err
}

// isOwn reports whether a claim belongs to a Machine. A claim with a controller belongs to the Machine if the controller is this Machine or, when the
// Machine has been restored from a backup, a Machine with the same name and the UID from before the restore. A claim without a controller belongs to
// the Machine whose UID is in its label. Without the label, the claim belongs to the Machine if it has no owner and asks for wanted's pool; a nil
// wanted matches no claim. Deletions that orphan leave claims without a controller, and the installer of OpenShift creates such claims
// (https://github.com/openshift/machine-api-operator/blob/951196122/pkg/util/ipam/util.go).
func (a *Actuator) isOwn(machine *machinev1beta1.Machine, existing *unstructured.Unstructured, wanted *claim) bool {
	controller := metav1.GetControllerOf(existing)
	switch {
	case controller != nil && controller.UID == machine.UID:
		return true
	case controller != nil:
		return controller.Kind == "Machine" && controller.APIVersion == machinev1beta1.GroupVersion.String() && controller.Name == machine.Name &&
			a.machines.isRestored(machine)
	case existing.GetLabels()[labelMachine] != "" || wanted == nil:
		return existing.GetLabels()[labelMachine] == string(machine.UID)
	}
	pool, _, _ := unstructured.NestedStringMap(existing.Object, "spec", "poolRef")
	return len(existing.GetOwnerReferences()) == 0 &&
		pool["apiGroup"] == wanted.pool.Group && pool["kind"] == wanted.pool.Resource && pool["name"] == wanted.pool.Name
}

// adoptClaim makes a claim that no object controls the Machine's.
func (a *Actuator) adoptClaim(ctx context.Context, machine *machinev1beta1.Machine, existing *unstructured.Unstructured) error {
	adopted := existing.DeepCopy()
	setOwner(adopted, machine)
	patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
	if err := a.client.Patch(ctx, adopted, patch); err != nil {
		return fmt.Errorf("adopting IPAddressClaim %s/%s: %w", machine.Namespace, existing.GetName(), err)
	}
	return nil
}

// setOwner makes a Machine the owner of a claim. The finalizer protects the claim. Drover does not set blockOwnerDeletion, because this would require
// permission to set finalizers of Machines.
func setOwner(object *unstructured.Unstructured, machine *machinev1beta1.Machine) {
	controllerutil.AddFinalizer(object, claimFinalizer)
	labels := map[string]string{}
	maps.Copy(labels, object.GetLabels())
	labels[labelMachine] = string(machine.UID)
	object.SetLabels(labels)
	owner := metav1.NewControllerRef(machine, machinev1beta1.GroupVersion.WithKind("Machine"))
	owner.BlockOwnerDeletion = nil
	object.SetOwnerReferences(append(object.GetOwnerReferences(), *owner))
}

// anyClaim reads a claim; nil if there is none, or the API server does not know claims.
func (a *Actuator) anyClaim(ctx context.Context, namespace, name string) (*unstructured.Unstructured, error) {
	existing := &unstructured.Unstructured{}
	existing.SetGroupVersionKind(claimKind)
	err := a.client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, existing)
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading IPAddressClaim %s/%s: %w", namespace, name, err)
	}
	return existing, nil
}

func (a *Actuator) createClaim(ctx context.Context, machine *machinev1beta1.Machine, wanted claim) error {
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"poolRef": map[string]any{"apiGroup": wanted.pool.Group, "kind": wanted.pool.Resource, "name": wanted.pool.Name},
	}}}
	object.SetGroupVersionKind(claimKind)
	object.SetNamespace(machine.Namespace)
	object.SetName(wanted.name)
	setOwner(object, machine)
	if err := a.client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating IPAddressClaim %s/%s: %w", machine.Namespace, wanted.name, err)
	}
	return nil
}

// labelMachine has the UID of the Machine that a claim is for: its providerSpec may have changed since.
const labelMachine = "vsphere.drover.dev/machine"

// ownClaims returns the claims of a Machine: the claims that its providerSpec names, which machine-api-operator may have created, and the claims with
// its label. If the API server does not know claims, there are none. For a Machine that was created with claims that is an error: the API is being
// reinstalled, and the addresses would never be released.
func (a *Actuator) ownClaims(
	ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec,
) ([]*unstructured.Unstructured, error) {
	hadClaims := machine.Spec.ProviderID != nil && spec != nil && claimsOf(machine, spec) != nil
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(claimKind)
	err := a.client.List(ctx, list, client.InNamespace(machine.Namespace), client.MatchingLabels{labelMachine: string(machine.UID)})
	switch {
	case (meta.IsNoMatchError(err) || apierrors.IsNotFound(err)) && !hadClaims:
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("listing the IPAddressClaims of the Machine: %w", err)
	}
	var found []*unstructured.Unstructured
	known := map[string]bool{}
	for i := range list.Items {
		if a.isOwn(machine, &list.Items[i], nil) {
			found, known[list.Items[i].GetName()] = append(found, &list.Items[i]), true
		}
	}
	if spec == nil {
		return found, nil
	}
	unlabelled, err := a.unlabelledClaims(ctx, machine, spec, known)
	return append(found, unlabelled...), err
}

// unlabelledClaims returns the claims that the providerSpec of a Machine says, but for the known ones.
func (a *Actuator) unlabelledClaims(
	ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec, known map[string]bool,
) (found []*unstructured.Unstructured, err error) {
	for _, wanted := range claimsOf(machine, spec) {
		if known[wanted.name] {
			continue
		}
		existing, err := a.anyClaim(ctx, machine.Namespace, wanted.name)
		if err != nil {
			return nil, err
		}
		if existing != nil && a.isOwn(machine, existing, &wanted) {
			found = append(found, existing)
		}
	}
	return found, nil
}

// hasClaims reports whether a Machine has claims whose addresses are kept for its virtual machine.
func (a *Actuator) hasClaims(ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec) (bool, error) {
	claims, err := a.ownClaims(ctx, machine, spec)
	for _, existing := range claims {
		if slices.Contains(existing.GetFinalizers(), claimFinalizer) {
			return true, nil
		}
	}
	return false, err
}

// releaseClaims releases the addresses of a Machine whose virtual machine is gone. The claims are deleted with the Machine. spec is nil if it is
// invalid.
func (a *Actuator) releaseClaims(ctx context.Context, machine *machinev1beta1.Machine, spec *machinev1beta1.VSphereMachineProviderSpec) error {
	claims, err := a.ownClaims(ctx, machine, spec)
	if err != nil {
		return err
	}
	for _, existing := range claims {
		if !slices.Contains(existing.GetFinalizers(), claimFinalizer) {
			continue
		}
		changed := existing.DeepCopy()
		if metav1.GetControllerOf(existing) == nil {
			setOwner(changed, machine) // otherwise it would stay when the Machine is gone, and its address with it
		}
		controllerutil.RemoveFinalizer(changed, claimFinalizer)
		patch := client.MergeFromWithOptions(existing, client.MergeFromWithOptimisticLock{})
		if err := a.client.Patch(ctx, changed, patch); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("releasing IPAddressClaim %s/%s: %w", machine.Namespace, existing.GetName(), err)
		}
	}
	return nil
}
