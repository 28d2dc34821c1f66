package plan

import "github.com/drover-io/drover/internal/status"

// ConditionReady says whether the MachineSet has the bounds.
const ConditionReady = "Ready"

// Reasons of ConditionReady. Those of failures are cluster-autoscaler-operator's reasons of events.
const (
	ReasonUpdated              = "SuccessfulUpdate"
	ReasonPaused               = "Paused"
	ReasonFailedValidation     = "FailedValidation"
	ReasonFailedGetTarget      = "FailedGetTarget"
	ReasonFailedSetOwner       = "FailedSetOwner"
	ReasonFailedUpdateTarget   = "FailedUpdateTarget"
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

// ConditionDocs describes every condition and reason.
func ConditionDocs() []status.ConditionDoc {
	return status.ConditionsOn("MachineAutoscaler", []status.ConditionDoc{
		{Type: ConditionReady, Reason: ReasonUpdated, When: "True: the MachineSet has the bounds"},
		{Type: ConditionReady, Reason: ReasonPaused,
			When: "False: the annotation drover.dev/paused pauses the MachineAutoscaler; the MachineSet stays as it is"},
		{Type: ConditionReady, Reason: ReasonFailedValidation, When: "False: the bounds are invalid; the MachineSet keeps those that it has"},
		{Type: ConditionReady, Reason: ReasonFailedGetTarget,
			When: "False: the MachineSet does not exist, or what the MachineAutoscaler names is no MachineSet"},
		{Type: ConditionReady, Reason: ReasonFailedSetOwner, When: "False: another MachineAutoscaler already bounds the MachineSet"},
		{Type: ConditionReady, Reason: ReasonFailedUpdateTarget, When: "False: the API server denies the bounds"},
		{Type: ConditionReady, Reason: ReasonFailedFinalizeTarget,
			When: "False: the API server denies that a MachineSet loses the bounds; the MachineAutoscaler cannot go before that"},
	})
}
