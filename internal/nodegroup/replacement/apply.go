package replacement

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/controller"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/status"
)

// apply carries a decision out, and adds to its report what the budget has no place for.
func (rc *reconciliation) apply(ctx context.Context, decision *plan.Decision) (requeue controller.Requeue, err error) {
	if !decision.Wake.IsZero() {
		requeue.In(decision.Wake.Sub(rc.Now))
	}
	if decision.Report.Reason == plan.ReasonSurgeUnavailable {
		// There is no event when that changes.
		requeue.In(retryBlocked)
	}
	for uid, until := range rc.State.denied {
		if _, exists := rc.machines[uid]; !exists || !until.After(rc.Now) {
			delete(rc.State.denied, uid)
			continue
		}
		requeue.In(until.Sub(rc.Now))
	}
	err = rc.carryOut(ctx, decision, &requeue)
	return requeue, err
}

// carryOut makes the writes of a decision. New marks come last: a Machine that is not deleted keeps its place among the Machines that are being
// replaced.
func (rc *reconciliation) carryOut(ctx context.Context, decision *plan.Decision, requeue *controller.Requeue) error {
	if err := rc.withdraw(ctx, decision.Replace); err != nil {
		return err
	}
	kept := slices.Concat(decision.Unmark, decision.Keep)
	slices.Sort(kept)
	for _, uid := range slices.Compact(kept) {
		if rc.isDenied(uid) {
			continue
		}
		err := rc.unmark(ctx, rc.machines[uid], slices.Contains(decision.Unmark, uid), slices.Contains(decision.Keep, uid))
		if err = rc.unlessDenied(ctx, rc.machines[uid], err, requeue); err != nil {
			return err
		}
	}
	left := decision.Spare
	for _, uid := range decision.Replace {
		replaced, err := rc.replace(ctx, rc.machines[uid], &decision.Report, requeue)
		if err != nil {
			return err
		}
		if !replaced {
			// The budget has no place for the others, either.
			break
		}
		if slices.Contains(decision.Marked, uid) {
			left++
		}
	}
	for _, uid := range decision.MarkReplacing[:max(0, min(left, len(decision.MarkReplacing)))] {
		err := rc.annotate(ctx, rc.machines[uid], map[string]any{machineapi.ReplacingAnnotation: "true"})
		if err = rc.unlessDenied(ctx, rc.machines[uid], err, requeue); err != nil {
			return err
		}
	}
	return nil
}

// unlessDenied returns the error of a write of a Machine, unless the API server has denied the write: then the Machine is left alone for a while, and
// others need not wait for it.
func (rc *reconciliation) unlessDenied(ctx context.Context, m *machine, err error, requeue *controller.Requeue) error {
	if status.Classify(err) != status.Denied {
		return err
	}
	log.FromContext(ctx).Error(err, "cannot replace a Machine", "machine", m.Name, "retryAfter", controller.RetryDenied.String())
	rc.State.denied[m.UID] = rc.Now.Add(controller.RetryDenied)
	requeue.In(controller.RetryConflict)
	return nil
}

// replace deletes a Machine if the budget has a place for its Node, and reports whether it has.
func (rc *reconciliation) replace(ctx context.Context, m *machine, report *plan.Report, requeue *controller.Requeue) (replaced bool, err error) {
	permit, ctx, err := rc.begin(ctx, m)
	if err != nil {
		return false, err
	}
	defer permit.Done()
	if !permit.Allowed {
		report.Reason, report.Message = reasonOf(permit.Reason), permit.Message
		requeue.In(permit.After)
		return false, nil
	}
	err = rc.markAndDelete(ctx, m)
	return err == nil, rc.unlessDenied(ctx, m, err, requeue)
}

// markAndDelete deletes a Machine that it marks before: whatever else the MachineSet deletes now, it is this one. The mark of a Machine that must not
// be deleted is removed, unless a user has set it. If the deletion does not follow for another reason, the mark stays for the next attempt, and is
// removed when the Machine is not to be replaced any more.
func (rc *reconciliation) markAndDelete(ctx context.Context, m *machine) error {
	switch {
	case machineapi.HasDeletionMark(m.Machine):
	case machineapi.IsMarked(m.Machine):
		return rc.delete(ctx, m)
	default:
		if err := rc.annotate(ctx, m, map[string]any{machineapi.DeleteAnnotation: machineapi.DeletionMark}); err != nil {
			return err
		}
	}
	err := rc.delete(ctx, m)
	if status.Classify(err) != status.Denied {
		return err
	}
	return errors.Join(err, rc.annotate(ctx, m, map[string]any{machineapi.DeleteAnnotation: nil}))
}

// reasonOf returns the reason of the condition Blocked for a request that the budget has no place for.
func reasonOf(reason string) string {
	switch reason {
	case disruptionplan.ReasonWindowClosed, disruptionplan.ReasonFrozen:
		return reason
	}
	return disruptionplan.ReasonBudgetExhausted
}

// delete deletes a Machine if it has not changed since it was observed.
func (rc *reconciliation) delete(ctx context.Context, m *machine) error {
	target := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	err := rc.Writer.Delete(ctx, target, client.Preconditions{UID: &m.UID, ResourceVersion: &m.version})
	class := status.Classify(err)
	rc.Metrics.deletes.WithLabelValues(string(class)).Inc()
	if class != status.OK && class != status.Gone {
		return err
	}
	rc.owned.Deleted(string(m.set.UID), m.Machine)
	log.FromContext(ctx).Info("replaced an outdated Machine", "machine", m.Name, "machineset", m.set.Name)
	rc.Recorder.Eventf(m.Machine, corev1.EventTypeNormal, EventReplaced,
		"the Machine does not match the template of MachineSet %s, and NodeGroup %s replaces such Machines", m.set.Name, rc.Name)
	return nil
}

// annotate sets annotations of a Machine that has not changed since it was observed; nil removes one.
func (rc *reconciliation) annotate(ctx context.Context, m *machine, annotations map[string]any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": m.UID, "resourceVersion": m.version, "annotations": annotations,
	}})
	if err != nil {
		return err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: m.Namespace, Name: m.Name}}
	target.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
	if err := rc.Writer.Patch(ctx, target, client.RawPatch(types.MergePatchType, body), FieldOwner); err != nil {
		return fmt.Errorf("annotating Machine %s: %w", m.Name, err)
	}
	m.version = target.ResourceVersion
	rc.owned.Updated(string(m.set.UID), target)
	return nil
}

// unmarkAll removes Drover's marks of all Machines that are not being deleted. A Machine whose marks the API server does not let Drover remove keeps
// no other Machine from losing its marks.
func (rc *reconciliation) unmarkAll(ctx context.Context) (denied error) {
	for _, set := range rc.sets {
		for _, m := range set.machines {
			err := rc.unmark(ctx, m, true, true)
			switch {
			case status.Classify(err) == status.Denied:
				denied = err
			case err != nil:
				return err
			}
		}
	}
	return denied
}

// unmark removes marks that Drover has set on a Machine, if it has them and is not being deleted: that it is being replaced, and that it is the next
// to be deleted.
func (rc *reconciliation) unmark(ctx context.Context, m *machine, replacing, begun bool) error {
	annotations := map[string]any{}
	if replacing && machineapi.IsReplacing(m.Machine) {
		annotations[machineapi.ReplacingAnnotation] = nil
	}
	if machineapi.HasDeletionMark(m.Machine) && begun {
		annotations[machineapi.DeleteAnnotation] = nil
	}
	if len(annotations) == 0 || m.DeletionTimestamp != nil {
		return nil
	}
	return rc.annotate(ctx, m, annotations)
}

// isDenied reports whether the API server has lately refused to have a Machine deleted or marked.
func (rc *reconciliation) isDenied(uid types.UID) bool {
	until, denied := rc.State.denied[uid]
	return denied && until.After(rc.Now)
}
