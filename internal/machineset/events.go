package machineset

// Reasons of the events. ReconcileError is machine-api-operator's.
const (
	// EventError (Warning on MachineSet): the MachineSet cannot be used, or Machines cannot be created, deleted, adopted or released; once until it is
	// over.
	EventError = "ReconcileError"
	// EventCreateFailed (Warning on MachineSet): Machines cannot be created; once until it is over.
	EventCreateFailed = "FailedCreate"
	// EventCreated (Normal on MachineSet): Machines have been created; those of one reconciliation are one event.
	EventCreated = "SuccessfulCreate"
	// EventDeleted (Normal on MachineSet): Machines have been deleted because there were too many; those of one reconciliation are one event.
	EventDeleted = "SuccessfulDelete"
	// EventAdopted (Normal on MachineSet): the MachineSet has adopted Machines that its selector matches and that had no owner.
	EventAdopted = "AdoptedMachine"
	// EventReleased (Normal on MachineSet): the MachineSet has released Machines that its selector does not match any more.
	EventReleased = "ReleasedMachine"
	// EventReplaced (Warning on MachineSet): a Machine in the phase Failed is replaced; only where the configuration enables it.
	EventReplaced = "ReplacedFailedMachine"
)

// maxNamed is how many Machines an event names.
const maxNamed = 10
