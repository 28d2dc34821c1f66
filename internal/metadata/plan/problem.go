package plan

import (
	"cmp"

	"github.com/drover-io/drover/internal/ownership"
)

// Reason is why an entry is not written. The values are stable: users read them in events and in the output of kubectl drover.
type Reason string

// The reasons of a Problem.
const (
	// Invalid: the API server would reject the entry.
	Invalid Reason = "Invalid"
	// Duplicate: the taint is declared more than once.
	Duplicate Reason = "Duplicate"
	// Refused: the key belongs to the system.
	Refused Reason = "Refused"
	// InConflict: another writer set the key first, to another value.
	InConflict Reason = "Conflict"
	// Contended: another writer keeps changing the key; Drover waits before it writes it again.
	Contended Reason = "Fighting"
	// Unconfirmed: the record on the Node names a restricted entry that the record on the Machine does not; it stays.
	Unconfirmed Reason = "Unconfirmed"
	// BadRecord: the ownership record on the object cannot be read.
	BadRecord Reason = "BadRecord"
)

// Problem is a declared entry that is not written, or an annotation that cannot be used.
type Problem struct {
	Kind    ownership.Kind `json:"kind"`
	Key     string         `json:"key"`
	Reason  Reason         `json:"reason"`
	Message string         `json:"message"`
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}

// State is the state of a Machine and its Node.
type State string

// The states. Each Machine is in exactly one; the first that applies counts, in this order.
const (
	// Held: paused, the Node is shared by two Machines, or a key is contended.
	Held State = "held"
	// Conflicted: another writer set at least one declared key first.
	Conflicted State = "conflict"
	// RefusedState: at least one declared entry is the system's or invalid; all others are as declared.
	RefusedState State = "refused"
	// Pending: something is still to be written, or the Machine has no Node yet.
	Pending State = "pending"
	// Synced: everything is as declared.
	Synced State = "synced"
)

// States lists all states in the order in which they are shown.
var States = []State{Synced, Pending, Conflicted, RefusedState, Held}
