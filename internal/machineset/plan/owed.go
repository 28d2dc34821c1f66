package plan

import (
	"cmp"
	"slices"
	"strconv"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machineapi"
)

// attribute says what the missing Machines are created for. First come the Machines that are owed for Machines that were deleted or are being
// replaced, then the growth of spec.replicas. A Machine that was deleted because spec.replicas shrank is owed nothing.
func (d *Decision) attribute(set *machinev1beta1.MachineSet, replicas, missing int) {
	leaving, doubled := d.unreplaced()
	d.Reached = max(machineapi.ReachedReplicas(set), max(int(set.Status.Replicas), len(d.Members)+leaving.deleted)-doubled)
	d.Reached = min(d.Reached, replicas)
	d.Owed = max(0, missing-(replicas-d.Reached))
	for i := range min(missing, Burst) {
		switch {
		case i >= d.Owed:
			d.CreateFor = append(d.CreateFor, string(machineapi.CreatedForGrowth))
		case i < len(leaving.values):
			d.CreateFor = append(d.CreateFor, leaving.values[i])
		default:
			d.CreateFor = append(d.CreateFor, string(machineapi.CreatedForDeleted))
		}
	}
}

// candidates are the Machines in whose place no other one has been created.
type candidates struct {
	// values are what Machines in their place are annotated with.
	values []string
	// deleted is how many of them are being deleted.
	deleted int
}

// unreplaced returns the Machines that no member replaces yet: first the Machines that are being replaced, then the Machines that are being deleted,
// the last deleted first. A deleted Machine that is owed a replacement gets it at once, so the earlier ones were deleted because the MachineSet
// shrank. doubled is how many members are being replaced and have their replacement among the members already.
func (d *Decision) unreplaced() (found candidates, doubled int) {
	named := map[types.UID]bool{}
	for i := range d.Members {
		if _, uid := machineapi.CreatedFor(d.Members[i].Machine); uid != "" {
			named[uid] = true
		}
	}
	for _, machine := range d.replacing {
		if named[machine.UID] {
			doubled++
			continue
		}
		found.values = append(found.values, machineapi.CreatedForValue(machineapi.CreatedForOutdated, machine.UID))
	}
	slices.SortFunc(d.deleting, func(a, b *machinev1beta1.Machine) int {
		return cmp.Or(b.DeletionTimestamp.Compare(a.DeletionTimestamp.Time), byName(a, b))
	})
	for _, machine := range d.deleting {
		if named[machine.UID] {
			continue
		}
		found.values = append(found.values, machineapi.CreatedForValue(ReasonAfter(machine), machine.UID))
		found.deleted++
	}
	return found, doubled
}

// ReasonAfter returns the reason for creating the replacement of a Machine that is being deleted.
func ReasonAfter(machine *machinev1beta1.Machine) machineapi.CreationReason {
	before, _ := machineapi.CreatedFor(machine)
	switch {
	case before == machineapi.CreatedForGrowth && machine.Status.NodeRef == nil:
		return machineapi.CreatedForGrowth
	case machineapi.IsReplacing(machine):
		return machineapi.CreatedForOutdated
	}
	return machineapi.CreatedForDeleted
}

// Record returns the value of ReachedReplicasAnnotation after so many Machines that were owed, and so many for growth, have been created; empty for
// none. While a Machine is still owed, the status may say less than the MachineSet had reached.
func (d *Decision) Record(owed, grown int) string {
	if d.Owed-owed <= 0 {
		return ""
	}
	return strconv.Itoa(d.Reached + grown)
}
