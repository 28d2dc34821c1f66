package ui

// Moment is an entry of the time line of a node.
type Moment struct {
	// At is when it happened, or began. Until is when it ended; empty for what has no length, and for what goes on.
	At    string `json:"at"`
	Until string `json:"until,omitempty"`
	// Continues reports that it goes on.
	Continues bool       `json:"continues,omitempty"`
	Type      MomentType `json:"type"`
	Warning   bool       `json:"warning,omitempty"`
	// Object is what it is about, as Kind/name.
	Object  string `json:"object"`
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	Source  string `json:"source,omitempty"`
	// Count is how often an event occurred until Until; zero for others.
	Count int32 `json:"count,omitempty"`
}

// MomentType says what a moment is from.
type MomentType string

// The types of moments.
const (
	// MomentEvent is an event of the Node, its Machine or its NodeMaintenance.
	MomentEvent MomentType = "Event"
	// MomentCondition is when a condition of one of them changed last.
	MomentCondition MomentType = "Condition"
	// MomentDisruption is a disruption: a maintenance, an upgrade, a lease, a reservation of a budget, a Machine that is being deleted.
	MomentDisruption MomentType = "Disruption"
	// MomentCreation is when the Node or its Machine was created.
	MomentCreation MomentType = "Creation"
)
