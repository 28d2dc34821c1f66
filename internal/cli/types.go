package cli

import (
	"time"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// APIVersion is the version of everything that `-o json` and `-o yaml` print. Fields are added to it, never changed or taken away.
const APIVersion = "kubectl.drover.dev/v1alpha1"

// TypeMeta says what a printed document is.
type TypeMeta struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

// PlanList is what `plan` prints: what would change, by pool.
type PlanList struct {
	TypeMeta
	Items []PoolPlan `json:"items"`
	// Notes say what is odd about whole objects.
	Notes   []string `json:"notes,omitempty"`
	Summary Summary  `json:"summary"`
}

// PoolPlan is what would change in one pool. Machines without a MachineSet make a pool without a name.
type PoolPlan struct {
	Namespace  string           `json:"namespace,omitempty"`
	Name       string           `json:"name,omitempty"`
	Generation int64            `json:"generation,omitempty"`
	Policy     ownership.Policy `json:"policy,omitempty"`
	Paused     bool             `json:"paused"`
	// Problems are the pool's own: entries of its template that are not written anywhere.
	Problems []plan.Problem `json:"problems,omitempty"`
	// Groups are the Machines for which something is to be said, those with an equal list of changes together.
	Groups  []Group `json:"groups"`
	Summary Summary `json:"summary"`
}

// Group are Machines for which the same is to be done and said.
type Group struct {
	State  plan.State `json:"state"`
	Reason string     `json:"reason,omitempty"`
	// Drift tells that the Nodes were as declared before and somebody changed them.
	Drift bool `json:"drift,omitempty"`
	// Nodes are the names of their Nodes; Machines those of the Machines, in the same order. Machines may be more: without a Node.
	Nodes    []string       `json:"nodes"`
	Machines []string       `json:"machines"`
	Changes  []Line         `json:"changes"`
	Problems []plan.Problem `json:"problems,omitempty"`
}

// Operation is what happens to one entry.
type Operation string

// The operations of a Line.
const (
	// Add puts an entry that is not there.
	Add Operation = "add"
	// Change gives an entry another value.
	Change Operation = "change"
	// Remove takes an entry away.
	Remove Operation = "remove"
	// Record writes down that an entry, which stays as it is, is Drover's.
	Record Operation = "record"
	// Forget writes down that an entry, which stays as it is, is no longer Drover's.
	Forget Operation = "forget"
)

// Line is one change to one entry of a Machine or Node.
type Line struct {
	Operation Operation `json:"operation"`
	// Object is Machine or Node.
	Object string         `json:"object"`
	Kind   ownership.Kind `json:"kind"`
	// Key of a taint is "key:Effect".
	Key string `json:"key"`
	// From and To are the values; nil for none.
	From *string `json:"from,omitempty"`
	To   *string `json:"to,omitempty"`
}

// Summary counts Machines by state, and what would be written. The states add up to Machines.
type Summary struct {
	Machines int `json:"machines"`
	Nodes    int `json:"nodes"`
	Synced   int `json:"synced"`
	Pending  int `json:"pending"`
	Conflict int `json:"conflict"`
	Refused  int `json:"refused"`
	Held     int `json:"held"`
	// Paused are those of Held that somebody paused.
	Paused int `json:"paused"`
	// ToWrite are the Machines of any state for which something is to be written; MachineWrites and NodeWrites the patches.
	ToWrite       int `json:"toWrite"`
	MachineWrites int `json:"machineWrites"`
	NodeWrites    int `json:"nodeWrites"`
}

// PoolStatusList is what `status` prints.
type PoolStatusList struct {
	TypeMeta
	Items []PoolStatus `json:"items"`
	Notes []string     `json:"notes,omitempty"`
}

// PoolStatus is how far one pool is.
type PoolStatus struct {
	Namespace  string           `json:"namespace,omitempty"`
	Name       string           `json:"name,omitempty"`
	Generation int64            `json:"generation,omitempty"`
	Policy     ownership.Policy `json:"policy,omitempty"`
	Paused     bool             `json:"paused"`
	Created    *time.Time       `json:"created,omitempty"`
	// Declared counts the entries of the template by kind.
	Declared map[ownership.Kind]int `json:"declared,omitempty"`
	Problems []plan.Problem         `json:"problems,omitempty"`
	Summary  Summary                `json:"summary"`
}
