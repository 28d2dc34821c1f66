package maintenance

import (
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// state is what is known of a NodeMaintenance between reconciliations.
type state struct {
	// draining is the node that the engine drains for this NodeMaintenance; empty for none.
	draining string
	// statusWritten is when the status was written last.
	statusWritten time.Time
	// lossCounted is when a failure of the lease was counted last.
	lossCounted time.Time
	// finished reports whether the finalizer has been removed; the cache may still show the object.
	finished bool
	// blockedSince is since when the drain has been blocked, zero when it is not; reported is the reason that an event was emitted for.
	blockedSince time.Time
	reported     string
	// exceeded is the event about a budget that the maintenance exceeds.
	exceeded string
	// returning are the owners whose pods return to the node, as an event has named them.
	returning string
}

// stopEvictions ends the drain of a NodeMaintenance, if it has one.
func (r *Reconciler) stopEvictions(s *state) {
	if s.draining != "" {
		r.Engine.Withdraw(s.draining)
		s.draining = ""
	}
}

// end ends the drain and the metrics of a NodeMaintenance that is gone, or whose controller stops.
func (r *Reconciler) end(key types.NamespacedName, uid types.UID, ended *state) {
	r.stopEvictions(ended)
	r.Metrics.forget(r.group, key.Name)
	r.versions.Forget(string(uid))
}
