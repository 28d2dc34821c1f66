package capacity

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// EventFailed is the reason of the event of a MachineSet whose annotations cannot be set. It is machine-api-operator's.
const EventFailed = "FailedUpdate"

// messageUnknown is machine-api-operator's text:
// https://github.com/openshift/machine-api-provider-aws/blob/10718580/pkg/actuators/machineset/controller.go
const messageUnknown = "Failed to set autoscaling from zero annotations, instance type unknown"

// messageFailed is followed by the provider's error.
const messageFailed = "Failed to set autoscaling from zero annotations: "

// Events describes every event of the controller.
var Events = []status.EventDoc{
	{Reason: EventFailed, Type: corev1.EventTypeWarning, On: "MachineSet",
		When: "the provider does not know what the Nodes of the MachineSet will have, so that the annotations for cluster-autoscaler stay as they are; " +
			"once until the reason changes; for errors that pass not before the third"},
}
