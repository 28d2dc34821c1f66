package vsphere

import (
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Types and reasons of the conditions in status.providerStatus.
const (
	conditionCreation = "MachineCreation"
	conditionAddress  = "IPAddressClaimed"

	reasonCreated   = "MachineCreationSucceeded"
	reasonClaimed   = "IPAddressesClaimed"
	messageCreated  = "Machine successfully created"
	messageAssigned = "All IP address claims are bound"
)

// statusOf reads status.providerStatus of a Machine; the zero value if there is none.
func statusOf(machine *machinev1beta1.Machine) *machinev1beta1.VSphereMachineProviderStatus {
	status := &machinev1beta1.VSphereMachineProviderStatus{}
	if recorded := machine.Status.ProviderStatus; recorded != nil {
		// What another writer has left there counts as nothing.
		_ = json.Unmarshal(recorded.Raw, status)
	}
	return status
}

// statusFor returns status.providerStatus of a Machine whose virtual machine is there.
func statusFor(machine *machinev1beta1.Machine, uuid, state, task string, hasClaims bool, now metav1.Time) (*runtime.RawExtension, error) {
	status := statusOf(machine)
	status.TypeMeta = metav1.TypeMeta{}
	status.InstanceID, status.InstanceState = &uuid, &state
	if task != "" {
		status.TaskRef = task
	}
	set := func(kind, reason, message string) {
		if !meta.IsStatusConditionTrue(status.Conditions, kind) {
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{
				Type: kind, Status: metav1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now,
			})
		}
	}
	set(conditionCreation, reasonCreated, messageCreated)
	if hasClaims {
		set(conditionAddress, reasonClaimed, messageAssigned)
	}
	raw, err := json.Marshal(status)
	if err != nil {
		return nil, fmt.Errorf("writing status.providerStatus: %w", err)
	}
	return &runtime.RawExtension{Raw: raw}, nil
}
