package healthcheck

import (
	"cmp"
	"maps"
	"sync"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
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

// maxInterval is longer than any interval between remediations that makes sense. Starts that are longer ago are forgotten.
const maxInterval = 24 * time.Hour

// byOwner has values of the owners of Machines, for all MachineHealthChecks together.
type byOwner[T any] struct {
	mu     sync.Mutex
	values map[types.UID]T
}

func newByOwner[T any]() *byOwner[T] { return &byOwner[T]{values: map[types.UID]T{}} }

// of returns the values of some owners.
func (b *byOwner[T]) of(owners map[types.UID]bool) map[types.UID]T {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := map[types.UID]T{}
	for owner := range owners {
		if value, ok := b.values[owner]; ok {
			found[owner] = value
		}
	}
	return found
}

// set sets the value of an owner.
func (b *byOwner[T]) set(owner types.UID, value T) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.values[owner] = value
}

// remove removes the values that meet a condition.
func (b *byOwner[T]) remove(isOver func(owner types.UID, value T) bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	maps.DeleteFunc(b.values, isOver)
}

// ownersOf returns the owners of some Machines. For Machines without an owner, the MachineHealthCheck counts as the owner.
func ownersOf(check types.UID, targets []plan.Target) map[types.UID]bool {
	owners := map[types.UID]bool{}
	for i := range targets {
		owners[ownerOf(check, targets[i].Machine)] = true
	}
	return owners
}

func ownerOf(check types.UID, machine *machinev1beta1.Machine) types.UID {
	return cmp.Or(machineapi.ControllerUID(machine), check)
}
