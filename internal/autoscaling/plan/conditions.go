package plan

// ConditionReady says whether the MachineSet has the bounds.
const ConditionReady = "Ready"

// Reasons of ConditionReady. Those of failures are cluster-autoscaler-operator's reasons of events.
const (
	// ReasonUpdated (Ready=True): the MachineSet has the bounds.
	ReasonUpdated = "SuccessfulUpdate"
	// ReasonPaused (Ready=False): the annotation drover.dev/paused pauses the MachineAutoscaler; the MachineSet stays as it is.
	ReasonPaused = "Paused"
	// ReasonFailedValidation (Ready=False): the bounds are invalid; the MachineSet keeps those that it has.
	ReasonFailedValidation = "FailedValidation"
	// ReasonFailedGetTarget (Ready=False): the MachineSet does not exist, or what the MachineAutoscaler names is no MachineSet.
	ReasonFailedGetTarget = "FailedGetTarget"
	// ReasonFailedSetOwner (Ready=False): another MachineAutoscaler already bounds the MachineSet.
	ReasonFailedSetOwner = "FailedSetOwner"
	// ReasonFailedUpdateTarget (Ready=False): the API server denies the bounds.
	ReasonFailedUpdateTarget = "FailedUpdateTarget"
	// ReasonFailedFinalizeTarget (Ready=False): the API server denies that a MachineSet loses the bounds; the MachineAutoscaler cannot go before that.
	ReasonFailedFinalizeTarget = "FailedFinalizeTarget"
)

// The texts of cluster-autoscaler-operator:
// https://github.com/openshift/cluster-autoscaler-operator/tree/5673ba0d/pkg/controller/machineautoscaler
const (
	textUnsupported = "unsupported MachineAutoscaler target"
	textInvalid     = "invalid MachineAutoscaler target"
	textOwned       = "already owned by another MachineAutoscaler"
	textTooSmall    = "min and max replicas must be greater than 0"
	textMaxBelowMin = "max replicas must be greater than or equal to min"
)
