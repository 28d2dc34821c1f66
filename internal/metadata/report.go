package metadata

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/status"
)

// report records what a reconciliation has come to, and emits events for what is new.
func (rc *reconciliation) report(ctx context.Context, decision *plan.Decision, applied *written) {
	switch {
	case applied.wait > 0 || applied.class == status.Stale:
		rc.reportUnfinished(decision.State, applied)
	case applied.class == status.OK:
		rc.reportDone(ctx, decision, applied)
	case applied.class == status.Gone:
		// The event of the deletion is reported instead.
	case applied.class == status.Denied:
		rc.setDenied(rc.revision())
		rc.countFailure()
		log.FromContext(ctx).Error(applied.err, "the API server denies a write")
		if rc.reportUnfinished(plan.Held, applied).changed {
			rc.recorder.Eventf(applied.object, corev1.EventTypeWarning, EventDenied,
				"cannot apply the metadata of MachineSet %s: %v", rc.setName(), applied.err)
		}
	default:
		rc.countFailure()
		rc.reportUnfinished(decision.State, applied)
	}
}

// reportUnfinished records the state while a write is still to be made; problems are reported once it is.
func (rc *reconciliation) reportUnfinished(state plan.State, applied *written) transition {
	r := rc.newReport(state)
	r.wrote, r.unfinished = applied.wroteMachine, true
	return rc.tracker.record(r, rc.clock.Now())
}

func (rc *reconciliation) reportDone(ctx context.Context, decision *plan.Decision, applied *written) {
	rc.setDenied("")
	r := rc.newReport(decision.Settled)
	r.wrote = applied.wroteMachine || applied.wroteNode && !decision.Drift
	r.problems = decision.Problems
	changes := rc.tracker.record(r, rc.clock.Now())
	if changes.changed && r.waiting && machineapi.NodeName(rc.machine) != "" {
		// MNMO counts a Node that is gone as a failure, each time.
		rc.countFailure()
	}
	if rc.set != nil {
		rc.reportChanges(ctx, &changes, applied)
	}
	if applied.wroteNode {
		rc.reportNode(ctx, decision, &changes)
	}
}

// setDenied records for the waves which revision the API server denies to write to the Node or its Machine, empty for none: a wave does not wait for
// a few such Nodes.
func (rc *reconciliation) setDenied(revision string) {
	if rc.gate == nil || rc.node == nil {
		return
	}
	var trouble gate.Trouble
	if revision != "" {
		trouble = gate.Trouble{Failing: "the API server denies the write", Revision: revision}
	}
	rc.gate.SetTrouble(rc.node.Name, func(t *gate.Trouble) { *t = trouble })
}

func (rc *reconciliation) newReport(state plan.State) report {
	return report{
		machine: rc.key, declaration: rc.set.declared(), state: state,
		waiting: state == plan.Pending && (rc.node == nil || rc.node.DeletionTimestamp != nil),
	}
}

// reportChanges emits events for what is new. What existed before the process started is not, unless this reconciliation wrote because of it.
func (rc *reconciliation) reportChanges(ctx context.Context, changes *transition, applied *written) {
	if !changes.first || applied.wroteMachine || applied.wroteNode || !rc.tracker.startOf(rc.set.key).IsZero() {
		rc.reportProblems(changes)
	}
	if changes.completed {
		generation := rc.set.declaration.Generation
		rc.recorder.Eventf(rc.set.MachineSet, corev1.EventTypeNormal, EventSynced, "%s", completed(changes, generation))
		log.FromContext(ctx).Info("rollout complete", "machineset", rc.set.key.String(), "generation", generation,
			"machines", changes.total, "conflicts", changes.conflicts, "waiting", changes.waiting, "seconds", changes.took.Seconds())
	}
}

func (rc *reconciliation) reportProblems(changes *transition) {
	for _, problem := range changes.inSet {
		if reason, ok := problemEvents[problem.Reason]; ok {
			rc.recorder.Eventf(rc.set.MachineSet, corev1.EventTypeWarning, reason, "%s%s", problem.Message, rc.firstNode(problem))
		}
	}
	if rc.node == nil {
		return
	}
	for _, problem := range changes.onMachine {
		if problem.Reason == plan.InConflict {
			rc.recorder.Eventf(rc.node, corev1.EventTypeWarning, EventConflict, "%s (MachineSet %s)", problem.Message, rc.setName())
		}
	}
}

// firstNode names the Node on which a problem of the MachineSet was found first, where it depends on the Node.
func (rc *reconciliation) firstNode(problem plan.Problem) string {
	if problem.Reason != plan.InConflict || rc.node == nil {
		return ""
	}
	return fmt.Sprintf("; first found on Node %s", rc.node.Name)
}

func completed(changes *transition, generation int64) string {
	text := fmt.Sprintf("generation %d of the template has been applied to %d Machines", generation, changes.total)
	if changes.conflicts > 0 {
		text += fmt.Sprintf(", %d with a key that another writer set", changes.conflicts)
	}
	if changes.held > 0 {
		text += fmt.Sprintf(", %d held", changes.held)
	}
	if changes.waiting > 0 {
		text += fmt.Sprintf(", %d without a Node yet", changes.waiting)
	}
	if changes.took > 0 {
		text += fmt.Sprintf(" in %s", changes.took.Round(100*time.Millisecond))
	}
	return text
}

// reportNode reports what the write of a Node makes true: the latency of a rollout, or the repair of what another writer changed.
func (rc *reconciliation) reportNode(ctx context.Context, decision *plan.Decision, changes *transition) {
	if decision.Drift {
		if entries := decision.Node.RepairText(); entries != "" {
			log.FromContext(ctx).Info("repaired", "node", rc.node.Name, "machineset", rc.setName(), "entries", entries)
			rc.recorder.Eventf(rc.node, corev1.EventTypeNormal, EventRepaired, "undid what another writer changed: %s", entries)
		}
		return
	}
	if rc.set == nil || !changes.remaining {
		// The rollout was not for a Node that came after it.
		return
	}
	if start := rc.tracker.startOf(rc.set.key); !start.IsZero() {
		rc.metrics.propagation.Observe(rc.clock.Since(start).Seconds())
	}
}

// countFailure counts a failure of the Node, or of the Machine where there is no Node.
func (rc *reconciliation) countFailure() {
	name := rc.machine.Name
	if rc.node != nil {
		name = rc.node.Name
	}
	rc.metrics.failures.WithLabelValues(name).Inc()
}

// trackRollout starts to track the rollout of a MachineSet whose own event is still on its way.
func (r *Reconciler) trackRollout(ctx context.Context, set *machineSet) {
	if set == nil || r.tracker.knows(set.key) {
		return
	}
	// One worker lists the Machines, possibly thousands; the others wait for it.
	_, _, _ = r.tracking.Do(set.key.String(), func() (any, error) {
		if !r.tracker.knows(set.key) {
			r.tracker.startRollout(set.declaration, keysOf(r.machineSetToMachines(ctx, set.MachineSet)), set.CreationTimestamp.Time, r.clock.Now())
		}
		return nil, nil
	})
}

// reportAmbiguity emits an event for each of several MachineSets that select the same Machine, once.
func (r *Reconciler) reportAmbiguity(ctx context.Context, observed *observation) {
	if len(observed.ambiguous) == 0 {
		return
	}
	names := make([]string, 0, len(observed.ambiguous))
	for _, set := range observed.ambiguous {
		names = append(names, set.key.Name)
	}
	slices.Sort(names)
	all := strings.Join(names, ", ")
	for _, set := range observed.ambiguous {
		if r.machineSets.firstAmbiguity(set.key) {
			r.recorder.Eventf(set.MachineSet, corev1.EventTypeWarning, EventAmbiguous,
				"the selectors of several MachineSets (%s) match Machine %s, which has no controller: no MachineSet applies to such Machines",
				all, observed.machine.Name)
			log.FromContext(ctx).Info("several MachineSets select a Machine without a controller: none applies to it",
				"machineset", set.key.String(), "machinesets", all)
		}
	}
}

// reportSelector emits an event when the selector of a MachineSet cannot be used: the MachineSet has no Machines, and nothing else would show that.
func (r *Reconciler) reportSelector(ctx context.Context, set *machinev1beta1.MachineSet) {
	if invalid := r.machineSets.parse(set).invalid; invalid != nil {
		r.recorder.Eventf(set, corev1.EventTypeWarning, EventInvalid, "%v; the MachineSet has no Machines until this is corrected", invalid)
		log.FromContext(ctx).Error(invalid, "a MachineSet has no Machines", "machineset", client.ObjectKeyFromObject(set).String())
	}
}
