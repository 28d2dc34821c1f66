package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// Annotations that are read, and one that is written.
const (
	// DeleteAnnotation marks the Machine that is to be deleted next; its value does not matter. OldDeleteAnnotation is its former name.
	DeleteAnnotation    = "machine.openshift.io/delete-machine"
	OldDeleteAnnotation = "machine.openshift.io/cluster-api-delete-machine"
	// AttemptAnnotation stands on a Machine that replaces one that failed: how many failed in a row before it. The back-off is read
	// from it, so that it outlives the process.
	AttemptAnnotation = "drover.dev/replacement-attempt"
)

// Burst is how many Machines a pass creates or deletes at most. The status tells how far it is before the next ones follow.
const Burst = 500

// Input is everything that Decide looks at. The objects are not changed.
type Input struct {
	Set *machinev1beta1.MachineSet
	// Machines are those of the namespace that the set owns and those that nobody owns; others do no harm.
	Machines []*machinev1beta1.Machine
	// Nodes are those that the Machines name, by name; one that is missing does not exist.
	Nodes map[string]*corev1.Node
	// Refused are Machines whose ownership the API server has lately refused to change.
	Refused map[types.UID]bool
	// ReplaceFailed tells that Machines in the phase Failed are to be replaced.
	ReplaceFailed bool
	// Now is the time of the decision.
	Now time.Time
}

// Decision is what is to be done about one MachineSet.
type Decision struct {
	// Problem says what has to be changed about the MachineSet before its Machines can be; empty when nothing has.
	Problem string
	// Selector is the selector as a text, empty when it cannot be used. Then there are no Members either.
	Selector string
	// Members are the Machines that count, those that are to be adopted among them.
	Members []Member
	// Adopt and Release are the Machines whose owner is to be changed. Nothing else is done in the same pass.
	Adopt, Release []*machinev1beta1.Machine
	// Create is how many Machines are to be created.
	Create int
	// Delete are the Machines to be deleted, the first first.
	Delete []*machinev1beta1.Machine
	// Withheld are Machines that would have to be deleted, but another API has the authority over them.
	Withheld []*machinev1beta1.Machine
	// Replace is a failed Machine to be deleted and replaced by one that is its Attempt-th; nil for none.
	Replace *machinev1beta1.Machine
	Attempt int
	// Wake is when time alone changes the decision; zero for never.
	Wake time.Time
}

// Decide makes the decision for one MachineSet whose authority is Ours. It never fails: what cannot be done is its Problem.
func Decide(in Input) Decision {
	selector, err := SelectorOf(in.Set)
	if err != nil {
		return Decision{Problem: err.Error()}
	}
	d := Decision{Selector: metav1.FormatLabelSelector(&in.Set.Spec.Selector)}
	d.sort(in, selector)
	for i := range d.Members {
		if m := &d.Members[i]; m.Ready && !m.Available(in.Now) {
			d.wakeAt(m.AvailableAt)
		}
	}
	if replicas := in.Set.Spec.Replicas; replicas == nil || *replicas < 0 {
		d.Problem = "spec.replicas has to be set, and not negative"
	} else if !Paused(in.Set) && len(d.Adopt)+len(d.Release) == 0 {
		d.scale(in, int(*replicas))
	}
	return d
}

// sort finds the members, and those whose owner has to be changed.
func (d *Decision) sort(in Input, selector labels.Selector) {
	fixed := Paused(in.Set)
	for _, machine := range in.Machines {
		standing := StandingOf(in.Set, selector, machine)
		if standing != Counted && (fixed || in.Refused[machine.UID] || elsewhere(machine)) {
			continue
		}
		switch standing {
		case Counted:
			d.Members = append(d.Members, memberOf(in.Set, machine, in.Nodes))
		case Adopt:
			m := memberOf(in.Set, machine, in.Nodes)
			m.Joining = true
			d.Members = append(d.Members, m)
			d.Adopt = append(d.Adopt, machine)
		case Release:
			d.Release = append(d.Release, machine)
		}
	}
	slices.SortFunc(d.Adopt, byName)
	slices.SortFunc(d.Release, byName)
}

func (d *Decision) scale(in Input, replicas int) {
	switch diff := len(d.Members) - replicas; {
	case diff < 0:
		d.Create = min(-diff, Burst)
	case diff > 0:
		d.shrink(in, diff)
	case in.ReplaceFailed:
		d.replace(in.Now)
	}
}

func (d *Decision) shrink(in Input, by int) {
	ordered, err := DeleteOrder(in.Set.Spec.DeletePolicy, d.Members)
	if err != nil {
		d.Problem = err.Error()
		return
	}
	for _, m := range ordered[:by] {
		switch {
		case m.Elsewhere:
			d.Withheld = append(d.Withheld, m.Machine)
		case len(d.Delete) < Burst:
			d.Delete = append(d.Delete, m.Machine)
		}
	}
}

func (d *Decision) wakeAt(at time.Time) {
	if d.Wake.IsZero() || at.Before(d.Wake) {
		d.Wake = at
	}
}

func byName(a, b *machinev1beta1.Machine) int { return cmp.Compare(a.Name, b.Name) }

// Authority is who may change a MachineSet's Machines.
type Authority string

// The authorities.
const (
	// Ours: this API has it, or there is no other.
	Ours Authority = "ours"
	// Unclaimed: the spec names one that the status has yet to take over.
	Unclaimed Authority = "unclaimed"
	// Elsewhere: Cluster API has it, or it is being handed over.
	Elsewhere Authority = "elsewhere"
	// Unknown: the status says something that this version of Drover does not know.
	Unknown Authority = "unknown"
)

// AuthorityOf tells who may change a MachineSet's Machines. Where the CRD has no such fields it is Ours.
func AuthorityOf(set *machinev1beta1.MachineSet) Authority {
	switch set.Status.AuthoritativeAPI {
	case "":
		if set.Spec.AuthoritativeAPI == "" {
			return Ours
		}
		return Unclaimed
	case machinev1beta1.MachineAuthorityMachineAPI:
		return Ours
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		return Elsewhere
	}
	return Unknown
}

// authorityText is the incumbent's.
func authorityText(api machinev1beta1.MachineAuthority) string {
	return fmt.Sprintf("The AuthoritativeAPI status is set to '%s'", api)
}
