package plan

import (
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
)

// Annotations of a MachineHealthCheck that limit its remediations. They go over the configuration.
const (
	// MaxInFlightAnnotation is how many remediations may be in flight: a number, or a percentage of the expected Machines.
	MaxInFlightAnnotation = "drover.dev/max-remediations-in-flight"
	// IntervalAnnotation is the shortest time between two remediations.
	IntervalAnnotation = "drover.dev/remediation-interval"
)

// RequestedAnnotation of a Machine is when ExternalAnnotation was set. It is written together with that, and means nothing without it.
const RequestedAnnotation = machineapi.RequestedAnnotation

const (
	// progressDeadline is how long a replacement, or an external remediation, counts as in flight. One that takes longer may never end, and must not
	// block the others for ever.
	progressDeadline = 30 * time.Minute
	// recheckInFlight is how soon remediations in flight are counted again. Some of what ends one has no event for the MachineHealthCheck: a
	// MachineSet shrinks, or a Machine becomes Ready that only another MachineHealthCheck selects.
	recheckInFlight = 15 * time.Second
	// maxSkew is how far the clock of the API server may be ahead of Drover's.
	maxSkew = time.Minute
)

// Limits limit how fast Machines are remediated. The zero value limits nothing.
type Limits struct {
	// MaxInFlight is how many remediations may be in flight: a number or a percentage; nil for any number.
	MaxInFlight *intstr.IntOrString
	// MinInterval is the shortest time between two starts.
	MinInterval time.Duration
}

// Any reports whether there is a limit.
func (l Limits) Any() bool { return l.MaxInFlight != nil || l.MinInterval > 0 }

// limitsOf returns the limits of a MachineHealthCheck: its annotations, and the defaults where it has none. It returns an error for an annotation
// that is invalid.
func limitsOf(check *machinev1beta1.MachineHealthCheck, defaults Limits) (Limits, error) {
	limits := defaults
	if text, ok := check.Annotations[MaxInFlightAnnotation]; ok {
		value := intstr.FromString(text)
		if _, err := bounded.Scaled(value, 1); err != nil {
			return Limits{}, fmt.Errorf("annotation %s: %w", MaxInFlightAnnotation, err)
		}
		limits.MaxInFlight = &value
	}
	if text, ok := check.Annotations[IntervalAnnotation]; ok {
		interval, err := time.ParseDuration(text)
		if err != nil || interval < 0 {
			return Limits{}, fmt.Errorf("annotation %s: %q is not a duration of at least 0s", IntervalAnnotation, text)
		}
		limits.MinInterval = bounded.Duration(interval)
	}
	return limits, nil
}

// Group is a set of Machines over which the remediations in flight are counted, with the limits of the set. That of a MachineHealthCheck consists of
// the Machines that it selects, and of all others of their owners: two MachineHealthChecks with Machines of the same MachineSet see the same
// remediations. A Machine can be in several groups; then all of their limits apply.
type Group struct {
	Limits   Limits
	Machines []Target
	// Selected is of how many of them, the first ones, a percentage is one.
	Selected int
	// Replicas are how many Machines the MachineSets want, by their UID. Of other owners the number is not known.
	Replicas map[types.UID]int
	// LastStart is when this controller last started a remediation in the group; zero for never. It has run since ControllerStart.
	LastStart, ControllerStart time.Time
}

// InFlight are the remediations in flight of a group, and what its limits leave for more.
type InFlight struct {
	// Count is how many there are; Max is how many there may be, -1 for any number.
	Count, Max int
	// Until is when Count falls without an event; zero for unknown.
	Until time.Time
	// LastStart is when the last one started, and NextStart when another one may; zero where there is no interval.
	LastStart, NextStart time.Time

	// counted are the Machines that are in flight themselves: to remediate one of them does not add to Count.
	counted map[types.UID]bool
}

// inFlight counts the remediations in flight, from their start until the Node of the replacement is Ready.
//
// All of it is in the cluster, so that a new leader counts the same. The Machine that was deleted is not what counts: it can be gone long before its
// replacement is Ready, or be drained long after. What remains of a remediation until its end is a gap in the MachineSet, so these count:
//
//   - every Machine that the MachineSet has fewer than it wants, those aside that are being deleted: the replacement has not been created yet. This
//     ends when replicas shrink, and has no deadline: another deletion would not help a MachineSet that cannot create Machines.
//   - every Machine that has never had a Ready Node, until the deadline. A Machine that a user adds looks the same,
//     counts as well, and ends in the same way.
//   - every Machine that has been handed over for external remediation, until the request is gone, or the deadline.
//
// A Machine whose Node is not Ready any more does not count: it waits for its remediation.
func (g *Group) inFlight(now time.Time) InFlight {
	f := InFlight{Max: -1, counted: map[types.UID]bool{}}
	count := func(t *Target, end time.Time) {
		if end.After(now) {
			f.Count++
			f.counted[t.Machine.UID] = true
			f.Until = earliest(f.Until, end)
		}
	}
	present, pending := map[types.UID]int{}, map[types.UID]int{}
	for i := range g.Machines {
		t := &g.Machines[i]
		owner := machineapi.ControllerUID(t.Machine)
		_, known := g.Replicas[owner]
		switch {
		case !t.isDeleted():
			present[owner]++
			count(t, t.inFlightUntil(now))
		case !known && owner != "":
			// Whether the replacement has been created is not known: each of the two counts.
			count(t, t.deletedAt(now).Add(progressDeadline))
		case t.Machine.DeletionTimestamp == nil:
			pending[owner]++
		}
	}
	missing := map[types.UID]int{}
	for owner, replicas := range g.Replicas {
		missing[owner] = max(0, replicas-present[owner])
		// The cache does not show these deletions, so it may not show either that the MachineSet itself has deleted those that are too many.
		f.Count += max(missing[owner], pending[owner])
	}
	if g.Limits.MaxInFlight != nil {
		// limitsOf, and the validation of the configuration, have accepted it.
		f.Max, _ = bounded.Scaled(*g.Limits.MaxInFlight, g.total(missing))
	}
	if g.Limits.MinInterval > 0 {
		if f.LastStart = g.lastStart(now); !f.LastStart.IsZero() {
			f.NextStart = f.LastStart.Add(g.Limits.MinInterval)
		}
	}
	return f
}

// total returns of how many Machines a percentage is one. A Machine that is being deleted counts only while its replacement is missing: both together
// would raise the limit with each remediation.
func (g *Group) total(missing map[types.UID]int) (total int) {
	for i := range g.Machines[:g.Selected] {
		t := &g.Machines[i]
		owner := machineapi.ControllerUID(t.Machine)
		switch {
		case !t.isDeleted():
			total++
		case missing[owner] > 0:
			missing[owner]--
			total++
		}
	}
	return total
}

// lastStart returns when the last remediation started. The previous leader has not recorded which of its changes were remediations: of its time,
// every creation, deletion and request of a Machine counts as one.
func (g *Group) lastStart(now time.Time) time.Time {
	last := g.LastStart
	for i := range g.Machines {
		t := &g.Machines[i]
		times := []time.Time{t.Machine.CreationTimestamp.Time, t.requestedAt(now)}
		if t.Machine.DeletionTimestamp != nil {
			times = append(times, t.Machine.DeletionTimestamp.Time)
		}
		for _, at := range times {
			if at.After(last) && !at.After(g.ControllerStart.Add(maxSkew)) {
				last = at
			}
		}
	}
	return last
}

// admit returns why a remediation may not start, with so many others that are about to; empty when it may. needs reports that it adds to those in
// flight.
func (f *InFlight) admit(r *Remediation, others int, now time.Time) (message string, until time.Time, needs bool) {
	if f.NextStart.After(now) {
		return fmt.Sprintf("the last remediation started at %s; the next one may at %s",
			f.LastStart.UTC().Format(time.RFC3339), f.NextStart.UTC().Format(time.RFC3339)), f.NextStart, false
	}
	count := f.Count
	if needs = !f.counted[r.Machine.UID]; needs {
		count += 1 + others
	}
	if f.Max >= 0 && count > f.Max {
		return fmt.Sprintf("%d remediations are in flight, and at most %d may be", f.Count, f.Max), earliest(now.Add(recheckInFlight), f.Until), needs
	}
	return "", time.Time{}, needs
}

// IsLimited reports whether limits apply to the remediations.
func (d *Decision) IsLimited() bool { return len(d.InFlight) > 0 }

// Startable sorts the remediations, those aside that have been tried: the first ones may start, in this order, and the others exceed a limit.
func (d *Decision) Startable(tried map[types.UID]bool) (startable []*Remediation, limited []Blocked) {
	others := make([]int, len(d.InFlight))
	for i := range d.Remediations {
		r := &d.Remediations[i]
		if tried[r.Machine.UID] {
			continue
		}
		b, needs := Blocked{Machine: r.Machine}, make([]int, len(d.InFlight))
		for j := range d.InFlight {
			message, until, more := d.InFlight[j].admit(r, others[j], d.now)
			if message != "" && b.Reason == "" {
				b.Reason, b.Message, b.Until = ReasonLimited, message, until
			}
			if more {
				needs[j] = 1
			}
		}
		if b.Reason != "" {
			limited = append(limited, b)
			continue
		}
		startable = append(startable, r)
		for j := range needs {
			others[j] += needs[j]
		}
	}
	return startable, limited
}

// isDeleted reports whether the Machine is being deleted, also when the cache does not show it yet.
func (t *Target) isDeleted() bool { return t.Machine.DeletionTimestamp != nil || t.Deleted }

// deletedAt returns when the Machine was deleted; now when the cache does not show it yet.
func (t *Target) deletedAt(now time.Time) time.Time {
	if t.Machine.DeletionTimestamp != nil {
		return t.Machine.DeletionTimestamp.Time
	}
	return now
}

// inFlightUntil returns until when a Machine that is not being deleted counts as in flight; zero when it does not.
func (t *Target) inFlightUntil(now time.Time) time.Time {
	var until time.Time
	if at := t.requestedAt(now); !at.IsZero() {
		until = at.Add(progressDeadline)
	}
	if end := t.Machine.CreationTimestamp.Add(progressDeadline); t.isStarting() && end.After(until) {
		until = end
	}
	return until
}

// isStarting reports whether the Machine has never had a Ready Node. The cache may show the Machine with its Node before the Node itself.
func (t *Target) isStarting() bool {
	return machineapi.NodeName(t.Machine) == "" || machineapi.IsNodeStarting(t.Machine) && (t.Node == nil || !isReady(t.Node))
}

// requestedAt returns when external remediation was requested; zero for never, and for a request that is not Drover's.
func (t *Target) requestedAt(now time.Time) time.Time {
	switch {
	case t.Stale:
		return now
	case t.Requested:
		return t.RequestedAt
	case !has(t.Machine, ExternalAnnotation):
		return time.Time{}
	}
	at, err := time.Parse(time.RFC3339, t.Machine.Annotations[RequestedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

func isReady(node *corev1.Node) bool {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
