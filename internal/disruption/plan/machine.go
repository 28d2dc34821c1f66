package plan

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"
)

// machinePrefix is what the names of Machines that have no Node begin with. No Node has such a name.
const machinePrefix = "Machine/"

// MachineName returns what stands for the name of the Node of a Machine that has none.
func MachineName(machine types.NamespacedName) string { return machinePrefix + machine.String() }

// ParseMachineName returns the Machine that a name stands for; found reports that it is no Node's.
func ParseMachineName(name string) (machine types.NamespacedName, found bool) {
	rest, found := strings.CutPrefix(name, machinePrefix)
	if found {
		machine.Namespace, machine.Name, _ = strings.Cut(rest, "/")
	}
	return machine, found
}

// isMachine reports whether a name stands for a Machine that has no Node. To delete such a Machine makes no Node unavailable.
func isMachine(name string) bool { return strings.HasPrefix(name, machinePrefix) }

// subject returns "Node NAME" or "Machine NAMESPACE/NAME", for messages.
func subject(name string) string {
	if isMachine(name) {
		return strings.Replace(name, "/", " ", 1)
	}
	return "Node " + name
}
