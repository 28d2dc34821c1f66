package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/status"
)

// Annotations of a Machine.
const (
	// AnnotationExclude, with any value, skips the drain. It is machine-api-operator's.
	AnnotationExclude = "machine.openshift.io/exclude-node-draining"
	// AnnotationInstanceState is the state of the instance. It is machine-api-operator's.
	AnnotationInstanceState = "machine.openshift.io/instance-state"
	// AnnotationDrainTimeout is how long after the deletion of the Machine the drain ends although pods are left, "0s" for never.
	AnnotationDrainTimeout = "drover.dev/node-drain-timeout"
	// AnnotationSkipQuorum, with the value "true", deletes a control-plane Machine although the control plane cannot spare its Node.
	AnnotationSkipQuorum = "drover.dev/skip-quorum-check"
	// AnnotationNodeDeletionTimeout is how long the deletion of the Node is retried after it has failed once, "0s" for without end.
	AnnotationNodeDeletionTimeout = "drover.dev/node-deletion-timeout"
)

// Labels of a Machine that kubectl shows in columns. They are machine-api-operator's.
const (
	LabelType   = "machine.openshift.io/instance-type"
	LabelRegion = "machine.openshift.io/region"
	LabelZone   = "machine.openshift.io/zone"
)

// LabelCluster holds the name of the cluster. Drover sets it on OpenShift, on Machines that have none.
const LabelCluster = "machine.openshift.io/cluster-api-cluster"

// Conditions of a Machine that the Machine API has no constants for. All but Ready are machine-api-operator's.
const (
	// ConditionReady: the Machine runs and its Node is Ready.
	ConditionReady = machineapi.ConditionReady
	// ConditionDrained: the Node of a Machine that is being deleted has been drained, or need not be.
	ConditionDrained machinev1beta1.ConditionType = "Drained"
	// ConditionPaused: another API has the authority over the Machine.
	ConditionPaused machinev1beta1.ConditionType = "Paused"
)

// Reasons of the conditions; those of the first group, and that of the hooks, are machine-api-operator's.
const (
	ReasonProviderError = machinev1beta1.ErrorCheckingProviderReason
	ReasonMissing       = machinev1beta1.InstanceMissingReason
	ReasonNotCreated    = machinev1beta1.InstanceNotCreatedReason
	ReasonHook          = machinev1beta1.MachineHookPresent
	ReasonOtherAPI      = "AuthoritativeAPINotMachineAPI"
	ReasonMachineAPI    = "AuthoritativeAPIMachineAPI"

	ReasonNoProvider      = "NoProvider"
	ReasonInstanceDeleted = "InstanceDeleted"
	ReasonInvalid         = "InvalidConfiguration"
	ReasonProvisioning    = "Provisioning"
	ReasonAwaitingNode    = "AwaitingNode"
	ReasonLinkConflict    = "NodeLinkConflict"
	ReasonNotAdopted      = "NodeNotAdopted"
	ReasonNodeNotFound    = "NodeNotFound"
	ReasonNodeStarting    = "NodeStarting"
	ReasonNodeNotReady    = "NodeNotReady"
	ReasonFailed          = "Failed"
	ReasonDeleting        = "Deleting"
	ReasonPaused          = "Paused"

	ReasonDraining         = "Draining"
	ReasonLease            = "LeaseHeldByOther"
	ReasonQuorum           = "ControlPlaneQuorum"
	ReasonQuorumUnknown    = "ControlPlaneQuorumUnknown"
	ReasonRecordUnreadable = "RecordUnreadable"
	ReasonDenied           = "Denied"
	ReasonDrainTimeout     = "DrainTimeout"
)

// ConditionDocs describes the reasons.
func ConditionDocs() []status.ConditionDoc {
	docs := []status.ConditionDoc{}
	add := func(kind machinev1beta1.ConditionType, reason, when string) {
		docs = append(docs, status.ConditionDoc{On: "Machine", Type: string(kind), Reason: reason, When: when})
	}
	add(machinev1beta1.InstanceExistsCondition, ReasonProviderError, "Unknown: the provider returns an error when it is asked for the instance")
	add(machinev1beta1.InstanceExistsCondition, ReasonMissing, "the instance existed and does not exist any more; the Machine is Failed")
	add(machinev1beta1.InstanceExistsCondition, ReasonNotCreated, "there is no instance yet; the message has the provider's last error")
	add(machinev1beta1.InstanceExistsCondition, ReasonNoProvider, "no enabled provider serves the kind in spec.providerSpec.value")
	add(machinev1beta1.InstanceExistsCondition, ReasonInvalid, "spec.providerSpec.value, which describes the instance, is missing")
	add(machinev1beta1.InstanceExistsCondition, ReasonInstanceDeleted,
		"the Machine is being deleted and its instance has been deleted; a finalizer of another controller keeps the Machine")
	add(machinev1beta1.MachineDrainable, ReasonHook, "a preDrain hook blocks the drain; the message has its name and owner")
	add(machinev1beta1.MachineTerminable, ReasonHook, "a preTerminate hook blocks the deletion of the instance; the message has its name and owner")
	add(ConditionDrained, ReasonDraining, "the drain waits for pods; the message names them and says why they are left")
	add(ConditionDrained, ReasonLease, "another controller holds the lease of the Node; the message says which, and until when")
	add(ConditionDrained, ReasonLinkConflict, "the Node of the Machine is ambiguous; the message says why")
	add(ConditionDrained, ReasonQuorum, "the control plane cannot spare the Node now")
	add(ConditionDrained, ReasonQuorumUnknown,
		"the API server does not let Drover find out whether the control plane can spare the Node; the message says which permission is missing")
	add(ConditionDrained, ReasonRecordUnreadable, "the cordon record on the Node cannot be read")
	add(ConditionDrained, ReasonDenied, "the API server denies the cordon of the Node")
	add(ConditionDrained, ReasonDrainTimeout, "the drain has timed out; the instance is deleted with the pods that are left")
	add(ConditionPaused, ReasonOtherAPI, "True: status.authoritativeAPI gives the authority over the Machine to another API")
	add(ConditionReady, ReasonProvisioning, "the instance does not exist yet; the message has the provider's last error")
	add(ConditionReady, ReasonAwaitingNode, "the instance exists and has not registered its Node yet")
	add(ConditionReady, ReasonLinkConflict, "the Node of the Machine is ambiguous; the message says why")
	add(ConditionReady, ReasonNotAdopted, "the Machine may not adopt the Node with its providerID or address; the message says why")
	add(ConditionReady, ReasonNodeNotFound, "the Node in status.nodeRef does not exist")
	add(ConditionReady, ReasonNodeStarting, "the Node has registered and has not been Ready yet")
	add(ConditionReady, ReasonNodeNotReady, "the Node is not Ready any more")
	add(ConditionReady, ReasonFailed, "the Machine is Failed and does not recover; delete it")
	add(ConditionReady, ReasonDeleting, "the Machine is being deleted")
	add(ConditionReady, ReasonLease,
		"the Node has been drained, and another controller holds its lease; the instance is deleted when the lease is released")
	add(ConditionReady, ReasonPaused, "an annotation pauses the Machine")
	return docs
}
