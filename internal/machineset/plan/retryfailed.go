package plan

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/machineapi"
)

// The backoff of replacements that fail again counts from the creation of the failed Machine.
const (
	minReplaceBackoff = time.Minute
	maxReplaceBackoff = time.Hour
)

// maxAttempts bounds the annotation, which anyone who may edit a Machine can write.
const maxAttempts = 1_000_000

// Attempts returns how many Machines failed in a row before this one replaced them; zero for an invalid annotation.
func Attempts(machine *machinev1beta1.Machine) int {
	attempts, err := strconv.Atoi(machine.Annotations[AttemptAnnotation])
	if err != nil || attempts < 0 {
		return 0
	}
	return min(attempts, maxAttempts)
}

// replace picks the failed Machine to replace next. Its pace depends on the cluster only: which Machines have failed, when they were created, and how
// many failed before them. A template whose Machines always fail costs one instance an hour.
func (d *Decision) replace(now time.Time) {
	var waiting []*Member
	streak, hold := 0, time.Time{}
	for i := range d.Members {
		m := &d.Members[i]
		attempts := Attempts(m.Machine)
		switch {
		case machineapi.IsInPhaseFailed(m.Machine):
			// A Machine that Drover may not delete delays the others all the same: it probably failed for the same reason.
			streak, hold = max(streak, attempts), latest(hold, due(m.Machine, attempts))
			if !m.OtherAPI && !Paused(m.Machine) {
				waiting = append(waiting, m)
			}
		case attempts > 0 && !m.Linked:
			// Whether the last replacement fails, too, is not known yet.
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
	d.Owed, d.Reached = 1, len(d.Members)-d.Surge
}

// due returns when a failed Machine may be replaced.
func due(machine *machinev1beta1.Machine, attempts int) time.Time {
	wait := maxReplaceBackoff
	// More attempts exceed the longest backoff, and would overflow.
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
