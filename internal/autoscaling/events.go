package autoscaling

import (
	"github.com/drover-io/drover/internal/autoscaling/plan"
)

// Reasons of the events, all on the MachineAutoscaler, and all cluster-autoscaler-operator's.
const (
	// EventUpdated (Normal on MachineAutoscaler): the MachineSet has got the bounds, or other ones.
	EventUpdated = plan.ReasonUpdated
	// EventValidation (Warning on MachineAutoscaler): the bounds are invalid; once until that changes.
	EventValidation = plan.ReasonFailedValidation
	// EventGetTarget (Warning on MachineAutoscaler): the MachineSet does not exist, or what the MachineAutoscaler names is no MachineSet; once until
	// that changes.
	EventGetTarget = plan.ReasonFailedGetTarget
	// EventSetOwner (Warning on MachineAutoscaler): another MachineAutoscaler already bounds the MachineSet; once until that changes.
	EventSetOwner = plan.ReasonFailedSetOwner
	// EventUpdateTarget (Warning on MachineAutoscaler): the API server denies the bounds; once until the answer changes.
	EventUpdateTarget = plan.ReasonFailedUpdateTarget
	// EventFinalizeTarget (Warning on MachineAutoscaler): the API server denies that the bounds of a MachineSet are removed; once until the answer
	// changes.
	EventFinalizeTarget = plan.ReasonFailedFinalizeTarget
	// EventAccelerator (Warning on MachineAutoscaler): the MachineSet has GPUs, and its template has no valid label cluster-api/accelerator, by which
	// cluster-autoscaler waits until a new Node reports them; once until that changes.
	EventAccelerator = "InvalidOrMissingGPUAcceleratorLabel"
)
