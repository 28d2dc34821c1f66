package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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

// Reasons of the conditions. AuthoritativeAPI... are machine-api-operator's.
const (
	// ReasonOtherAPI (Paused=True): status.authoritativeAPI is ClusterAPI or Migrating; nothing else of the status is kept up.
	ReasonOtherAPI = "AuthoritativeAPINotMachineAPI"
	// ReasonAnnotation (Paused=True): an annotation pauses it; the message says which. The counts are kept up.
	//
	// ReasonAnnotation (Resized): the number is another, and the MachineSet is paused.
	ReasonAnnotation = "PausedByAnnotation"
	// ReasonMachineAPI (Paused): status.authoritativeAPI is MachineAPI.
	ReasonMachineAPI = "AuthoritativeAPIMachineAPI"
	// ReasonNotPaused (Paused): there is no other API that could have the authority.
	ReasonNotPaused = "NotPaused"
	// ReasonCreated (MachinesCreated=True): the last Machine that was to be created has been, or none is missing.
	ReasonCreated = "Created"
	// ReasonInvalid (MachinesCreated): the MachineSet cannot be used, or the API server finds its Machines invalid; also in status.errorReason.
	//
	// ReasonInvalid (Resized): the MachineSet cannot be used; the message says what has to be changed.
	ReasonInvalid = "InvalidConfiguration"
	// ReasonCreateError (MachinesCreated): creating Machines fails; it is tried again; also in status.errorReason.
	ReasonCreateError = "CreateError"
	// ReasonResized (Resized=True): there are as many Machines as spec.replicas says, those aside that are being deleted or that a NodeGroup replaces
	// next.
	ReasonResized = "Resized"
	// ReasonUp (Resized): Machines are missing.
	ReasonUp = "ScalingUp"
	// ReasonDown (Resized): there are too many Machines.
	ReasonDown = "ScalingDown"
	// ReasonDeleteError (Resized): the API server refuses the deletion of a Machine, or fails; it is tried again.
	ReasonDeleteError = "DeleteError"
	// ReasonOwnerError (Resized): the API server refuses to have a Machine adopted or released; it is tried again.
	ReasonOwnerError = "OwnerReferenceError"
	// ReasonWithheld (Resized): Machines that are to be deleted are under the authority of another API.
	ReasonWithheld = "MachinesNotAuthoritative"
	// ReasonReady (MachinesReady=True): every Machine has a Node that is ready.
	ReasonReady = "Ready"
	// ReasonFailed (MachinesReady): Machines have an error or are in the phase Failed; the message names the first ones.
	ReasonFailed = "MachinesFailed"
	// ReasonWithoutNode (MachinesReady): Machines have no Node yet.
	ReasonWithoutNode = "WaitingForNodes"
	// ReasonNodesNotReady (MachinesReady): Nodes of Machines are not ready, or are gone.
	ReasonNodesNotReady = "NodesNotReady"
)
