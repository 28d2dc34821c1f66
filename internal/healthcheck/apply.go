package healthcheck

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/status"
)

// apply starts remediations, and deletes the remediation requests of Machines that are healthy again. It returns the last snapshot.
func (rc *reconciliation) apply(ctx context.Context, current *snapshot) (*snapshot, outcome) {
	current, out := rc.remediate(ctx, current)
	return current, out.and(failed(current.unlimited)).and(rc.deleteRequests(ctx, current))
}

// remediate starts as many remediations as may be in flight. Everything is observed and decided anew after each of them.
func (rc *reconciliation) remediate(ctx context.Context, current *snapshot) (*snapshot, outcome) {
	var out outcome
	tried := map[types.UID]bool{}
	limited := current.decision.IsLimited()
	current, unlock, err := rc.lockLimits(ctx, current)
	defer unlock()
	if err != nil {
		return current, failed(err)
	}
	for rc.mayStart(current, tried, out.started) && ctx.Err() == nil {
		r := next(current, tried)
		if r == nil {
			break
		}
		tried[r.Machine.UID] = true
		one := rc.start(ctx, current, r)
		if one.Err != nil && len(one.blocked) == 0 {
			one.blocked = []plan.Blocked{{Machine: r.Machine, Reason: plan.ReasonFailed, Message: one.Err.Error(), Retried: true}}
		}
		out = out.and(one)
		if one.started == 0 {
			continue
		}
		rc.reportStarted(ctx, r)
		// Which of the others exceed a limit depends on what has started.
		if !limited && !rc.mayStart(current, tried, out.started) {
			break
		}
		observed, err := rc.observe(ctx, current.external)
		if err != nil {
			return current, out.and(failed(err))
		}
		current = observed
	}
	return current, out.and(rc.postpone(current, tried))
}

// lockLimits keeps other MachineHealthChecks from starting remediations that count against limits, until unlock is called. It observes again, because
// an earlier snapshot may lack what another MachineHealthCheck has started.
func (rc *reconciliation) lockLimits(ctx context.Context, current *snapshot) (locked *snapshot, unlock func(), err error) {
	if !current.decision.IsLimited() || next(current, nil) == nil {
		return current, func() {}, nil
	}
	rc.limited.Lock()
	observed, err := rc.observe(ctx, current.external)
	if err != nil {
		return current, rc.limited.Unlock, err
	}
	return observed, rc.limited.Unlock, nil
}

// postpone returns what has not been tried: remediations that wait for the cache, and remediations that exceed a limit.
func (rc *reconciliation) postpone(current *snapshot, tried map[types.UID]bool) (out outcome) {
	startable, limited := current.decision.WithinLimits(tried)
	if len(startable) > 0 {
		// The cache shows by an event what has started; an external remediation has no event.
		out.remaining = true
		out.Requeue.In(controller.CatchUp)
	}
	for i := range limited {
		out.Requeue.In(max(limited[i].Until.Sub(rc.now), controller.CatchUp))
	}
	out.blocked = limited
	return out
}

// mayStart reports whether one more remediation may start before the cache shows the remediations that this reconciliation has started.
func (rc *reconciliation) mayStart(current *snapshot, tried map[types.UID]bool, started int) bool {
	inFlight := started
	for i := range current.input.Targets {
		if t := &current.input.Targets[i]; (t.Deleted || t.Stale) && !tried[t.Machine.UID] {
			inFlight++
		}
	}
	return inFlight < rc.options.MaxUnseenStarts
}

// next returns the first remediation that has not been tried and exceeds no limit; nil for none.
func next(current *snapshot, tried map[types.UID]bool) *plan.Remediation {
	if startable, _ := current.decision.WithinLimits(tried); len(startable) > 0 {
		return startable[0]
	}
	return nil
}

// start starts one remediation with the permission to disrupt the node. If the Machine never had a Node, the permission concerns the Node that it was
// to have. An error is what may succeed the next time.
func (rc *reconciliation) start(ctx context.Context, current *snapshot, r *plan.Remediation) (out outcome) {
	if out := rc.confirm(ctx, current, r); !out.isClear() {
		return out
	}
	begin, out := rc.beginningOf(current.external, r)
	if begin == nil {
		return out
	}
	request := rc.request(r)
	permit, bounded, err := rc.options.Budgets.Begin(ctx, request)
	defer permit.Done()
	switch {
	case err != nil:
		return failed(err)
	case !permit.Allowed:
		return blockedBy(r.Machine, &permit)
	}
	// After an error, it may have begun.
	if out = begin(bounded); out.started == 0 && out.Err == nil {
		out = out.and(failed(rc.options.Budgets.Withdraw(ctx, request)))
	}
	return out
}

// beginningOf returns the first write of a remediation. If the remediation cannot begin, whatever the budget says, it returns nil and the outcome.
func (rc *reconciliation) beginningOf(observed *external, r *plan.Remediation) (begin func(context.Context) outcome, out outcome) {
	switch r.Method {
	case plan.ByTemplate:
		request, out := prepareRequest(observed, r)
		if request == nil {
			return nil, out
		}
		return func(ctx context.Context) outcome { return rc.createRequest(ctx, observed, request, r) }, out
	case plan.ByAnnotation:
		return func(ctx context.Context) outcome { return rc.annotateMachine(ctx, r) }, out
	}
	return func(ctx context.Context) outcome { return rc.deleteMachine(ctx, r) }, out
}

// confirm checks at the API server that the Node is as unhealthy as the cache shows it: events of Machines and of Nodes come in any order, and the
// first list after a restart may be old. A change of the Machine itself fails the guard of its deletion.
func (rc *reconciliation) confirm(ctx context.Context, current *snapshot, r *plan.Remediation) (out outcome) {
	if health := r.Assessment.Health; health != plan.NodeNotFound && health != plan.Unhealthy {
		return out
	}
	node, err := readNode(ctx, rc.options.Live, r.Machine)
	if err != nil {
		return failed(err)
	}
	if !current.input.NeedsRemediation(r.Target, node) {
		out.Requeue.In(controller.CatchUp)
	}
	return out
}

// protectedNode returns the Node of a control-plane Machine, or what is checked in its place when it is gone; nil for any other Machine.
func (rc *reconciliation) protectedNode(machine *machinev1beta1.Machine, node *corev1.Node) *corev1.Node {
	switch {
	case rc.options.Guard == nil:
		return nil
	case node == nil:
		return rc.options.Guard.MissingNode(machine)
	case rc.options.Guard.Applies(node):
		return node
	}
	return nil
}

// findDeletedPeer says which other control-plane Machine is being deleted, whose Node may still be ready; empty for none.
func (rc *reconciliation) findDeletedPeer(ctx context.Context, machine *machinev1beta1.Machine) (denial string, err error) {
	var machines machinev1beta1.MachineList
	if err := rc.cache.List(ctx, &machines, client.InNamespace(machine.Namespace)); err != nil {
		return "", fmt.Errorf("listing the Machines of namespace %s: %w", machine.Namespace, err)
	}
	for i := range machines.Items {
		peer := &machines.Items[i]
		if peer.UID == machine.UID {
			continue
		}
		deleted, err := rc.deletions.Pending(ctx, string(peer.UID))
		if err != nil {
			return "", err
		}
		if !deleted && peer.DeletionTimestamp == nil {
			continue
		}
		node, err := readNode(ctx, rc.cache, peer)
		if err != nil {
			return "", err
		}
		if node = rc.protectedNode(peer, node); node != nil {
			return fmt.Sprintf("Machine %s of control-plane node %s is being deleted", peer.Name, node.Name), nil
		}
	}
	return "", nil
}

// deleteMachine deletes a Machine if it has not changed since it was observed.
func (rc *reconciliation) deleteMachine(ctx context.Context, r *plan.Remediation) outcome {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: r.Machine.Namespace, Name: r.Machine.Name}}
	err := rc.writer.Delete(ctx, machine, client.Preconditions{UID: &r.Machine.UID, ResourceVersion: &r.Machine.ResourceVersion})
	out := rc.answered(r, err, EventDeletionFailed)
	if out.started == 0 {
		return out
	}
	rc.deletions.Deleted(string(r.Machine.UID), r.Machine)
	rc.metrics.remediated.WithLabelValues(rc.key.Name, rc.key.Namespace).Inc()
	rc.recorder.Eventf(r.Machine, corev1.EventTypeNormal, EventDeleted, "MachineHealthCheck %s has deleted the Machine: %s",
		rc.key.Name, r.Assessment.Message)
	if !r.Started {
		rc.failures.set(machineapi.ControllerUID(r.Machine), r.Failures.Next(r.Machine.CreationTimestamp.Time, rc.now))
	}
	return out
}

// annotateMachine requests external remediation of a Machine if it has not changed since it was observed.
func (rc *reconciliation) annotateMachine(ctx context.Context, r *plan.Remediation) outcome {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": r.Machine.UID, "resourceVersion": r.Machine.ResourceVersion, "annotations": map[string]string{
			plan.ExternalAnnotation: "", machineapi.RequestedAnnotation: rc.now.UTC().Format(time.RFC3339),
		},
	}})
	if err != nil {
		return failed(fmt.Errorf("encoding the patch of Machine %s: %w", r.Machine.Name, err))
	}
	// Of the answer only the metadata is needed.
	machine := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: r.Machine.Namespace, Name: r.Machine.Name}}
	machine.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
	err = rc.writer.Patch(ctx, machine, client.RawPatch(types.MergePatchType, patch), fieldOwner)
	out := rc.answered(r, err, EventAnnotationFailed)
	if out.started == 0 {
		return out
	}
	out.requested = true
	rc.versions.Expect(string(r.Machine.UID), expectations.Write{Version: machine.ResourceVersion})
	rc.recorder.Eventf(r.Machine, corev1.EventTypeNormal, EventAnnotationAdded,
		"MachineHealthCheck %s has added the annotation %s: %s", rc.key.Name, plan.ExternalAnnotation, r.Assessment.Message)
	return out
}

// answered returns the outcome of a deletion or an annotation. event is the reason of the event for a failure.
func (rc *reconciliation) answered(r *plan.Remediation, err error, event string) (out outcome) {
	class := status.Classify(err)
	rc.metrics.attempts.WithLabelValues(string(r.Method), string(class)).Inc()
	switch class {
	case status.OK:
		out.started = 1
		return out
	case status.Stale:
		out.Conflict = true
		return out
	case status.Gone:
		// The event of the deletion is on its way.
		out.Requeue.In(controller.CatchUp)
		return out
	}
	out.blocked = []plan.Blocked{{
		Machine: r.Machine, Reason: plan.ReasonFailed, Message: err.Error(), Event: event, Retried: class != status.Denied,
	}}
	if class == status.Denied {
		out.Requeue.In(controller.RetryDenied)
	} else {
		out.Err = fmt.Errorf("remediating Machine %s: %w", r.Machine.Name, err)
	}
	return out
}

// reportStarted records and logs that a remediation has started, and observes its delay.
func (rc *reconciliation) reportStarted(ctx context.Context, r *plan.Remediation) {
	due := r.Assessment.Due
	if known := rc.state.machines[r.Machine.UID]; due.IsZero() && known != nil {
		due = known.due
	}
	rc.starts.remove(func(_ types.UID, at time.Time) bool { return rc.now.Sub(at) > maxInterval })
	rc.starts.set(ownerOf(rc.check.UID, r.Machine), rc.now)
	if !due.IsZero() {
		rc.metrics.delay.Observe(max(0, rc.now.Sub(due).Seconds()))
	}
	log.FromContext(ctx).Info("started a remediation", "machine", r.Machine.Name, "node", machineapi.NodeName(r.Machine),
		"method", string(r.Method), "reason", r.Assessment.Message)
}

// blocked returns the outcome of a step that blocks the remediation of a Machine.
func blocked(machine *machinev1beta1.Machine, reason, message string) outcome {
	return outcome{blocked: []plan.Blocked{{Machine: machine, Reason: reason, Message: message}}}
}
