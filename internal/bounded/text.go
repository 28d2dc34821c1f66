package bounded

import (
	"fmt"
	"strings"
)

// Text returns a text of at most limit bytes as it is. In the place of a longer one it returns a short text that says how long it is, which the
// parser of any value shows in its error.
func Text(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return fmt.Sprintf("(%d bytes, of which at most %d are read)", len(text), limit)
}

// MaxAnnotation is the number of bytes beyond which the value of an annotation cannot be valid, unless its reader names another bound.
const MaxAnnotation = 1 << 10

// Annotations returns keys of annotations that a cache keeps, each with MaxAnnotation.
func Annotations(keys ...string) map[string]int {
	limits := make(map[string]int, len(keys))
	for _, key := range keys {
		limits[key] = MaxAnnotation
	}
	return limits
}

// Beginning returns a text of at most limit bytes as it is. A longer one is cut at a boundary of characters, and ends with three dots.
func Beginning(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "..."
}
