package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
)

// Back-off of replacements that fail again, from the creation of the one that failed.
const (
	minReplaceBackoff = time.Minute
	maxReplaceBackoff = time.Hour
)

// maxAttempts is the highest number of attempts that is counted: anyone who may edit a Machine writes the annotation.
const maxAttempts = 1_000_000

// Attempts reads how many Machines failed in a row before this one took their place. What cannot be read counts as none.
func Attempts(machine *machinev1beta1.Machine) int {
	attempts, err := strconv.Atoi(machine.Annotations[AttemptAnnotation])
	if err != nil || attempts < 0 {
		return 0
	}
	return min(attempts, maxAttempts)
}

// replace picks the failed Machine that is replaced next. What paces it is all in the cluster: which Machines have failed, when they
// were created, and how many failed before them. So one Machine that fails at once, for ever, costs one instance an hour.
func (d *Decision) replace(now time.Time) {
	var waiting []*Member
	streak, hold := 0, time.Time{}
	for i := range d.Members {
		m := &d.Members[i]
		attempts := Attempts(m.Machine)
		switch {
		case inPhaseFailed(m.Machine):
			// A Machine that is not to be touched holds the others up no less: it failed for the same reason, as like as not.
			streak, hold = max(streak, attempts), latest(hold, due(m.Machine, attempts))
			if !m.Elsewhere && !Paused(m.Machine) {
				waiting = append(waiting, m)
			}
		case attempts > 0 && !m.Linked:
			// The last replacement has yet to show whether it is any better.
			hold = latest(hold, m.Machine.CreationTimestamp.Add(maxReplaceBackoff))
		}
	}
	if len(waiting) == 0 {
		return
	}
	if hold.After(now) {
		d.wakeAt(hold)
		return
	}
	victim := slices.MinFunc(waiting, func(a, b *Member) int {
		return cmp.Or(
			cmp.Compare(Attempts(a.Machine), Attempts(b.Machine)),
			a.Machine.CreationTimestamp.Compare(b.Machine.CreationTimestamp.Time),
			cmp.Compare(a.Machine.Name, b.Machine.Name),
		)
	})
	d.Replace, d.Attempt = victim.Machine, streak+1
}

// due is when a failed Machine may be replaced.
func due(machine *machinev1beta1.Machine, attempts int) time.Time {
	wait := maxReplaceBackoff
	// Beyond these the doubling is over, and would overflow before long.
	if attempts < 6 {
		wait = min(minReplaceBackoff<<attempts, maxReplaceBackoff)
	}
	return machine.CreationTimestamp.Add(wait)
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
