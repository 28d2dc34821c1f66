// Package plan decides which outdated Machines of a NodeGroup are replaced now, and what keeps the others waiting.
//
// It is pure: the group, its MachineSets with their Machines, and the time go in, a Decision comes out. Nothing is remembered between two decisions:
// how far a replacement is follows from the Machines.
package plan

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/paused"
)

// Input is all that Decide depends on. The objects are not changed.
type Input struct {
	Group *v1alpha1.NodeGroup
	// Sets are the MachineSets of the group.
	Sets []Set
	// Window says whether disruptions of the group may begin.
	Window disruptionplan.Window
	// Creates reports whether Drover creates the Machines of MachineSets, Others that machine-api-operator does. Neither is known for a moment after
	// the start.
	Creates, Others bool
	// Now is the time of the decision.
	Now time.Time
}

// Set is a MachineSet.
type Set struct {
	Name     string
	Replicas int
	// Paused reports that a user has paused it.
	Paused   bool
	Machines []Machine
}

// Machine is a Machine of a MachineSet.
type Machine struct {
	Name    string
	UID     types.UID
	Zone    string
	Created time.Time
	// Outdated reports that it was created from another template. Replacing reports that it is marked as being replaced, and, if it is outdated, does
	// not count for its MachineSet.
	Outdated, Replacing bool
	// Deleting reports that it is being deleted, Marked that it is marked as the next to be deleted, Failed that it has an error. DeletionBegun
	// reports that it was Drover that has marked it, and that the deletion did not follow.
	Deleting, Marked, Failed, DeletionBegun bool
	// Skipped reports that a user has excluded it from replacement, or that its Node does not belong to the group.
	Skipped bool
	// Denied reports that the API server has lately refused to have it deleted or marked.
	Denied bool
	// Leased reports that another holder has the lease of its Node.
	Leased bool
	// HasNode reports whether it has a Node, or had one. Ready reports whether that is Ready, since ReadyChange. Synced reports that the Node carries
	// its metadata, or waits for it as the Nodes of old Machines do.
	HasNode, Ready, Synced bool
	ReadyChange            time.Time

	// retried reports that it was created from the current template before a user last resumed the replacement, and has failed.
	retried bool
}

// Decision is what is done about the Machines of a group now.
type Decision struct {
	// Unmark are the Machines that are not marked as being replaced any more.
	Unmark []types.UID
	// Keep are the Machines that Drover has marked as the next to be deleted, and that are not to be.
	Keep []types.UID
	// Replace are the Machines to delete, in this order.
	Replace []types.UID
	// MarkReplacing are the Machines to mark as being replaced, in this order. So many of them as Spare may be marked in any case, and one more for each
	// of Marked that is deleted.
	MarkReplacing []types.UID
	Spare         int
	Marked        []types.UID
	// Report is for the status of the group.
	Report Report
	// Wake is when the decision changes without an event; zero for never.
	Wake time.Time
}

// decider is what one decision works on.
type decider struct {
	*Input
	settings v1alpha1.Replacement
	sets     []*tally
	// resumed is when a user has resumed the replacement; zero for never.
	resumed time.Time
	// maxSurge and maxInFlight are the settings of the same names as numbers.
	maxSurge, maxInFlight int
	decision              Decision
}

// Decide decides what is done about the Machines of a group.
func Decide(in *Input) Decision {
	d := newDecider(in)
	d.decide()
	d.report()
	return d.decision
}

func newDecider(in *Input) *decider {
	d := &decider{Input: in}
	if in.Group.Spec.Replacement != nil {
		d.settings = *in.Group.Spec.Replacement
	}
	d.readResumed()
	replicas := 0
	for i := range in.Sets {
		d.sets = append(d.sets, d.newTally(in.Sets[i]))
		// What a MachineSet declares that is paused, or less than zero, must not change the limits of the others.
		if !in.Sets[i].Paused {
			replicas += max(0, in.Sets[i].Replicas)
		}
	}
	d.maxSurge, d.maxInFlight = scaled(d.settings.MaxSurge, replicas), max(1, scaled(d.settings.MaxInFlight, replicas))
	return d
}

// readResumed reads when the replacement was resumed. A time in the future would resume every later stop, too.
func (d *decider) readResumed() {
	at, err := time.Parse(time.RFC3339, d.Group.Annotations[v1alpha1.AnnotationResume])
	switch {
	case err != nil:
	case at.After(d.Now):
		d.wake(at)
	default:
		d.resumed = at
	}
}

// scaled returns a number, or a percentage of a total, rounded up. Nil is 1.
func scaled(value *intstr.IntOrString, total int) int {
	if value == nil {
		return 1
	}
	number, err := bounded.Scaled(*value, total)
	if err != nil {
		// The schema rejects such a value.
		return 0
	}
	return number
}

func (d *decider) decide() {
	report := &d.decision.Report
	if !Replaces(d.Group) || d.Group.DeletionTimestamp != nil {
		d.unmarkAll()
		d.keep(func(*Machine) bool { return true })
		return
	}
	report.Replacing = d.hasWork() && !d.Group.Spec.Suspend
	switch {
	case d.isPaused():
		return
	case !report.Replacing:
		d.unmarkIneffective()
		d.keep(isNoCandidate)
		return
	case d.Group.Spec.DryRun:
		return
	}
	d.keep(isNoCandidate)
	switch {
	case !d.Creates && !d.Others:
		report.block(ReasonSurgeUnavailable, unavailable)
		return
	case d.Others && d.maxSurge > 0:
		d.maxSurge = 0
		report.block(ReasonSurgeUnavailable, "machine-api-operator creates the Machines here: each old Machine goes before its new one is created")
	}
	if d.isHeld() {
		return
	}
	d.unmarkIneffective()
	d.keepMarks()
	d.replace()
	d.mark()
}

// isPaused reports whether a user has suspended the group or paused its replacement, and says so if there is something to replace.
func (d *decider) isPaused() bool {
	by, report := paused.By(d.Group), &d.decision.Report
	if by != "" && report.Replacing {
		report.block(ReasonPaused, "the annotation "+by+" of the group pauses the replacement of Machines; remove it to continue")
	}
	return by != "" || d.Group.Spec.Suspend
}

// IsRolloutStopped reports whether the roll-out of a group's metadata has stopped. No Machine is replaced until it goes on.
func IsRolloutStopped(group *v1alpha1.NodeGroup) bool {
	return group.Status.Rollout != nil && group.Status.Rollout.Stopped != ""
}

// isHeld reports whether nothing is begun for now, and says why.
func (d *decider) isHeld() bool {
	if d.isStopped() {
		return true
	}
	if IsRolloutStopped(d.Group) {
		d.decision.Report.block(d.Group.Status.Rollout.StopReason, d.Group.Status.Rollout.Stopped)
		return true
	}
	return d.isClosed()
}

// isClosed reports whether no disruption may begin now.
func (d *decider) isClosed() bool {
	budget := d.Group.Spec.Disruption
	if !d.Window.Closed || budget != nil && slices.Contains(budget.Exempt, v1alpha1.CapabilityReplacement) {
		return false
	}
	d.decision.Report.block(d.Window.Reason, d.Window.Message)
	d.wake(d.Window.Changes)
	return true
}

// unmarkAll ends what has begun: MachineSets delete the Machines that are then too many.
func (d *decider) unmarkAll() {
	for _, set := range d.sets {
		for i := range set.Machines {
			if m := &set.Machines[i]; m.Replacing && !m.Deleting {
				d.decision.Unmark = append(d.decision.Unmark, m.UID)
			}
		}
	}
}

// unmarkIneffective removes the marks of Machines that are not to be replaced any more.
func (d *decider) unmarkIneffective() {
	for _, set := range d.sets {
		for i := range set.Machines {
			if m := &set.Machines[i]; m.Replacing && !m.Deleting && (!m.isCandidate() || m.retried) {
				d.decision.Unmark = append(d.decision.Unmark, m.UID)
			}
		}
	}
}

// keep removes the marks as the next to be deleted that Drover has set on Machines that are not to be replaced any more: a user has undone the change
// of the template, or excluded the Machine.
func (d *decider) keep(isKept func(*Machine) bool) {
	for _, set := range d.sets {
		for i := range set.Machines {
			if m := &set.Machines[i]; m.DeletionBegun && !m.Deleting && isKept(m) {
				d.decision.Keep = append(d.decision.Keep, m.UID)
			}
		}
	}
}

func isNoCandidate(m *Machine) bool { return !m.isCandidate() }

// keepMarks counts the marked Machines, and removes the marks beyond maxSurge.
func (d *decider) keepMarks() {
	left := d.maxSurge
	for _, c := range d.candidates() {
		switch {
		case !c.machine.Replacing || c.machine.retried:
		case left > 0:
			left--
			c.set.replacing++
		default:
			c.machine.Replacing = false
			d.decision.Unmark = append(d.decision.Unmark, c.machine.UID)
		}
	}
}

// mark decides which Machines are replaced next: beside each of them, a new one is created. At most maxSurge are marked at the same time, as if all
// of Replace were deleted. A MachineSet that has lost one before a new one was available comes first.
func (d *decider) mark() {
	left := d.maxSurge
	for _, set := range d.sets {
		left -= set.replacing
	}
	d.decision.Spare = left - len(d.decision.Marked)
	candidates := d.candidates()
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(one(b.set.needsNew()), one(a.set.needsNew())) })
	for _, c := range candidates {
		if left > 0 && !c.machine.Replacing && !c.machine.Denied && !c.machine.retried && !c.set.Paused && !c.set.isShrinking() {
			left--
			c.set.replacing++
			d.decision.MarkReplacing = append(d.decision.MarkReplacing, c.machine.UID)
		}
	}
}

// replace decides which Machines are deleted now. A Machine whose Node another holder works on goes last: it has to wait, perhaps for days, and the
// others need not.
func (d *decider) replace() {
	candidates := d.candidates()
	slices.SortStableFunc(candidates, func(a, b candidate) int { return cmp.Compare(one(a.machine.Leased), one(b.machine.Leased)) })
	for _, c := range candidates {
		if !c.set.Paused && !c.machine.Denied && d.mayGo(c) {
			if c.set.remove(c.machine) {
				d.decision.Marked = append(d.decision.Marked, c.machine.UID)
			}
			d.decision.Replace = append(d.decision.Replace, c.machine.UID)
		}
	}
}

// mayGo reports whether a Machine may be deleted now.
func (d *decider) mayGo(c candidate) bool {
	set, inFlight := c.set, 1
	for _, other := range d.sets {
		inFlight += other.inFlight()
	}
	switch {
	case inFlight > d.maxInFlight, set.isShrinking():
		return false
	case !set.proven && (!c.machine.retried || c.machine.Ready) && !d.mayBeFirst(set):
		// Whether Machines of the current template work is not known yet.
		return false
	case d.maxSurge > 0 && c.machine.Ready:
		return set.working > set.Replicas-set.skipped
	}
	return true
}

// mayBeFirst reports whether a Machine may go although no Machine of its MachineSet's current template is available. With surge, one may only if no
// new one can be created before: Machines of an earlier template have all the places, and no other MachineSet gives one of them back.
func (d *decider) mayBeFirst(set *tally) bool {
	if !set.isFirst() {
		return false
	}
	if d.maxSurge == 0 {
		return true
	}
	marks := 0
	for _, other := range d.sets {
		marks += other.replacing
		if !other.Paused && (!other.isFirst() || other.proven && other.isReplacing()) {
			return false
		}
	}
	return set.replacing > 0 && (marks >= d.maxSurge || set.allReplacing())
}

// hasWork reports whether a Machine is to be replaced, or is being.
func (d *decider) hasWork() bool {
	return slices.ContainsFunc(d.sets, func(set *tally) bool { return set.deleting > 0 }) ||
		slices.ContainsFunc(d.candidates(), func(c candidate) bool { return !c.set.Paused })
}

// wake has the decision made again at a time; zero is never.
func (d *decider) wake(at time.Time) { d.decision.Wake = bounded.Earliest(d.decision.Wake, at) }
