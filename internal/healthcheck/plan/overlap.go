package plan

import (
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/labels"
)

// terminationHandler is OpenShift's MachineHealthCheck for spot instances. It reacts to notices of their termination only, and overlaps on purpose
// with others that select such Machines.
const terminationHandler = "machine-api-termination-handler"

// Overlap is another MachineHealthCheck that selects some of the Machines.
type Overlap struct {
	Name string
	// Older reports that the other one is older: it remediates those Machines.
	Older bool
}

// overlaps returns the other MachineHealthChecks that select some of the targets, the oldest first. For each target it also returns the oldest of
// them that is older than this MachineHealthCheck; empty for none. A paused MachineHealthCheck counts: pausing it is no reason for another one to
// remediate its Machines.
func (in *Input) overlaps() (overlaps []Overlap, older []string) {
	older = make([]string, len(in.Targets))
	for _, other := range in.others() {
		selector, err := Selector(other)
		if err != nil {
			continue
		}
		overlap, found := Overlap{Name: other.Name, Older: compareAge(other, in.Check) < 0}, false
		for i := range in.Targets {
			if !selector.Matches(labels.Set(in.Targets[i].Machine.Labels)) {
				continue
			}
			found = true
			if overlap.Older && older[i] == "" {
				older[i] = other.Name
			}
		}
		if found {
			overlaps = append(overlaps, overlap)
		}
	}
	return overlaps, older
}

// others returns the other MachineHealthChecks that may overlap, the oldest first.
func (in *Input) others() []*machinev1beta1.MachineHealthCheck {
	var others []*machinev1beta1.MachineHealthCheck
	for i := range in.Checks {
		other := &in.Checks[i]
		if other.UID != in.Check.UID && other.DeletionTimestamp == nil && other.Name != terminationHandler && in.Check.Name != terminationHandler {
			others = append(others, other)
		}
	}
	slices.SortFunc(others, compareAge)
	return others
}

func compareAge(a, b *machinev1beta1.MachineHealthCheck) int {
	if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
