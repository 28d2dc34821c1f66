package capacity

// EventFailed (Warning on MachineSet): the provider does not know what the Nodes of the MachineSet will have, so that the annotations for
// cluster-autoscaler stay as they are; once until the reason changes; for errors that pass not before the third.
const EventFailed = "FailedUpdate"

// messageUnknown is machine-api-operator's text:
// https://github.com/openshift/machine-api-provider-aws/blob/10718580/pkg/actuators/machineset/controller.go
const messageUnknown = "Failed to set autoscaling from zero annotations, instance type unknown"

// messageFailed is followed by the provider's error.
const messageFailed = "Failed to set autoscaling from zero annotations: "
