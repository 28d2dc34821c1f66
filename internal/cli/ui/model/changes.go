package model

// Item is a value of a list, with a key that no other value of the list has.
type Item interface {
	comparable
	Key() string
}

// Changes are how a list becomes another one.
type Changes[T Item] struct {
	// Full reports that Set is the whole list.
	Full bool `json:"full,omitempty"`
	// Set are the new values and those that have changed, Gone the keys of the values that are not there any more.
	Set  []T      `json:"set"`
	Gone []string `json:"gone,omitempty"`
}

// Any reports whether there is a change.
func (c *Changes[T]) Any() bool { return c.Full || len(c.Set)+len(c.Gone) > 0 }

// ChangesOf returns how one list becomes another.
func ChangesOf[T Item](from, to []T) Changes[T] {
	out := Changes[T]{Set: []T{}}
	before := make(map[string]T, len(from))
	for _, value := range from {
		before[value.Key()] = value
	}
	for _, value := range to {
		if old, found := before[value.Key()]; !found || old != value {
			out.Set = append(out.Set, value)
		}
		delete(before, value.Key())
	}
	for key := range before {
		out.Gone = append(out.Gone, key)
	}
	return out
}
