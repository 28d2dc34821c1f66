package autoscaling

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events, all on the MachineAutoscaler, and all cluster-autoscaler-operator's.
const (
	// EventUpdated: the MachineSet has got other bounds.
	EventUpdated = plan.ReasonUpdated
	// EventValidation, EventGetTarget and EventSetOwner: why it has not.
	EventValidation = plan.ReasonFailedValidation
	EventGetTarget  = plan.ReasonFailedGetTarget
	EventSetOwner   = plan.ReasonFailedSetOwner
	// EventUpdateTarget and EventFinalizeTarget: the API server denies a change of the MachineSet that gets, or loses, the bounds.
	EventUpdateTarget   = plan.ReasonFailedUpdateTarget
	EventFinalizeTarget = plan.ReasonFailedFinalizeTarget
	// EventAccelerator: the MachineSet has GPUs, and no label of them.
	EventAccelerator = "InvalidOrMissingGPUAcceleratorLabel"
)

// Events describes every event of the controller.
var Events = []status.EventDoc{
	event(EventUpdated, corev1.EventTypeNormal, "the MachineSet has got the bounds, or other ones"),
	event(EventValidation, corev1.EventTypeWarning, "the bounds are invalid; once until that changes"),
	event(EventGetTarget, corev1.EventTypeWarning,
		"the MachineSet does not exist, or what the MachineAutoscaler names is no MachineSet; once until that changes"),
	event(EventSetOwner, corev1.EventTypeWarning, "another MachineAutoscaler already bounds the MachineSet; once until that changes"),
	event(EventUpdateTarget, corev1.EventTypeWarning, "the API server denies the bounds; once until the answer changes"),
	event(EventFinalizeTarget, corev1.EventTypeWarning,
		"the API server denies that the bounds of a MachineSet are removed; once until the answer changes"),
	event(EventAccelerator, corev1.EventTypeWarning, "the MachineSet has GPUs, and its template has no valid label cluster-api/accelerator, by which "+
		"cluster-autoscaler waits until a new Node reports them; once until that changes"),
}

func event(reason, kind, when string) status.EventDoc {
	return status.EventDoc{Reason: reason, Type: kind, On: "MachineAutoscaler", When: when}
}
