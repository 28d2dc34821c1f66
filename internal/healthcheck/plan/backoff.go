package plan

import (
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/machineapi"
)

// The delays of the next remediation when the replacements of an owner's Machines fail, too.
const (
	minDelay = time.Minute
	maxDelay = time.Hour
	// startWindow is how long after its startup timeout a failed Machine still counts as one whose start has failed. It is longer than the longest
	// delay.
	startWindow = 2 * time.Hour
)

// StartFailures counts the failed starts of an owner's Machines. All Machines that fail together are one round. If a Machine that was created since
// then fails, too, the next round begins, and it is delayed for longer. Otherwise a MachineSet and a MachineHealthCheck would create and delete
// Machines as fast as they can (openshift/enhancements PR 673). The zero value means no failures.
type StartFailures struct {
	// Rounds is how many rounds there have been in a row.
	Rounds int
	// First and Last are when the first and the last Machine of the current round were remediated.
	First, Last time.Time
}

// delay returns how long after the last remediation the next round starts.
func (f StartFailures) delay() time.Duration {
	delay := minDelay
	for range f.Rounds - 1 {
		if delay *= 2; delay >= maxDelay {
			return maxDelay
		}
	}
	return delay
}

// until returns when a Machine may be remediated; zero for now. After a replacement has failed, it delays Machines that had started, too: their
// replacements might fail as well.
func (f StartFailures) until(started bool, created time.Time) time.Time {
	switch {
	case f.Rounds == 0, started && f.Rounds < 2, !started && f.includes(created):
		return time.Time{}
	}
	return f.Last.Add(f.delay())
}

// includes reports whether a Machine was created before the round, so that it is not a replacement.
func (f StartFailures) includes(created time.Time) bool {
	return created.Before(f.First.Truncate(time.Second))
}

// Next returns the failures after one more Machine that failed to start has been remediated.
func (f StartFailures) Next(created, now time.Time) StartFailures {
	switch {
	case f.Rounds == 0:
		return StartFailures{Rounds: 1, First: now, Last: now}
	case f.includes(created):
		f.Last = now
		return f
	}
	return StartFailures{Rounds: f.Rounds + 1, First: now, Last: now}
}

// Expired reports whether nothing has failed for so long that the failures do not count any more.
func (f StartFailures) Expired(now time.Time, startupTimeout time.Duration) bool {
	return now.Sub(f.Last) > startWindow+startupTimeout
}

// started reports whether a Machine that needs remediation had started before, so that its failure is none of the start.
func (in *Input) started(t *Target, a Assessment) bool {
	age := in.Now.Sub(t.Machine.CreationTimestamp.Time)
	return a.Health != NodeStartupTimedOut && a.Health != Failed || age > startupTimeout(in.Check)+startWindow
}

// failures returns the failures of the owners. If the controller remembers none of an owner, as after a restart, the Machines show them: Machines
// that are being deleted and never had a Node. An owner with a healthy replacement has recovered.
func (in *Input) failures(assessments []Assessment) (failures map[types.UID]StartFailures, recovered []types.UID) {
	failures = in.observedFailures()
	for owner, known := range in.Failures {
		failures[owner] = known
	}
	for i := range in.Targets {
		machine := in.Targets[i].Machine
		owner := machineapi.ControllerUID(machine)
		known, ok := failures[owner]
		switch {
		case !ok:
		case known.Expired(in.Now, startupTimeout(in.Check)),
			!known.includes(machine.CreationTimestamp.Time) && assessments[i].Health == Healthy:
			delete(failures, owner)
			recovered = append(recovered, owner)
		}
	}
	return failures, recovered
}

// observedFailures returns the failures that the Machines show that are being deleted.
func (in *Input) observedFailures() map[types.UID]StartFailures {
	failures := map[types.UID]StartFailures{}
	for i := range in.Targets {
		machine := in.Targets[i].Machine
		owner := machineapi.ControllerUID(machine)
		if owner == "" || machine.DeletionTimestamp == nil || machineapi.NodeName(machine) != "" {
			continue
		}
		deleted := machine.DeletionTimestamp.Time
		if deleted.Sub(machine.CreationTimestamp.Time) > startupTimeout(in.Check)+startWindow {
			continue
		}
		known := failures[owner]
		known.Rounds = 1
		known.First = bounded.Earliest(known.First, deleted)
		if deleted.After(known.Last) {
			known.Last = deleted
		}
		failures[owner] = known
	}
	return failures
}
