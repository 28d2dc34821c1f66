package nodes

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/status"
)

// unknownFor is how long a write that has failed without an answer may still be carried out: the API server ends requests after a minute
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/, --request-timeout).
const unknownFor = time.Minute

// InFlight are the Nodes that are being written, or whose last write the cache does not show yet: what the cache says of their records may change
// without a new decision.
type InFlight map[string]inFlight

// inFlight is what may be written on a Node.
type inFlight struct {
	// undecided reports that it is being decided what is written: it may be for any group.
	undecided bool
	// groups are those whose record the write may add.
	groups []types.UID
	// until is when a write without an answer does not come any more; zero for one that has been made.
	until time.Time
}

// Concerns reports whether one of the writes may add the record of a group.
func (f InFlight) Concerns(group types.UID) bool {
	for _, write := range f {
		if write.undecided || slices.Contains(write.groups, group) {
			return true
		}
	}
	return false
}

// InFlight returns the writes that are in flight. A list of Nodes that is read from the cache afterwards shows all others.
func (a *Admissions) InFlight(now time.Time) InFlight {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.inFlight, func(_ string, write inFlight) bool {
		return !write.undecided && !write.until.IsZero() && !now.Before(write.until)
	})
	return maps.Clone(a.inFlight)
}

// beginWrite notes that a Node is about to be read and then, perhaps, written.
func (a *Admissions) beginWrite(node string) {
	a.setInFlight(node, func(write *inFlight) { write.undecided = true })
}

// endWrite notes what has become of that: write is nil if nothing was written. A write that still may come stays.
func (a *Admissions) endWrite(node string, made *inFlight, now time.Time) {
	a.setInFlight(node, func(write *inFlight) {
		switch {
		case made != nil:
			*write = *made
		case now.Before(write.until):
			write.undecided = false
		default:
			*write = inFlight{}
		}
	})
}

// keepWrite notes that the cache does not show the last write of a Node yet.
func (a *Admissions) keepWrite(node string) {
	a.setInFlight(node, func(write *inFlight) { write.undecided = false })
}

func (a *Admissions) setInFlight(node string, change func(*inFlight)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	write := a.inFlight[node]
	change(&write)
	if !write.undecided && len(write.groups) == 0 {
		delete(a.inFlight, node)
		return
	}
	if a.inFlight == nil {
		a.inFlight = InFlight{}
	}
	a.inFlight[node] = write
}

// forgetWrite drops the last write of a Node that is gone.
func (a *Admissions) forgetWrite(node string) {
	a.setInFlight(node, func(write *inFlight) { *write = inFlight{undecided: write.undecided} })
}

// inFlight returns what the cache will show later of a write; nil for nothing.
func (rc *reconciliation) inFlight(applied *outcome) *inFlight {
	write := &inFlight{}
	switch {
	case applied.wrote:
	case applied.class == status.Transient:
		write.until = rc.Clock.Now().Add(unknownFor)
	default:
		return nil
	}
	for _, group := range []*members.Group{rc.Group, rc.Recorded} {
		if group != nil {
			write.groups = append(write.groups, group.UID)
		}
	}
	return write
}
