package status

// EventDoc describes one kind of event for docs/events.md.
type EventDoc struct {
	// Reason is the event's reason, a stable word.
	Reason string
	// Type is Normal or Warning.
	Type string
	// On is the kind of the object that carries the event.
	On string
	// When says which transition it marks.
	When string
}

// ConditionDoc describes one reason of a condition for docs/.
type ConditionDoc struct {
	// On is the kind of the object that has the condition; several are separated by commas.
	On string
	// Type is the condition's type, Reason one of its reasons.
	Type, Reason string
	// When says what is so.
	When string
}

// ConditionsOn sets the kind of the object in descriptions of conditions, and returns them.
func ConditionsOn(kind string, docs []ConditionDoc) []ConditionDoc {
	for i := range docs {
		docs[i].On = kind
	}
	return docs
}
