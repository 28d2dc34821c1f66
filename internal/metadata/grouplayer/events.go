package grouplayer

// Reasons of the events on Nodes. The controller of metadata emits the first four for MachineSets, too.
const (
	// EventConflict (Warning on Node): another writer set a key first, to another value than the NodeGroup declares.
	EventConflict = "MetadataConflict"
	// EventRepaired (Normal on Node): another writer changed or removed an entry that the NodeGroup declares, and Drover has restored it.
	EventRepaired = "MetadataRepaired"
	// EventContention (Warning on Node): another writer keeps changing a key that the NodeGroup declares; Drover leaves it alone for a while.
	EventContention = "MetadataFight"
	// EventDenied (Warning on Node): the API server denies a write (validation, admission or permission); Drover tries again after 5 seconds, and later
	// every five minutes.
	EventDenied = "MetadataDenied"
	// EventTimeout (Warning on Node): Pods that do not tolerate a taint with the effect NoExecute did not leave within spec.rollout.noExecute.timeout;
	// the place in the budget and the node lease are released, and Drover evicts again later.
	EventTimeout = "EvictionTimeout"
	// EventPodsLost (Warning on Node): a taint with the effect NoExecute has been set, and Kubernetes deletes Pods of DaemonSets that do not tolerate
	// it, or Pods that did not leave within spec.rollout.noExecute.timeout where onTimeout is Proceed, regardless of their PodDisruptionBudgets.
	EventPodsLost = "PodsNotEvicted"
)
