package nodes

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/status"
)

// unknownFor is how long a write that has failed without an answer may still be carried out: the API server ends requests after a minute
// (https://kubernetes.io/docs/reference/command-line-tools-reference/kube-apiserver/, --request-timeout).
const unknownFor = time.Minute

// inFlight is what may be written on a Node, or is written and not known to be in the cache: what the cache says of its record may change without a
// new decision.
type inFlight struct {
	// undecided reports that it is being decided what is written: it may be for any group.
	undecided bool
	// groups are those whose record the write may add.
	groups []types.UID
	// until is when a write without an answer does not come any more; zero for one that has been made.
	until time.Time
	// version is the Node's resourceVersion since a write that has been made.
	version string
}

// InFlight reports whether the record of a group may still be added to a Node. A list of Nodes that is read from the cache afterwards shows all
// other writes. shows reports whether the cache has a version of a Node, or a later one, or knows that the Node is gone.
func (a *Admissions) InFlight(group types.UID, now time.Time, shows func(node, version string) bool) (found bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for node, write := range a.inFlight {
		switch {
		case write.undecided:
			found = true
		case !write.until.IsZero() && !now.Before(write.until), write.version != "" && shows(node, write.version):
			delete(a.inFlight, node)
		default:
			found = found || slices.Contains(write.groups, group)
		}
	}
	return found
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
		a.inFlight = map[string]inFlight{}
	}
	a.inFlight[node] = write
}

// forgetWrite drops the last write of a Node that is gone.
func (a *Admissions) forgetWrite(node string) {
	a.setInFlight(node, func(write *inFlight) { *write = inFlight{undecided: write.undecided} })
}

// inFlight returns what the cache will show later of a write; nil for nothing.
func (rc *reconciliation) inFlight(applied *written) *inFlight {
	write := &inFlight{}
	switch {
	case applied.wrote:
		write.version = applied.version
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
