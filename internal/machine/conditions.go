package machine

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/status"
)

// Annotations of a Machine.
const (
	// AnnotationExclude, with any value, leaves the drain out. It is the incumbent's.
	AnnotationExclude = "machine.openshift.io/exclude-node-draining"
	// AnnotationInstanceState shows how the instance is. It is the incumbent's.
	AnnotationInstanceState = "machine.openshift.io/instance-state"
	// AnnotationDrainTimeout is how long after the Machine's deletion the drain is ended without the rest, "0s" for never.
	AnnotationDrainTimeout = "drover.dev/node-drain-timeout"
	// AnnotationSkipQuorum, with the value "true", deletes a Machine of the control plane although the control plane cannot spare its node.
	AnnotationSkipQuorum = "drover.dev/skip-quorum-check"
	// AnnotationNodeDeletionTimeout is a duration for which the deletion of the Node is tried after it has failed once, "0s" for without end.
	AnnotationNodeDeletionTimeout = "drover.dev/node-deletion-timeout"
)

// Labels of a Machine that the columns of kubectl show. They are the incumbent's.
const (
	LabelType   = "machine.openshift.io/instance-type"
	LabelRegion = "machine.openshift.io/region"
	LabelZone   = "machine.openshift.io/zone"
)

// LabelCluster holds the name of the cluster. Machines get it on OpenShift, where they are made without.
const LabelCluster = "machine.openshift.io/cluster-api-cluster"

// Conditions of a Machine. All but Ready are the incumbent's.
const (
	// ConditionReady: the Machine runs and its Node is Ready.
	ConditionReady machinev1beta1.ConditionType = "Ready"
	// ConditionDrained: the drain of a deleted Machine is over, or none was needed.
	ConditionDrained machinev1beta1.ConditionType = "Drained"
	// ConditionPaused: the Machine is another API's to work on.
	ConditionPaused machinev1beta1.ConditionType = "Paused"
)

// Reasons of the conditions; those of InstanceExists, Drainable, Terminable and Paused are the incumbent's.
const (
	reasonProviderError = machinev1beta1.ErrorCheckingProviderReason
	reasonMissing       = machinev1beta1.InstanceMissingReason
	reasonNotCreated    = machinev1beta1.InstanceNotCreatedReason
	reasonHook          = machinev1beta1.MachineHookPresent
	reasonAuthority     = "AuthoritativeAPINotMachineAPI"
	reasonOurs          = "AuthoritativeAPIMachineAPI"

	reasonNoProvider   = "NoProvider"
	reasonInstanceGone = "InstanceDeleted"
	reasonInvalid      = "InvalidConfiguration"
	reasonProvisioning = "Provisioning"
	reasonProvisioned  = "AwaitingNode"
	reasonLinkConflict = "NodeLinkConflict"
	reasonNotAdopted   = "NodeNotAdopted"
	reasonNodeGone     = "NodeNotFound"
	reasonNotReady     = "NodeNotReady"
	reasonFailed       = "Failed"
	reasonDeleting     = "Deleting"
	reasonPaused       = "Paused"

	reasonDraining      = "Draining"
	reasonLease         = "LeaseHeldByOther"
	reasonQuorum        = "ControlPlaneQuorum"
	reasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	reasonBadRecord     = "RecordUnreadable"
	reasonDenied        = "Denied"
	reasonTimeout       = "DrainTimeout"
)

// ConditionDocs describes the reasons.
func ConditionDocs() []status.ConditionDoc {
	docs := []status.ConditionDoc{}
	add := func(kind machinev1beta1.ConditionType, reason, when string) {
		docs = append(docs, status.ConditionDoc{Type: string(kind), Reason: reason, When: when})
	}
	add(machinev1beta1.InstanceExistsCondition, reasonProviderError, "Unknown: the provider could not say")
	add(machinev1beta1.InstanceExistsCondition, reasonMissing, "the instance was there and is not any more; the Machine is Failed")
	add(machinev1beta1.InstanceExistsCondition, reasonNotCreated, "there is none yet; the message has the provider's last error")
	add(machinev1beta1.InstanceExistsCondition, reasonNoProvider, "no provider of this Drover serves the kind in spec.providerSpec.value")
	add(machinev1beta1.InstanceExistsCondition, reasonInvalid, "spec.providerSpec.value is missing; it says what instance the Machine is to be")
	add(machinev1beta1.InstanceExistsCondition, reasonInstanceGone,
		"the Machine is deleted, and its instance with it; a finalizer of another controller keeps it")
	add(machinev1beta1.MachineDrainable, reasonHook, "a preDrain hook holds up the drain; the message names it and its owner")
	add(machinev1beta1.MachineTerminable, reasonHook, "a preTerminate hook holds up the end of the instance")
	add(ConditionDrained, reasonDraining, "pods are leaving; the message says which are left, and why")
	add(ConditionDrained, reasonLease, "somebody else works on the node; the message says who, and until when")
	add(ConditionDrained, reasonLinkConflict, "it is not clear which Node is the Machine's; the message says why")
	add(ConditionDrained, reasonQuorum, "the control plane cannot spare the node now")
	add(ConditionDrained, reasonQuorumUnknown,
		"the API server does not let Drover find out whether the control plane can spare the node; the message says which permission is missing")
	add(ConditionDrained, reasonBadRecord, "the record of what was there before cannot be read")
	add(ConditionDrained, reasonDenied, "the API server refuses the change of the node")
	add(ConditionDrained, reasonTimeout, "the time for the drain is over; the instance goes with the pods that are left")
	add(ConditionPaused, reasonAuthority, "True: status.authoritativeAPI says that another API has the Machine")
	add(ConditionReady, reasonProvisioning, "the instance is being made; the message says what stands in the way")
	add(ConditionReady, reasonProvisioned, "the instance is there, its Node is not")
	add(ConditionReady, reasonLinkConflict, "it is not clear which Node is the Machine's; the message says why")
	add(ConditionReady, reasonNotAdopted, "the Machine may not adopt the Node with its providerID or address; the message says why")
	add(ConditionReady, reasonNodeGone, "the Node that it had is gone")
	add(ConditionReady, reasonNotReady, "the Node is not Ready")
	add(ConditionReady, reasonFailed, "the Machine is Failed for good; delete it")
	add(ConditionReady, reasonDeleting, "the Machine is being deleted")
	add(ConditionReady, reasonLease, "its node is drained, and somebody else works on it by now; the instance is ended after that")
	add(ConditionReady, reasonPaused, "the Machine is paused by an annotation")
	return docs
}

// step is how far one condition is. The zero value has nothing to say.
type step struct {
	met             bool
	reason, message string
}
