package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/status"
)

// phase returns the phase of a Machine on which Drover works.
func (in *Input) phase() string {
	switch {
	case in.Machine.DeletionTimestamp != nil:
		return machinev1beta1.PhaseDeleting
	case in.failure() != Condition{}:
		return machinev1beta1.PhaseFailed
	case !Provisioned(in.Known()):
		return machinev1beta1.PhaseProvisioning
	case !in.Link.Linked && (in.Machine.Status.NodeRef == nil || in.Link.Cleared):
		return machinev1beta1.PhaseProvisioned
	}
	return machinev1beta1.PhaseRunning
}

// failure returns why the Machine is Failed, with the reason for status.errorReason; the zero value if it is not.
func (in *Input) failure() Condition {
	current := &in.Machine.Status
	switch {
	case in.Machine.DeletionTimestamp != nil:
		return Condition{}
	case Phase(current) == machinev1beta1.PhaseFailed:
		failure := isFalse(string(ReasonMissing), "")
		if current.ErrorReason != nil {
			failure.Reason = string(*current.ErrorReason)
		}
		if current.ErrorMessage != nil {
			failure.Message = *current.ErrorMessage
		}
		return failure
	case isInvalid(in.Create.Err):
		return isFalse(ReasonInvalid, in.Create.Err.Error())
	case isInvalid(in.Get.Err) && !Provisioned(in.Machine):
		return isFalse(ReasonInvalid, in.Get.Err.Error())
	case in.isMissing() && Provisioned(in.Machine):
		return isFalse(string(ReasonMissing), "can't find created instance")
	}
	return Condition{}
}

// setPhase sets the phase, and errors where the Machine is Failed only: other programs take them for the end of the Machine.
func (in *Input) setPhase(after *machinev1beta1.MachineStatus, failure Condition) {
	after.Phase = new(in.phase())
	if failure == (Condition{}) {
		after.ErrorReason, after.ErrorMessage = nil, nil
		return
	}
	after.ErrorReason = nil
	if failure.Reason != string(ReasonMissing) {
		after.ErrorReason = new(machinev1beta1.MachineStatusError(failure.Reason))
	}
	after.ErrorMessage = new(status.Shorten(failure.Message, status.MaxMessage))
}
