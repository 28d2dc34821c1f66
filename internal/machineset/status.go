package machineset

import (
	"context"
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineset/plan"
	"github.com/drover-io/drover/internal/status"
)

// updateStatus writes the status as it is after what has been applied.
func (rc *reconciliation) updateStatus(ctx context.Context, decision *plan.Decision, applied *outcome) outcome {
	o := &plan.Observation{
		Set: rc.set, Problem: decision.Problem, Selector: decision.Selector, Surge: decision.Surge,
		Create: rc.createFailure(), Scale: rc.scaleFailure(decision), Now: rc.now,
		Counts: plan.Count(decision.Members, func(m *machinev1beta1.Machine) bool { return applied.missing[m.UID] }, rc.now),
	}
	for range applied.created {
		// New Machines have the labels of the template, and no Node.
		o.Counts.Replicas++
		o.Counts.FullyLabelled++
		o.Counts.Unlinked++
	}
	after, changed := o.Status()
	return rc.patchStatus(ctx, decision, after, changed)
}

// recordReached keeps how many replicas the MachineSet had reached while Machines that it owes are not created, and removes that record after that.
// first reports that the status has to wait for it: if the process ended between the two, the next one would take those Machines for growth.
func (rc *reconciliation) recordReached(ctx context.Context, decision *plan.Decision, applied *outcome) (out outcome, first bool) {
	replaced := applied.replaced
	if decision.Replace != nil && !applied.missing[decision.Replace.UID] {
		// It has not been deleted.
		replaced = decision.Owed
	}
	record := decision.Record(replaced, len(applied.created)-applied.replaced)
	before, exists := rc.set.Annotations[machineapi.ReachedReplicasAnnotation]
	if !decision.Scaled || record == before && exists == (record != "") {
		return out, false
	}
	err := rc.annotateSet(ctx, machineapi.ReachedReplicasAnnotation, record)
	switch status.Classify(err) {
	case status.OK:
		out.Requeue.In(retrySoon)
	case status.Stale:
		out.Conflict = true
	case status.Gone, status.Denied:
		log.FromContext(ctx).Error(err, "cannot record how many replicas the MachineSet had reached")
		return out, false
	default:
		out.Err = fmt.Errorf("annotating MachineSet %s: %w", rc.key, err)
	}
	return out, true
}

// annotateSet sets an annotation of the MachineSet if that has not changed since it was observed; an empty value removes it.
func (rc *reconciliation) annotateSet(ctx context.Context, key, value string) error {
	annotation := map[string]any{key: value}
	if value == "" {
		annotation[key] = nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": rc.set.UID, "resourceVersion": rc.set.ResourceVersion, "annotations": annotation,
	}})
	if err != nil {
		return err
	}
	target := metadataOf("MachineSet", rc.set)
	if err := rc.writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return err
	}
	rc.versions.Expect(string(rc.set.UID), expectations.Write{Version: target.ResourceVersion})
	return nil
}

// createFailure returns why Machines cannot be created. What the status reports stays until it is over: a process that has just started has not
// counted enough failures yet.
func (rc *reconciliation) createFailure() *plan.Failure {
	creating := &rc.state.creating
	if reported := creating.reported(); reported != nil || creating.failures == 0 || rc.set.Status.ErrorReason == nil {
		return reported
	}
	return &creating.failure
}

// scaleFailure returns why Machines cannot be deleted, adopted or released.
func (rc *reconciliation) scaleFailure(decision *plan.Decision) *plan.Failure {
	if reported := rc.state.deleting.reported(); reported != nil {
		return reported
	}
	if withheld := decision.Withheld; len(withheld) > 0 {
		names := make([]string, len(withheld))
		for i, machine := range withheld {
			names[i] = machine.Name
		}
		return &plan.Failure{Reason: plan.ReasonWithheld, Message: "to be deleted by the API that has the authority over them: " +
			status.Names(names, maxNamed)}
	}
	return rc.ownerFailure()
}

// patchStatus is the only writer of the status.
func (rc *reconciliation) patchStatus(
	ctx context.Context, decision *plan.Decision, after machinev1beta1.MachineSetStatus, changed bool,
) (out outcome) {
	if !changed {
		return out
	}
	next := rc.set.DeepCopy()
	next.Status = after
	err := rc.writer.Status().Patch(ctx, next, controller.GuardedPatch(rc.set), FieldOwner)
	switch status.Classify(err) {
	case status.OK:
		rc.versions.Expect(string(rc.set.UID), expectations.Write{Version: next.ResourceVersion})
		rc.metrics.observe(rc.key, rc.set, &after)
		rc.reportFailures(decision, &after)
	case status.Stale:
		out.Conflict = true
	case status.Gone:
		// The event of the deletion is on its way.
	case status.Denied:
		log.FromContext(ctx).Error(err, "the API server denies the status", "retryAfter", controller.RetryDenied.String())
		out.Requeue.In(controller.RetryDenied)
	default:
		out.Err = fmt.Errorf("writing the status of MachineSet %s: %w", rc.key, err)
	}
	return out
}

// reportFailures emits an event for each failure that the status reports for the first time.
func (rc *reconciliation) reportFailures(decision *plan.Decision, after *machinev1beta1.MachineSetStatus) {
	reported := map[string]bool{}
	for _, kind := range []machinev1beta1.ConditionType{plan.ConditionCreated, plan.ConditionResized} {
		now, before := status.MachineCondition(after.Conditions, kind), status.MachineCondition(rc.set.Status.Conditions, kind)
		if !isFailure(now) || before != nil && before.Status == now.Status && before.Reason == now.Reason {
			continue
		}
		if kind == plan.ConditionCreated && decision.Problem == "" {
			rc.recorder.Event(rc.set, corev1.EventTypeWarning, EventCreateFailed, now.Message)
		}
		if !reported[now.Message] {
			rc.recorder.Event(rc.set, corev1.EventTypeWarning, EventError, now.Message)
		}
		reported[now.Message] = true
	}
}

// isFailure reports whether a condition is False because something is wrong, not because it takes its time.
func isFailure(c *machinev1beta1.Condition) bool {
	return c != nil && c.Status == corev1.ConditionFalse && c.Severity != machinev1beta1.ConditionSeverityInfo
}

// initializeAuthority copies the authority that the spec asks for to the status, as machine-api-operator does. The next reconciliation does the rest.
func (rc *reconciliation) initializeAuthority(ctx context.Context) outcome {
	after := *rc.set.Status.DeepCopy()
	after.AuthoritativeAPI = rc.set.Spec.AuthoritativeAPI
	out := rc.patchStatus(ctx, &plan.Decision{}, after, true)
	out.Requeue.In(retrySoon)
	return out
}

// reportOtherAPI reports that another API has the authority over the Machines.
func (rc *reconciliation) reportOtherAPI(ctx context.Context) outcome {
	after, changed := plan.StatusOtherAPI(&rc.set.Status, rc.now)
	return rc.patchStatus(ctx, &plan.Decision{}, after, changed)
}
