package simulation

import (
	"os"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/ownership"
)

// What is in this file are faults of the rooms that the simulation has found and that are not mended yet. Each is left out of what
// the simulation does, or of what it asks for, until it is: strictVariable counts them all.
const strictVariable = "DROVER_SIMULATION_STRICT"

var strict = os.Getenv(strictVariable) != ""

// trustedLists are the kinds of which a process that starts gets no old list, as it gets none from a server that answers a list from etcd.
// The room machine takes the first list of Machines and Nodes for the truth: by an old one it makes an instance for a Machine that has
// gone, or another one for a Machine whose instance is lost, and misses the drain and the end of a Node that is there.
var trustedLists = []string{"Machine", "Node"}

// unrecorded tells of a Machine that is gone and whose instance had never been recorded on it, or by half: the process ended in between. The
// room does not ask the provider then before it looks for the Node to drain and to delete, and so leaves it behind.
func unrecorded(machine *machinev1beta1.Machine) bool {
	return !strict && len(machine.Status.Addresses) == 0
}

// noteRecord remembers what the room metadata has recorded on a Machine as the pool's.
func (n *nodeChecks) noteRecord(machine *machinev1beta1.Machine) {
	record, err := ownership.ParseRecord(machine.Annotations[ownership.AnnotationRecord])
	must(err)
	for _, e := range []struct {
		kind string
		keys ownership.Keys
	}{{"label", record.Labels}, {"annotation", record.Annotations}, {"taint", record.Taints}} {
		for key := range e.keys {
			if e.kind == "taint" {
				key, _ = ownership.SplitTaintID(key)
			}
			n.recorded[recordedEntry{machine.UID, entry{e.kind, key}}] = true
		}
	}
}

type recordedEntry struct {
	machine types.UID
	entry   entry
}

// inherited tells of a key that a Machine was made with and that the pool has dropped before the room metadata has seen the Machine. The
// room takes it for the Machine's own then, and so it stays.
func (w *world) inherited(node *corev1.Node, e entry) bool {
	for _, i := range w.cloud.sorted() {
		if w.addressed(node, i) {
			return !strict && !w.nodes.recorded[recordedEntry{i.machine, e}]
		}
	}
	return false
}
