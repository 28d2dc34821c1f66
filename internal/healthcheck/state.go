package healthcheck

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what is remembered of one MachineHealthCheck between passes. It belongs to the one worker that has the MachineHealthCheck.
// Without it, as after a restart, the same is decided; an event may be told once more, and a lease may run out instead of being returned. What
// is remembered of owners is another matter: after a restart the back-off of one whose Machines keep failing begins at its first step.
type memory struct {
	uid types.UID
	// told tells that a pass has been finished.
	told     bool
	machines map[types.UID]*sighting
	// restricted is when RemediationRestricted was sent last, or was found to have been sent; zero while remediation is allowed.
	restricted time.Time
	// leases are the nodes whose lease was taken for a Machine that has not been deleted yet.
	leases map[types.UID]string
	// template is the remediation template that was found to be there.
	template string
	// waiting is what the metrics show.
	waiting map[string]int
}

// sighting is what was seen last of one Machine.
type sighting struct {
	// bad tells that it was unhealthy, due when it came to be remediated.
	bad bool
	due time.Time
	// obstacle is the reason and the event of what kept it from being remediated.
	obstacle string
	// idle is when it was seen last before anybody had begun to make it.
	idle time.Time
}

func newMemory(uid types.UID) *memory {
	return &memory{uid: uid, machines: map[types.UID]*sighting{}, leases: map[types.UID]string{}}
}

// of returns what is remembered of a Machine, and makes it.
func (m *memory) of(machine types.UID) *sighting {
	if m.machines[machine] == nil {
		m.machines[machine] = &sighting{}
	}
	return m.machines[machine]
}

// keep drops the Machines that are not looked at any more.
func (m *memory) keep(targets []target) {
	present := make(map[types.UID]bool, len(targets))
	for i := range targets {
		present[targets[i].machine.UID] = true
	}
	for uid := range m.machines {
		if !present[uid] {
			delete(m.machines, uid)
		}
	}
}

// owners remembers whose Machines fail while they start, for all MachineHealthChecks together.
type owners struct {
	mu     sync.Mutex
	rounds map[types.UID]round
}

func newOwners() *owners { return &owners{rounds: map[types.UID]round{}} }

// known returns what is remembered of the owners of some Machines.
func (o *owners) known(targets []target) map[types.UID]round {
	o.mu.Lock()
	defer o.mu.Unlock()
	found := map[types.UID]round{}
	if len(o.rounds) == 0 {
		return found
	}
	for i := range targets {
		owner := ownerOf(targets[i].machine)
		if r, ok := o.rounds[owner]; ok {
			found[owner] = r
		}
	}
	return found
}

// failed notes that a Machine that failed while it started has been remediated. Before is what was known of its owner.
func (o *owners) failed(owner types.UID, before round, created, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.rounds[owner] = before.after(created, now)
}

// recovered forgets owners whose Machines start again.
func (o *owners) recovered(owners []types.UID) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, owner := range owners {
		delete(o.rounds, owner)
	}
}

// expire forgets owners of which nothing was heard for longer than a start can take.
func (o *owners) expire(now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for owner, r := range o.rounds {
		if r.over(now, maxStartup) {
			delete(o.rounds, owner)
		}
	}
}

// maxStartup is longer than a start-up timeout that makes sense. An owner with a longer one begins anew after it.
const maxStartup = 24 * time.Hour
