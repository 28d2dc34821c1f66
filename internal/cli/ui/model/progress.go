package model

import (
	"github.com/drover-io/drover/internal/cli/view"
)

// Progress is the document of what Drover does now: roll-outs, replacements, drains and upgrades, what the budgets allow, and when disruptions may
// begin.
type Progress struct {
	view.TypeMeta
	Items []Activity `json:"items"`
	// Omitted is how many more there are.
	Omitted int      `json:"omitted,omitempty"`
	Budgets []Budget `json:"budgets"`
	// OmittedBudgets is how many more budgets there are.
	OmittedBudgets int      `json:"omittedBudgets,omitempty"`
	Calendar       Calendar `json:"calendar"`
}

// ActivityType says what is done.
type ActivityType string

// The types of activities.
const (
	// RollOut: metadata of a NodeGroup or a MachineSet reaches its nodes.
	RollOut ActivityType = "RollOut"
	// Replacement: a NodeGroup replaces the outdated Machines of a MachineSet.
	Replacement ActivityType = "Replacement"
	// Drain: a NodeMaintenance drains its node.
	Drain ActivityType = "Drain"
	// Upgrade: a MutexRunConfig upgrades its nodes.
	Upgrade ActivityType = "Upgrade"
)

// ActivityState says whether an activity goes on.
type ActivityState string

// The states of an activity, the worst first.
const (
	// ActivityStopped: it does not continue unless a person acts.
	ActivityStopped ActivityState = "Stopped"
	// ActivityWaiting: something in the cluster, or the time, has it continue.
	ActivityWaiting ActivityState = "Waiting"
	// ActivityRunning: it goes on.
	ActivityRunning ActivityState = "Running"
	// ActivitySuspended: a user has paused it.
	ActivitySuspended ActivityState = "Suspended"
	// ActivityDone: there is nothing more to do.
	ActivityDone ActivityState = "Done"
)

// Unit is what an activity counts.
type Unit string

// The units.
const (
	UnitNodes    Unit = "nodes"
	UnitMachines Unit = "machines"
	UnitPercent  Unit = "percent"
)

// Activity is something that Drover does over time, and how far it is.
type Activity struct {
	// ID is what no other activity has.
	ID        string       `json:"id"`
	Type      ActivityType `json:"type"`
	Kind      string       `json:"kind"`
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name"`
	// Resource is the object as kubectl takes it: resource.group/name.
	Resource string `json:"resource"`
	// Node is the node of a drain.
	Node  string        `json:"node,omitempty"`
	State ActivityState `json:"state"`
	// Message is what the command line says: kubectl drover rollout status, maintenance list or upgrade status.
	Message string `json:"message,omitempty"`
	// Done, Waiting and Failed are parts of Total. What Total lacks in them is in progress.
	Unit    Unit `json:"unit"`
	Total   int  `json:"total"`
	Done    int  `json:"done"`
	Waiting int  `json:"waiting"`
	Failed  int  `json:"failed"`
	// Wave is the last wave that has begun, of Waves. They are zero where there are no waves, or where no status has them (MachineSets).
	Wave  int `json:"wave,omitempty"`
	Waves int `json:"waves,omitempty"`
	// Since is when the activity began. PerHour is how many units were done in an hour since then. ExpectedEnd is when the rest is done at this speed.
	// They are empty where the cluster does not say when the activity began, ExpectedEnd also while the activity does not go on.
	Since       string  `json:"since,omitempty"`
	PerHour     float64 `json:"perHour,omitempty"`
	ExpectedEnd string  `json:"expectedEnd,omitempty"`
	// Maintenance is a drain's item of `kubectl drover maintenance list -o json`, Upgrade an upgrade's item of `kubectl drover upgrade status -o json`.
	Maintenance *view.MaintenanceItem `json:"maintenance,omitempty"`
	Upgrade     *view.UpgradeStatus   `json:"upgrade,omitempty"`
}

// Key returns the activity's ID.
func (a Activity) Key() string { return a.ID }

// Budget is how many nodes of a NodeGroup may be unavailable, and which are.
type Budget struct {
	NodeGroup string `json:"nodeGroup"`
	// MaxUnavailable is spec.disruption.maxUnavailable, such as 10%. Limit is that as a number; nil before Drover has counted.
	MaxUnavailable string `json:"maxUnavailable"`
	Limit          *int32 `json:"limit,omitempty"`
	Nodes          int32  `json:"nodes"`
	Unavailable    int32  `json:"unavailable"`
	// Holders are the nodes that Drover disrupts, and Omitted is how many more there are. Others is how many are unavailable without Drover.
	Holders []Holder `json:"holders"`
	Omitted int      `json:"omitted,omitempty"`
	Others  int32    `json:"others"`
	// Open reports whether disruptions may begin now, Changes when that changes, and Closed why they may not.
	Open    bool   `json:"open"`
	Changes string `json:"changes,omitempty"`
	Closed  string `json:"closed,omitempty"`
}

// Key returns the name of the NodeGroup.
func (b Budget) Key() string { return b.NodeGroup }

// Holder is a node that a capability disrupts.
type Holder struct {
	// Node is a node's name, or Machine/NAMESPACE/NAME for a Machine without a node.
	Node       string `json:"node"`
	Capability string `json:"capability"`
	// Object is what the node is disrupted for, as kind/name or kind/namespace/name.
	Object string `json:"object,omitempty"`
	Since  string `json:"since,omitempty"`
}

// Calendar is when disruptions may begin, for the objects that have windows or freezes.
type Calendar struct {
	From string        `json:"from"`
	To   string        `json:"to"`
	Rows []CalendarRow `json:"rows"`
	// Omitted is how many more rows there are.
	Omitted int `json:"omitted,omitempty"`
}

// CalendarRow is the calendar of one NodeGroup or MutexRunConfig.
type CalendarRow struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Error is why the windows cannot be read. Then they are closed.
	Error string `json:"error,omitempty"`
	// Open are the intervals in which disruptions may begin: in a window and not in a freeze, the first ones first. Until is the end of the last known
	// one, if there are more than a row has; empty if all are known.
	Open  []Interval `json:"open"`
	Until string     `json:"until,omitempty"`
	// Freezes are the freezes of the NodeGroup that concern the calendar.
	Freezes []Interval `json:"freezes,omitempty"`
}

// Interval is a part of a calendar. From is in it, To is not.
type Interval struct {
	From   string `json:"from"`
	To     string `json:"to"`
	Reason string `json:"reason,omitempty"`
}
