package vsphere

import (
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/drover-io/drover/provider"
)

// Types, reasons and messages of the conditions in status.providerStatus. The types and reasons come from the API of OpenShift.
const (
	conditionCreation = string(machinev1beta1.MachineCreation)
	conditionAddress  = string(machinev1beta1.IPAddressClaimedCondition)

	reasonCreated   = machinev1beta1.MachineCreationSucceededConditionReason
	reasonFailed    = machinev1beta1.MachineCreationFailedConditionReason
	reasonClaimed   = machinev1beta1.IPAddressClaimedReason
	reasonUnclaimed = machinev1beta1.WaitingForIPAddressReason

	messageCreated   = "Machine successfully created"
	messageClaimed   = "All IP address claims are bound"
	messageUnclaimed = "Waiting on %d IP address claims to be bound"
)

// maxMessage is how long the message of a condition is at most.
const maxMessage = 1024

// providerStatus is status.providerStatus of a Machine.
type providerStatus struct {
	machinev1beta1.VSphereMachineProviderStatus `json:",inline"`

	// Server is the vCenter that showed the virtual machine last; empty if none did, or if machine-api-operator has written the status since.
	Server string `json:"server,omitempty"`
	// VirtualMachine is what identifies it in that vCenter, such as vm-123: another user may not be shown a virtual machine that exists.
	VirtualMachine string `json:"virtualMachine,omitempty"`
}

// statusOf reads status.providerStatus of a Machine; the zero value if there is none.
func statusOf(machine *machinev1beta1.Machine) *providerStatus {
	status := &providerStatus{}
	if recorded := machine.Status.ProviderStatus; recorded != nil {
		// What another writer has left there counts as nothing.
		_ = json.Unmarshal(recorded.Raw, status)
	}
	return status
}

// set sets a condition. A condition that is already true keeps its message.
func (s *providerStatus) set(kind string, value metav1.ConditionStatus, reason, message string, now metav1.Time) {
	if value == metav1.ConditionTrue && meta.IsStatusConditionTrue(s.Conditions, kind) {
		return
	}
	meta.SetStatusCondition(&s.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: message[:min(len(message), maxMessage)], LastTransitionTime: now,
	})
}

// raw returns the status as it is written.
func (s *providerStatus) raw() (*runtime.RawExtension, error) {
	s.TypeMeta = metav1.TypeMeta{}
	text, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("writing status.providerStatus: %w", err)
	}
	return &runtime.RawExtension{Raw: text}, nil
}

// vmRecord is what is recorded of a virtual machine that is there.
type vmRecord struct {
	uuid, state, server, reference string
	// task is the ID of the clone task, and note is what a user should know about the virtual machine; empty if they are not known.
	task, note string
	hasClaims  bool
}

// statusFor returns status.providerStatus of a Machine whose virtual machine is there.
func statusFor(machine *machinev1beta1.Machine, vm *vmRecord, now metav1.Time) (*runtime.RawExtension, error) {
	status := statusOf(machine)
	status.InstanceID, status.InstanceState, status.Server = &vm.uuid, &vm.state, vm.server
	status.VirtualMachine = vm.reference
	if vm.task != "" {
		status.TaskRef = vm.task
	}
	message := messageCreated
	if vm.note != "" {
		message += "; " + vm.note
	}
	status.set(conditionCreation, metav1.ConditionTrue, reasonCreated, message, now)
	if vm.hasClaims {
		status.set(conditionAddress, metav1.ConditionTrue, reasonClaimed, messageClaimed, now)
	}
	return status.raw()
}

// waitForAddresses is the error while claims of a Machine are not bound.
func waitForAddresses(machine *machinev1beta1.Machine, unbound int, now metav1.Time) error {
	message := fmt.Sprintf(messageUnclaimed, unbound)
	status := statusOf(machine)
	status.set(conditionAddress, metav1.ConditionFalse, reasonUnclaimed, message, now)
	return withStatus(provider.RequeueAfter(awaitAddress, message), status)
}

// withFailure attaches a status to an error of Create: it sets the condition MachineCreation to False, unless the condition is already True. An error
// that only asks to wait is returned unchanged.
func withFailure(machine *machinev1beta1.Machine, err error, now metav1.Time) error {
	if _, waits := provider.AsRequeueAfter(err); waits || err == nil {
		return err
	}
	status := statusOf(machine)
	if meta.IsStatusConditionTrue(status.Conditions, conditionCreation) {
		return err
	}
	status.set(conditionCreation, metav1.ConditionFalse, reasonFailed, err.Error(), now)
	return withStatus(err, status)
}

func withStatus(err error, status *providerStatus) error {
	raw, marshalErr := status.raw()
	if marshalErr != nil {
		return err
	}
	return &provider.StatusError{Status: raw, Err: err}
}
