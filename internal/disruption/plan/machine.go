package plan

import (
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
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

// isMachine reports whether a name stands for a Machine that has no Node. To disrupt one makes no Node unavailable.
func isMachine(name string) bool { return strings.HasPrefix(name, machinePrefix) }

// subject returns what a message calls what has a name.
func subject(name string) string {
	if isMachine(name) {
		return strings.Replace(name, "/", " ", 1)
	}
	return "Node " + name
}

// predecessor returns the reservation of the remediation that a request continues, whose Node is gone or has never come, and of which the Machine of
// the request is the successor that has failed in turn; nil for none. Of several it is the last one before the Machine was made.
func (in *Input) predecessor(request *Request) (last *v1alpha1.Reservation) {
	if request.Made.IsZero() {
		return nil
	}
	for i := range in.Group.Status.Reservations {
		r := &in.Group.Status.Reservations[i]
		_, isThere := in.Members.get(r.Node, r.UID)
		if isThere || r.Capability != v1alpha1.CapabilityRemediation || r.Time.After(request.Made) || last != nil && r.Time.Before(&last.Time) {
			continue
		}
		last = r
	}
	return last
}
