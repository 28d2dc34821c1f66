package machine

import (
	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/machine/plan"
)

// state is what the controller knows of a Machine between reconciliations.
type state struct {
	// State is what decisions depend on.
	plan.State
	// emitted is the last message of each reason that has been emitted as an event.
	emitted map[string]string
	// creating reports that the provider has been asked to create the instance, which it may do in the background.
	creating bool
}

func newState() *state { return &state{emitted: map[string]string{}} }

// end removes what is known of a Machine that is gone, or that is not reconciled any more, and ends its drain.
func (r *Reconciler) end(key types.NamespacedName, uid types.UID, s *state) {
	r.versions.Forget(string(uid))
	r.stopEvictionsOf(s)
	r.Metrics.forget(key)
}

// stopEvictions ends a drain that is in progress.
func (rc *reconciliation) stopEvictions() { rc.stopEvictionsOf(rc.state) }

func (r *Reconciler) stopEvictionsOf(s *state) {
	if s.Draining != "" {
		r.Engine.Withdraw(s.Draining)
		s.Draining = ""
	}
}

// emit emits an event on the Machine unless the last one with its reason had the same message.
func (rc *reconciliation) emit(machine *machinev1beta1.Machine, event plan.Event) {
	if rc.state.emitted[event.Reason] == event.Message {
		return
	}
	rc.state.emitted[event.Reason] = event.Message
	rc.Recorder.Event(machine, event.Type, event.Reason, event.Message)
}

// report emits the events of a reconciliation when it ends, and counts the provider call that failed.
func (rc *reconciliation) report(in *plan.Input, wait *plan.Wait) {
	if in.Link.Searched && in.Link.Conflict == "" {
		delete(rc.state.emitted, plan.EventLinkConflict)
	}
	for _, event := range plan.Events(in, wait) {
		rc.emit(in.Machine, event)
	}
	if failure := wait.Failure; failure != nil {
		rc.Metrics.failed(failure.Operation, rc.key, failure.Reason)
	}
}
