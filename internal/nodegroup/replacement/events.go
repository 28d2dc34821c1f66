package replacement

// EventReplaced (Normal on Machine): the Machine is deleted because it does not match the template of its MachineSet, and its NodeGroup replaces
// such Machines.
const EventReplaced = "OutdatedMachineReplaced"
