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
	at      time.Time
	kind    *kind
	key     string
	version int
	// before is nil for a creation; gone tells that after is the last that there was.
	before, after client.Object
	gone          bool
}

// history is all that has happened, as text: the writes, what was answered otherwise, and what the scheduler did to the rooms.
type history struct {
	begun time.Time
	lines []string
	// writes counts requests of rooms that were to write, whether or not they have changed anything.
	writes int
}

func (h *history) note(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf("%11.3fs ", time.Since(h.begun).Seconds())+fmt.Sprintf(format, args...))
}

func (h *history) wrote(w *write) {
	verb := w.verb
	if w.gone {
		verb += " (gone)"
	}
	patch := string(w.patch)
	if len(patch) > 700 {
		patch = patch[:700] + "..."
	}
	h.note("%-12s %s %s %s v%d %s", w.who, verb, w.kind.name, w.key, w.version, patch)
}

// tail is the end of it.
func (h *history) tail(lines int) string {
	return strings.Join(h.lines[max(0, len(h.lines)-lines):], "\n")
}

// digest is equal for equal histories.
func (h *history) digest() string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(h.lines, "\n"))))
}
