package simulation

import (
	"crypto/sha256"
	"fmt"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// write is one write that has changed something.
type write struct {
	request
	kind    *kind
	key     string
	version int
	// before is nil for a creation; gone: after is the last version that there was.
	before, after client.Object
	gone          bool
}

// history is all that has happened: the writes, what was answered otherwise, and what the scheduler did to the controllers. It becomes text when
// a test fails.
type history struct {
	begun time.Time
	lines []line
	// writes counts requests of controllers that were to write, whether or not they have changed anything.
	writes int
}

// line is a line of the history: a write, or a text.
type line struct {
	at     time.Duration
	write  *write
	format string
	args   []any
}

// String is the line as a text.
func (l line) String() string {
	text := fmt.Sprintf(l.format, l.args...)
	if w := l.write; w != nil {
		verb, patch := w.verb, string(w.patch)
		if w.gone {
			verb += " (gone)"
		}
		if len(patch) > longestPatch {
			patch = patch[:longestPatch] + "..."
		}
		text = fmt.Sprintf("%-12s %s %s %s v%d %s", w.who, verb, w.kind.name, w.key, w.version, patch)
	}
	return fmt.Sprintf("%11.3fs %s", l.at.Seconds(), text)
}

const longestPatch = 700

func (h *history) note(format string, args ...any) {
	h.lines = append(h.lines, line{at: time.Since(h.begun), format: format, args: args})
}

func (h *history) wrote(w *write) {
	h.lines = append(h.lines, line{at: time.Since(h.begun), write: w})
}

// tail is the end of it.
func (h *history) tail(lines int) string {
	var text strings.Builder
	for _, l := range h.lines[max(0, len(h.lines)-lines):] {
		text.WriteString(l.String() + "\n")
	}
	return text.String()
}

// digest is equal for equal histories.
func (h *history) digest() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(h.tail(len(h.lines)))))
}
