// Package plan decides what a MachineSet needs: which Machines are its own, how many are to be created, which are to be deleted, and
// what its status says.
//
// It is pure: objects and the time go in, a Decision or a status comes out.
package plan

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
)

// AttemptAnnotation is set on a Machine that replaces a failed one: how many failed in a row before it. The backoff is computed from it, so that it
// survives the process.
const AttemptAnnotation = "drover.dev/replacement-attempt"

// Burst is how many Machines one reconciliation creates or deletes at most. The status reports progress before the next ones follow.
const Burst = 500

// Input is everything that Decide depends on. Decide does not change the objects.
type Input struct {
	Set *machinev1beta1.MachineSet
	// Machines are the Machines of the namespace that the MachineSet owns, and the Machines without an owner; others are ignored.
	Machines []*machinev1beta1.Machine
	// Readiness are the conditions Ready of the Nodes that the Machines name, by name; nil for a Node that does not exist.
	Readiness map[string]*corev1.NodeCondition
	// Refused are the Machines that the API server did not let Drover adopt or release, until the next attempt is due.
	Refused map[types.UID]bool
	// ReplaceFailed replaces Machines in the phase Failed.
	ReplaceFailed bool
	// Now is the time of the decision.
	Now time.Time
}

// Decision is what the controller does about one MachineSet.
type Decision struct {
	// Problem says what a user has to correct in the MachineSet first; empty for nothing.
	Problem string
	// Selector is the selector as text; empty when it is invalid. Then there are no Members either.
	Selector string
	// Members are the Machines that count, including those to adopt.
	Members []Member
	// Adopt and Release are the Machines to adopt and to release. Nothing else is done in the same reconciliation.
	Adopt, Release []*machinev1beta1.Machine
	// Surge is how many members do not count because they are being replaced: so many Machines there are beyond spec.replicas.
	Surge int
	// CreateFor are the Machines to create: what each is created for, as the value of machineapi.CreatedForAnnotation.
	CreateFor []string
	// Scaled reports that the Machines were compared with spec.replicas; this happens for a paused MachineSet as well. Owed is how many of the missing
	// Machines are owed for others, including Machines that are not created yet and the replacement for Replace. Reached is how many of spec.replicas
	// the MachineSet has had.
	Scaled        bool
	Owed, Reached int
	// Delete are the Machines to delete, in this order.
	Delete []*machinev1beta1.Machine
	// Withheld are Machines to delete over which another API has the authority.
	Withheld []*machinev1beta1.Machine
	// Replace is a failed Machine to replace, nil for none; Attempt is the attempt of the new one.
	Replace *machinev1beta1.Machine
	Attempt int
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time

	// replacing are the members that Surge counts, deleting the Machines of the MachineSet that are being deleted.
	replacing, deleting []*machinev1beta1.Machine
}

// Decide decides for one MachineSet over which the Machine API has the authority. It never fails: what cannot be done becomes Problem.
func Decide(in Input) Decision {
	membership, err := MembershipOf(in.Set)
	if err != nil {
		return Decision{Problem: err.Error()}
	}
	d := Decision{Selector: metav1.FormatLabelSelector(&in.Set.Spec.Selector)}
	d.sort(in, membership)
	if replicas := in.Set.Spec.Replicas; replicas == nil || *replicas != 0 {
		// A mark must not keep Machines of a MachineSet that is to have none.
		d.replacing = replacing(in.Set, d.Members)
	}
	d.Surge = len(d.replacing)
	for i := range d.Members {
		if m := &d.Members[i]; m.Ready && !m.Available(in.Now) {
			d.wakeAt(m.AvailableAt)
		}
	}
	if replicas := in.Set.Spec.Replicas; replicas == nil || *replicas < 0 {
		d.Problem = "spec.replicas must be set, and must not be negative"
	} else if len(d.Adopt)+len(d.Release) == 0 {
		d.scale(in, int(*replicas))
	}
	return d
}

// replacing returns the members that are being replaced. Only an outdated Machine can be, so that the mark has no effect once the template is undone.
func replacing(set *machinev1beta1.MachineSet, members []Member) (found []*machinev1beta1.Machine) {
	var template *machineapi.Template
	for i := range members {
		machine := members[i].Machine
		if !machineapi.IsReplacing(machine) {
			continue
		}
		if template == nil {
			template = machineapi.TemplateOf(set)
		}
		if template.Outdates(machine) {
			found = append(found, machine)
		}
	}
	return found
}

// sort finds the members, the Machines to adopt and to release, and the Machines that are being deleted.
func (d *Decision) sort(in Input, membership machineapi.Membership) {
	fixed := Paused(in.Set)
	for _, machine := range in.Machines {
		relation := membership.Relation(machine)
		if relation == machineapi.Deleting {
			d.deleting = append(d.deleting, machine)
			continue
		}
		if relation != machineapi.Owned && (fixed || in.Refused[machine.UID] || ofOtherAPI(machine)) {
			continue
		}
		switch relation {
		case machineapi.Owned:
			d.Members = append(d.Members, memberOf(in.Set, machine, in.Readiness))
		case machineapi.Adopt:
			m := memberOf(in.Set, machine, in.Readiness)
			m.Joining = true
			d.Members = append(d.Members, m)
			d.Adopt = append(d.Adopt, machine)
		case machineapi.Release:
			d.Release = append(d.Release, machine)
		}
	}
	slices.SortFunc(d.Adopt, byName)
	slices.SortFunc(d.Release, byName)
}

// scale compares the members with spec.replicas.
func (d *Decision) scale(in Input, replicas int) {
	d.Scaled = true
	diff := len(d.Members) - replicas - d.Surge
	if diff < 0 {
		d.attribute(in.Set, replicas, -diff)
	}
	switch {
	case Paused(in.Set):
		d.CreateFor = nil
	case diff < 0:
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
		case m.OtherAPI:
			d.Withheld = append(d.Withheld, m.Machine)
		case len(d.Delete) < Burst:
			d.Delete = append(d.Delete, m.Machine)
		}
	}
}

func (d *Decision) wakeAt(at time.Time) { d.Wake = bounded.Earliest(d.Wake, at) }

func byName(a, b *machinev1beta1.Machine) int { return cmp.Compare(a.Name, b.Name) }

// Authority is the API that has the authority over a MachineSet's Machines.
type Authority string

// The authorities.
const (
	// MachineAPI has the authority, or there is no other API.
	MachineAPI Authority = "MachineAPI"
	// Unset: the spec names an API, and the status does not yet.
	Unset Authority = "Unset"
	// OtherAPI: the Cluster API has the authority, or it is migrating.
	OtherAPI Authority = "OtherAPI"
	// Unknown: this version of Drover does not know what the status names.
	Unknown Authority = "Unknown"
)

// AuthorityOf returns which API has the authority over a MachineSet's Machines; MachineAPI where the CRD has no such fields.
func AuthorityOf(set *machinev1beta1.MachineSet) Authority {
	switch set.Status.AuthoritativeAPI {
	case "":
		if set.Spec.AuthoritativeAPI == "" {
			return MachineAPI
		}
		return Unset
	case machinev1beta1.MachineAuthorityMachineAPI:
		return MachineAPI
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		return OtherAPI
	}
	return Unknown
}

// authorityText returns the message of machine-api-operator.
func authorityText(api machinev1beta1.MachineAuthority) string {
	return fmt.Sprintf("The AuthoritativeAPI status is set to '%s'", api)
}
