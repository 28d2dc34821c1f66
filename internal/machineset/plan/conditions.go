package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/status"
)

// Conditions of a MachineSet.
const (
	// ConditionPaused: the controller does not change the Machines. It is machine-api-operator's.
	ConditionPaused machinev1beta1.ConditionType = "Paused"
	// ConditionCreated: the controller can create Machines that are missing.
	ConditionCreated machinev1beta1.ConditionType = "MachinesCreated"
	// ConditionResized: there are as many Machines as the MachineSet asks for.
	ConditionResized machinev1beta1.ConditionType = "Resized"
	// ConditionReady: every Machine has a ready Node.
	ConditionReady machinev1beta1.ConditionType = "MachinesReady"
)

// Reasons of the conditions. The first two are machine-api-operator's.
const (
	ReasonOtherAPI      = "AuthoritativeAPINotMachineAPI"
	ReasonMachineAPI    = "AuthoritativeAPIMachineAPI"
	ReasonAnnotation    = "PausedByAnnotation"
	ReasonNotPaused     = "NotPaused"
	ReasonCreated       = "Created"
	ReasonInvalid       = "InvalidConfiguration"
	ReasonCreateError   = "CreateError"
	ReasonResized       = "Resized"
	ReasonUp            = "ScalingUp"
	ReasonDown          = "ScalingDown"
	ReasonDeleteError   = "DeleteError"
	ReasonOwnerError    = "OwnerReferenceError"
	ReasonWithheld      = "MachinesNotAuthoritative"
	ReasonReady         = "Ready"
	ReasonFailed        = "MachinesFailed"
	ReasonWithoutNode   = "WaitingForNodes"
	ReasonNodesNotReady = "NodesNotReady"
)

// ConditionDocs describes the reasons.
func ConditionDocs() []status.ConditionDoc {
	paused, created := string(ConditionPaused), string(ConditionCreated)
	resized, ready := string(ConditionResized), string(ConditionReady)
	return status.ConditionsOn("MachineSet", []status.ConditionDoc{
		{Type: paused, Reason: ReasonOtherAPI, When: "True: status.authoritativeAPI is ClusterAPI or Migrating; nothing else of the status is kept up"},
		{Type: paused, Reason: ReasonAnnotation, When: "True: an annotation pauses it; the message says which. The counts are kept up"},
		{Type: paused, Reason: ReasonMachineAPI, When: "status.authoritativeAPI is MachineAPI"},
		{Type: paused, Reason: ReasonNotPaused, When: "there is no other API that could have the authority"},
		{Type: created, Reason: ReasonCreated, When: "True: the last Machine that was to be created has been, or none is missing"},
		{Type: created, Reason: ReasonInvalid,
			When: "the MachineSet cannot be used, or the API server finds its Machines invalid; also in status.errorReason"},
		{Type: created, Reason: ReasonCreateError, When: "creating Machines fails; it is tried again; also in status.errorReason"},
		{Type: resized, Reason: ReasonResized,
			When: "True: there are as many Machines as spec.replicas says, those aside that are being deleted or that a NodeGroup replaces next"},
		{Type: resized, Reason: ReasonUp, When: "Machines are missing"},
		{Type: resized, Reason: ReasonDown, When: "there are too many Machines"},
		{Type: resized, Reason: ReasonAnnotation, When: "the number is another, and the MachineSet is paused"},
		{Type: resized, Reason: ReasonInvalid, When: "the MachineSet cannot be used; the message says what has to be changed"},
		{Type: resized, Reason: ReasonDeleteError, When: "the API server refuses the deletion of a Machine, or fails; it is tried again"},
		{Type: resized, Reason: ReasonOwnerError, When: "the API server refuses to have a Machine adopted or released; it is tried again"},
		{Type: resized, Reason: ReasonWithheld, When: "Machines that are to be deleted are under the authority of another API"},
		{Type: ready, Reason: ReasonReady, When: "True: every Machine has a Node that is ready"},
		{Type: ready, Reason: ReasonFailed, When: "Machines have an error or are in the phase Failed; the message names the first ones"},
		{Type: ready, Reason: ReasonWithoutNode, When: "Machines have no Node yet"},
		{Type: ready, Reason: ReasonNodesNotReady, When: "Nodes of Machines are not ready, or are gone"},
	})
}
