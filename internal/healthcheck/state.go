package healthcheck

import (
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
)

// state is what the controller knows of a MachineHealthCheck between reconciliations. Without it, as after a restart, it decides the same; it may
// emit an event again.
type state struct {
	// reported reports that a reconciliation has been completed since the controller started.
	reported bool
	machines map[types.UID]*machineState
	// restricted is when EventRestricted was last emitted, by this controller or its predecessor; zero while remediation is allowed.
	restricted time.Time
	// template is the remediation template that was read last.
	template string
	// waiting is how many Machines the metrics show as waiting, by reason.
	waiting map[string]int
}

// machineState is what the controller knows of one Machine.
type machineState struct {
	// unhealthy reports that it was unhealthy; due is when the controller first found that it needs remediation.
	unhealthy bool
	due       time.Time
	// blocked is why it was blocked: the reason and the event.
	blocked string
	// unprovisioned is when it was last seen before its provisioning began.
	unprovisioned time.Time
}

func newState() *state { return &state{machines: map[types.UID]*machineState{}} }

// machine returns the state of a Machine.
func (s *state) machine(uid types.UID) *machineState {
	if s.machines[uid] == nil {
		s.machines[uid] = &machineState{}
	}
	return s.machines[uid]
}

// prune removes the states of Machines that are not targets any more.
func (s *state) prune(targets []plan.Target) {
	present := make(map[types.UID]bool, len(targets))
	for i := range targets {
		present[targets[i].Machine.UID] = true
	}
	maps.DeleteFunc(s.machines, func(uid types.UID, _ *machineState) bool { return !present[uid] })
}

// maxStartupTimeout is longer than any startup timeout that makes sense. The failures of an owner with a longer one are forgotten after it.
const maxStartupTimeout = 24 * time.Hour

// failures are the failed starts of the owners of Machines, for all MachineHealthChecks together. After a restart the backoff starts anew.
type failures struct {
	mu     sync.Mutex
	owners map[types.UID]plan.StartFailures
}

func newFailures() *failures { return &failures{owners: map[types.UID]plan.StartFailures{}} }

// of returns the failures of the owners of some Machines.
func (f *failures) of(targets []plan.Target) map[types.UID]plan.StartFailures {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := map[types.UID]plan.StartFailures{}
	if len(f.owners) == 0 {
		return found
	}
	for i := range targets {
		owner := machineapi.ControllerUID(targets[i].Machine)
		if known, ok := f.owners[owner]; ok {
			found[owner] = known
		}
	}
	return found
}

// record sets the failures of an owner.
func (f *failures) record(owner types.UID, known plan.StartFailures) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.owners[owner] = known
}

// forget removes owners whose Machines start again.
func (f *failures) forget(owners []types.UID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, owner := range owners {
		delete(f.owners, owner)
	}
}

// expire removes failures that do not count any more.
func (f *failures) expire(now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.owners, func(_ types.UID, known plan.StartFailures) bool { return known.Expired(now, maxStartupTimeout) })
}
