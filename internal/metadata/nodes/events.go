package nodes

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/status"
)

// Reasons of the events on Nodes. The controller of metadata emits the first four for MachineSets, too.
const (
	// EventConflict: another writer set a declared key first.
	EventConflict = "MetadataConflict"
	// EventRepaired: what another writer changed was undone.
	EventRepaired = "MetadataRepaired"
	// EventContention: another writer keeps changing a key.
	EventContention = "MetadataFight"
	// EventDenied: the API server denies a write.
	EventDenied = "MetadataDenied"
	// EventTimeout: Pods did not leave in time for a taint with the effect NoExecute.
	EventTimeout = "EvictionTimeout"
	// EventPodsLost: a taint with the effect NoExecute was set for which Kubernetes deletes Pods that were not evicted.
	EventPodsLost = "PodsNotEvicted"
)

// Events describes every event of the controller.
var Events = []status.EventDoc{
	{Reason: EventConflict, Type: corev1.EventTypeWarning, On: "Node",
		When: "another writer set a key first, to another value than the NodeGroup declares"},
	{Reason: EventRepaired, Type: corev1.EventTypeNormal, On: "Node",
		When: "another writer changed or removed an entry that the NodeGroup declares, and Drover has restored it"},
	{Reason: EventContention, Type: corev1.EventTypeWarning, On: "Node",
		When: "another writer keeps changing a key that the NodeGroup declares; Drover leaves it alone for a while"},
	{Reason: EventDenied, Type: corev1.EventTypeWarning, On: "Node",
		When: "the API server denies a write (validation, admission or permission); Drover tries again after 5 seconds, and later every five minutes"},
	{Reason: EventTimeout, Type: corev1.EventTypeWarning, On: "Node",
		When: "Pods that do not tolerate a taint with the effect NoExecute did not leave within spec.rollout.noExecute.timeout; the place in the budget " +
			"and the node lease are released, and Drover evicts again later"},
	{Reason: EventPodsLost, Type: corev1.EventTypeWarning, On: "Node",
		When: "a taint with the effect NoExecute has been set, and Kubernetes deletes Pods of DaemonSets that do not tolerate it, or Pods that did not " +
			"leave within spec.rollout.noExecute.timeout where onTimeout is Proceed, regardless of their PodDisruptionBudgets"},
}
