package ownership

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
)

// Keys is a set of keys. It is written as a sorted JSON list, so equal sets have equal text. A nil Keys is empty and may be read.
type Keys map[string]struct{}

// NewKeys returns a set of the given keys.
func NewKeys(keys ...string) Keys {
	set := make(Keys, len(keys))
	for _, key := range keys {
		set.Add(key)
	}
	return set
}

// KeysOf returns a set of a map's keys.
func KeysOf[V any](entries map[string]V) Keys {
	set := make(Keys, len(entries))
	for key := range entries {
		set.Add(key)
	}
	return set
}

// Add adds a key to the set.
func (k Keys) Add(key string) { k[key] = struct{}{} }

// Has reports whether a key is in the set.
func (k Keys) Has(key string) bool { _, ok := k[key]; return ok }

// Sorted returns the keys in order.
func (k Keys) Sorted() []string { return SortedKeys(k) }

// SortedKeys returns the keys of a map in order; nil for none.
func SortedKeys[V any](entries map[string]V) []string {
	if len(entries) == 0 {
		return nil
	}
	keys := make([]string, 0, len(entries))
	for key := range entries {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// Equal reports whether both sets contain the same keys; nil and empty are equal.
func (k Keys) Equal(other Keys) bool {
	if len(k) != len(other) {
		return false
	}
	for key := range k {
		if !other.Has(key) {
			return false
		}
	}
	return true
}

// Len returns the number of keys.
func (k Keys) Len() int { return len(k) }

// Clone returns a copy, which may be changed.
func (k Keys) Clone() Keys {
	out := make(Keys, len(k))
	maps.Copy(out, k)
	return out
}

// Minus returns the set of the keys that are not in other. It may be the set itself: a set that may be shared is cloned before it is changed.
func (k Keys) Minus(other Keys) Keys {
	if len(k) == 0 || len(other) == 0 {
		return k
	}
	return k.filter(func(key string) bool { return !other.Has(key) })
}

// And returns the set of the keys that are in both. It may be one of them if that is empty.
func (k Keys) And(other Keys) Keys { return k.filter(other.Has) }

// Union returns the set of the keys of both. It may be one of them if the other is empty.
func (k Keys) Union(other Keys) Keys {
	switch {
	case len(other) == 0:
		return k
	case len(k) == 0:
		return other
	}
	out := make(Keys, len(k)+len(other))
	maps.Copy(out, k)
	maps.Copy(out, other)
	return out
}

func (k Keys) filter(keep func(string) bool) Keys {
	if len(k) == 0 {
		return k
	}
	out := Keys{}
	for key := range k {
		if keep(key) {
			out.Add(key)
		}
	}
	return out
}

// MarshalJSON writes the set as a sorted list.
func (k Keys) MarshalJSON() ([]byte, error) { return json.Marshal(k.Sorted()) }

// UnmarshalJSON reads a list; repeated keys collapse and empty ones are dropped.
func (k *Keys) UnmarshalJSON(text []byte) error {
	var list []string
	if err := json.Unmarshal(text, &list); err != nil {
		return err
	}
	*k = NewKeys(list...)
	delete(*k, "")
	return nil
}

// ParseCustomLabels reads the value of AnnotationCustomLabels: keys joined by commas, in any order. Blanks around a key and empty
// parts are dropped, since people edit it by hand.
func ParseCustomLabels(text string) Keys {
	keys := Keys{}
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			keys.Add(part)
		}
	}
	return keys
}

// FormatCustomLabels writes keys as the value of AnnotationCustomLabels, sorted.
func FormatCustomLabels(keys Keys) string { return strings.Join(keys.Sorted(), ",") }
