package metadata

import (
	"github.com/drover-io/drover/internal/metadata/plan"
)

// Reasons of the events.
const (
	// EventSynced (Normal on MachineSet): the last Node carries what the template declares since its last change.
	EventSynced = "MetadataSynced"
	// EventConflict (Warning on Node, MachineSet): another writer set a declared key to another value first; on the MachineSet once for all Nodes.
	EventConflict = "MetadataConflict"
	// EventRefused (Warning on MachineSet): a declared key belongs to the system and is not written.
	EventRefused = "MetadataRefused"
	// EventInvalid (Warning on MachineSet): a declared entry or a drover.dev annotation is invalid and ignored; or the selector is invalid.
	EventInvalid = "MetadataInvalid"
	// EventAmbiguous (Warning on MachineSet): the selectors of several MachineSets match a Machine that has no controller: none of them applies to it.
	EventAmbiguous = "MetadataAmbiguous"
	// EventDuplicate (Warning on MachineSet): a taint is declared more than once; the first counts.
	EventDuplicate = "MetadataDuplicate"
	// EventBadRecord (Warning on MachineSet): an ownership record was edited and cannot be read; no key counts as owned.
	EventBadRecord = "MetadataBadRecord"
	// EventUnconfirmed (Warning on MachineSet): the ownership record on the Node names a taint or a restricted label that the record on the Machine
	// does not; Drover does not remove it.
	EventUnconfirmed = "MetadataUnconfirmed"
	// EventNoExecuteRefused (Warning on MachineSet): a taint with the effect NoExecute is held back: the Node is in no NodeGroup, and
	// metadata.rollout.noExecute.policy of the configuration is Refuse.
	EventNoExecuteRefused = "MetadataNoExecuteRefused"
	// EventStopped (Warning on MachineSet): the waves of metadata.rollout of the configuration have stopped: too many Nodes have become NotReady.
	EventStopped = "MetadataRolloutStopped"
	// EventRepaired (Normal on Node): another writer changed or removed a declared entry, and Drover has restored it.
	EventRepaired = "MetadataRepaired"
	// EventContention (Warning on Node, Machine): another writer keeps changing a key, or removing the ownership record; Drover leaves it alone for a
	// while.
	EventContention = "MetadataFight"
	// EventDenied (Warning on Node, Machine): the API server denies a write (validation, admission or permission); Drover tries again after 5 seconds,
	// and later every five minutes.
	EventDenied = "MetadataDenied"
)

// problemEvents maps the reason of a problem to that of its event on the MachineSet. Contention is reported on the object itself.
var problemEvents = map[plan.Reason]string{
	plan.InConflict:  EventConflict,
	plan.Refused:     EventRefused,
	plan.Invalid:     EventInvalid,
	plan.Duplicate:   EventDuplicate,
	plan.BadRecord:   EventBadRecord,
	plan.Unconfirmed: EventUnconfirmed,

	plan.NoExecuteRefused: EventNoExecuteRefused,
}
