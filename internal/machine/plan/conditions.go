package plan

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/machineapi"
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

// Reasons of the conditions. Constants of the API and AuthoritativeAPI... are machine-api-operator's.
const (
	// ReasonProviderError (InstanceExists=Unknown): the provider returns an error when it is asked for the instance.
	ReasonProviderError = machinev1beta1.ErrorCheckingProviderReason
	// ReasonMissing (InstanceExists): the instance existed and does not exist any more; the Machine is Failed.
	ReasonMissing = machinev1beta1.InstanceMissingReason
	// ReasonNotCreated (InstanceExists): there is no instance yet; the message has the provider's last error.
	ReasonNotCreated = machinev1beta1.InstanceNotCreatedReason
	// ReasonNoProvider (InstanceExists): no enabled provider serves the kind in spec.providerSpec.value.
	ReasonNoProvider = "NoProvider"
	// ReasonInvalid (InstanceExists): spec.providerSpec.value, which describes the instance, is missing.
	ReasonInvalid = "InvalidConfiguration"
	// ReasonInstanceDeleted (InstanceExists): the Machine is being deleted and its instance has been deleted; a finalizer of another controller keeps
	// the Machine.
	ReasonInstanceDeleted = "InstanceDeleted"
	// ReasonHook (Drainable): a preDrain hook blocks the drain; the message has its name and owner.
	//
	// ReasonHook (Terminable): a preTerminate hook blocks the deletion of the instance; the message has its name and owner.
	ReasonHook = machinev1beta1.MachineHookPresent
	// ReasonDraining (Drained): the drain waits for pods; the message names them and says why they are left.
	ReasonDraining = "Draining"
	// ReasonLease (Drained): another controller holds the lease of the Node; the message says which, and until when.
	//
	// ReasonLease (Ready): the Node has been drained, and another controller holds its lease; the instance is deleted when the lease is released.
	ReasonLease = "LeaseHeldByOther"
	// ReasonLinkConflict (Drained): the Node of the Machine is ambiguous; the message says why.
	//
	// ReasonLinkConflict (Ready): the Node of the Machine is ambiguous; the message says why.
	ReasonLinkConflict = "NodeLinkConflict"
	// ReasonQuorum (Drained): the control plane cannot spare the Node now.
	ReasonQuorum = "ControlPlaneQuorum"
	// ReasonQuorumUnknown (Drained): the API server does not let Drover find out whether the control plane can spare the Node; the message says which
	// permission is missing.
	ReasonQuorumUnknown = "ControlPlaneQuorumUnknown"
	// ReasonRecordUnreadable (Drained): the cordon record on the Node cannot be read.
	ReasonRecordUnreadable = "RecordUnreadable"
	// ReasonDenied (Drained): the API server denies the cordon of the Node.
	ReasonDenied = "Denied"
	// ReasonDrainTimeout (Drained): the drain has timed out; the instance is deleted with the pods that are left.
	ReasonDrainTimeout = "DrainTimeout"
	// ReasonOtherAPI (Paused=True): status.authoritativeAPI gives the authority over the Machine to another API.
	ReasonOtherAPI = "AuthoritativeAPINotMachineAPI"
	// ReasonMachineAPI (Paused=False): status.authoritativeAPI is MachineAPI.
	ReasonMachineAPI = "AuthoritativeAPIMachineAPI"
	// ReasonProvisioning (Ready): the instance does not exist yet; the message has the provider's last error.
	ReasonProvisioning = "Provisioning"
	// ReasonAwaitingNode (Ready): the instance exists and has not registered its Node yet.
	ReasonAwaitingNode = "AwaitingNode"
	// ReasonNotAdopted (Ready): the Machine may not adopt the Node with its providerID or address; the message says why.
	ReasonNotAdopted = "NodeNotAdopted"
	// ReasonNodeNotFound (Ready): the Node in status.nodeRef does not exist.
	ReasonNodeNotFound = "NodeNotFound"
	// ReasonNodeStarting (Ready): the Node has registered and has not been Ready yet.
	ReasonNodeStarting = "NodeStarting"
	// ReasonNodeNotReady (Ready): the Node is not Ready any more.
	ReasonNodeNotReady = "NodeNotReady"
	// ReasonFailed (Ready): the Machine is Failed and does not recover; delete it.
	ReasonFailed = "Failed"
	// ReasonDeleting (Ready): the Machine is being deleted.
	ReasonDeleting = "Deleting"
	// ReasonPaused (Ready): an annotation pauses the Machine.
	ReasonPaused = "Paused"
)
