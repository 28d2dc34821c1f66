package gate

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// Write is a write of a Node that the cache does not show yet, or that may still come.
type Write struct {
	// Groups are the NodeGroups whose record it may add.
	Groups []types.UID
	// Version is the Node's resourceVersion since a write that has been made.
	Version string
	// Until is when a write without an answer does not come any more; zero for a write that has been made.
	Until time.Time
}

// write is what may be written on a Node, or is written and not known to be in the cache: what the cache says of its record may change without a new
// decision.
type write struct {
	Write
	// undecided reports that it is being decided what is written: it may be for any group.
	undecided bool
}

// InFlight reports whether the record of a group may still be added to a Node. A list of Nodes that is read from the cache afterwards shows all
// other writes. shows reports whether the cache has a version of a Node, or a later one, or knows that the Node is gone.
func (g *Gate) InFlight(group types.UID, now time.Time, shows func(node, version string) bool) (found bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for node, w := range g.writes {
		switch {
		case w.undecided:
			found = true
		case !w.Until.IsZero() && !now.Before(w.Until), w.Version != "" && shows(node, w.Version):
			delete(g.writes, node)
		default:
			found = found || slices.Contains(w.Groups, group)
		}
	}
	return found
}

// BeginWrite notes that a Node is about to be read and then, perhaps, written.
func (g *Gate) BeginWrite(node string) {
	g.setWrite(node, func(w *write) { w.undecided = true })
}

// EndWrite notes what has become of that: made is nil if nothing was written. A write that still may come stays.
func (g *Gate) EndWrite(node string, made *Write, now time.Time) {
	g.setWrite(node, func(w *write) {
		switch {
		case made != nil:
			*w = write{Write: *made}
		case now.Before(w.Until):
			w.undecided = false
		default:
			*w = write{}
		}
	})
}

// KeepWrite notes that the cache does not show the last write of a Node yet.
func (g *Gate) KeepWrite(node string) {
	g.setWrite(node, func(w *write) { w.undecided = false })
}

// ForgetWrite drops the last write of a Node that is gone.
func (g *Gate) ForgetWrite(node string) {
	g.setWrite(node, func(w *write) { *w = write{undecided: w.undecided} })
}

func (g *Gate) setWrite(node string, change func(*write)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	w := g.writes[node]
	change(&w)
	if !w.undecided && len(w.Groups) == 0 {
		delete(g.writes, node)
		return
	}
	if g.writes == nil {
		g.writes = map[string]write{}
	}
	g.writes[node] = w
}
