package vsphere

import (
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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
