package healthcheck

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// How long the next remediation waits when the replacements of an owner's Machines fail, too.
const (
	minRound = time.Minute
	maxRound = time.Hour
	// youth is how long after its start-up timeout a Machine that fails still counts as one that failed while it started. It is more than
	// the longest wait.
	youth = 2 * time.Hour
)

// round is what is known of an owner whose Machines fail while they start. All of them that fail together are one round; when one that
// was made since then fails, too, that is the next, and it waits for longer. Without that the pair of a MachineSet and a
// MachineHealthCheck makes and deletes Machines as fast as it can (openshift/enhancements PR 673).
type round struct {
	// failures is how many rounds there were in a row.
	failures int
	// began and last are the first and the last remediation of the present round.
	began, last time.Time
}

// wait is how long after its last remediation the next round begins.
func (r round) wait() time.Duration {
	wait := minRound
	for range r.failures - 1 {
		if wait *= 2; wait >= maxRound {
			return maxRound
		}
	}
	return wait
}

// holds tells until when a Machine has to wait; zero for not at all. One that had come up waits as well once a replacement has failed:
// there may be none for it.
func (r round) holds(started bool, created time.Time) time.Time {
	switch {
	case r.failures == 0, started && r.failures < 2, !started && r.covers(created):
		return time.Time{}
	}
	return r.last.Add(r.wait())
}

// covers tells whether a Machine is from before the round began, so that it is not a replacement that failed, too.
func (r round) covers(created time.Time) bool {
	return created.Before(r.began.Truncate(time.Second))
}

// after is the round once a Machine that failed while it started has been remediated.
func (r round) after(created, now time.Time) round {
	switch {
	case r.failures == 0:
		return round{failures: 1, began: now, last: now}
	case r.covers(created):
		r.last = now
		return r
	}
	return round{failures: r.failures + 1, began: now, last: now}
}

// over tells that nothing has failed for so long that it is forgotten.
func (r round) over(now time.Time, startup time.Duration) bool {
	return now.Sub(r.last) > youth+startup
}

// started tells whether a Machine that is to be remediated had come up before, so that its end is no failed start.
func (in *input) started(t *target, v verdict) bool {
	age := in.now.Sub(t.machine.CreationTimestamp.Time)
	return v.finding != foundLate && v.finding != foundFailed || age > startupTimeout(in.check)+youth
}

// history is what is known of the owners, from memory, and where that has nothing, as after a restart, from the Machines that are on
// their way out and never had a Node. An owner with a replacement that is healthy is forgotten; recovered lists those.
func (in *input) history() (rounds map[types.UID]round, recovered []types.UID) {
	rounds = in.remains()
	for owner, known := range in.rounds {
		rounds[owner] = known
	}
	for i := range in.targets {
		t := &in.targets[i]
		owner := ownerOf(t.machine)
		known, ok := rounds[owner]
		switch {
		case !ok:
		case known.over(in.now, startupTimeout(in.check)),
			!known.covers(t.machine.CreationTimestamp.Time) && in.judge(t).finding == foundHealthy:
			delete(rounds, owner)
			recovered = append(recovered, owner)
		}
	}
	return rounds, recovered
}

// remains reads rounds from the Machines that are being deleted.
func (in *input) remains() map[types.UID]round {
	rounds := map[types.UID]round{}
	for i := range in.targets {
		machine := in.targets[i].machine
		owner := ownerOf(machine)
		if owner == "" || machine.DeletionTimestamp == nil || nodeName(machine) != "" {
			continue
		}
		deleted := machine.DeletionTimestamp.Time
		if deleted.Sub(machine.CreationTimestamp.Time) > startupTimeout(in.check)+youth {
			continue
		}
		known := rounds[owner]
		known.failures = 1
		known.began = earliest(known.began, deleted)
		if deleted.After(known.last) {
			known.last = deleted
		}
		rounds[owner] = known
	}
	return rounds
}
