package maintenance

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// apply carries out a decision, and returns how far the maintenance is after it. The error is what may succeed the next time.
func (rc *reconciliation) apply(ctx context.Context, in *plan.Input, decision *plan.Decision) (progress plan.Progress, err error) {
	progress = decision.Progress
	if !progress.Paused {
		if err := rc.addFinalizer(ctx, in); err != nil {
			return progress, err
		}
	}
	switch decision.Action {
	case plan.Preview:
		report, err := rc.Engine.Preview(ctx, in.Node, decision.Options)
		progress.SetPreview(&report)
		return progress, err
	case plan.RenewLease:
		err = rc.acquireLease(ctx, in, &progress)
	case plan.ReleaseLease:
		err = rc.releaseOwn(ctx, in, &progress)
	case plan.Drain:
		err = rc.drain(ctx, in, decision, &progress)
	}
	if err == nil && progress.Report == nil && in.Object.GetStatus().Phase == "" && in.Node != nil {
		// node-maintenance-operator counts the Pods before it acquires the lease.
		if report, err := rc.Engine.Preview(ctx, in.Node, drain.Options{}); err == nil {
			progress.Report = &report
		}
	}
	return progress, err
}

// addFinalizer adds the finalizer, and makes the node the owner of the NodeMaintenance, so that it is deleted with the node.
func (rc *reconciliation) addFinalizer(ctx context.Context, in *plan.Input) error {
	isNew := !controllerutil.ContainsFinalizer(in.Object, medik8s.Finalizer)
	isOwned := in.Node == nil ||
		slices.ContainsFunc(in.Object.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == in.Node.UID })
	if !isNew && isOwned {
		return nil
	}
	changed := copyOf(in.Object)
	controllerutil.AddFinalizer(changed, medik8s.Finalizer)
	if !isOwned {
		if err := controllerutil.SetOwnerReference(in.Node, changed, rc.Writer.Scheme()); err != nil {
			return err
		}
	}
	if err := rc.patch(ctx, in.Object, changed); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	in.Object = changed
	if isNew {
		rc.Recorder.Event(changed, corev1.EventTypeNormal, EventBegin, "Begin a node maintenance")
		log.FromContext(ctx).Info("maintenance begins", "reason", changed.GetSpec().Reason)
	}
	return nil
}

// drain acquires and drains the node.
func (rc *reconciliation) drain(ctx context.Context, in *plan.Input, decision *plan.Decision, progress *plan.Progress) error {
	record, err := rc.acquire(ctx, in, decision.Record, progress)
	if err != nil || record == nil {
		return err
	}
	if isDeleted, err := rc.isDeleted(ctx, in.Object); err != nil || isDeleted {
		return err
	}
	rc.state.draining = in.Node.Name
	report, err := rc.Engine.Drain(ctx, in.Node, record.Since, decision.Options)
	if err != nil {
		return err
	}
	progress.SetReport(&report, in.Now)
	if report.OutOfService && !slices.Contains(record.Taints, drain.OutOfServiceTaintID()) {
		_, err = rc.cordon(ctx, in, record, true, progress)
	}
	return err
}

// acquire acquires the node with the permission to disrupt it, and cordons it. It returns the cordon record; nil if the node cannot be acquired now.
// What has begun goes on whatever the budget says.
func (rc *reconciliation) acquire(
	ctx context.Context, in *plan.Input, before *drain.CordonRecord, progress *plan.Progress,
) (*drain.CordonRecord, error) {
	request := rc.request(in)
	request.Begun = before != nil
	permit, ctx, err := rc.Budgets.Begin(ctx, request)
	defer permit.Done()
	if err != nil && !permit.LeaseFailed {
		return nil, err
	}
	if err == nil && !permit.Allowed {
		return nil, rc.await(ctx, in, &permit, progress)
	}
	if err == nil && rc.group.OwnLease {
		_, err = rc.OwnLease.Acquire(ctx, in.Node)
	}
	if err := rc.reportLease(in, progress, permit.Renewal, err); err != nil {
		return nil, err
	}
	if permit.Reason == disruptionplan.ReasonBudgetExceeded && rc.state.exceeded != permit.Message {
		rc.Recorder.Event(in.Object, corev1.EventTypeWarning, EventBudgetExceeded, permit.Message)
		rc.state.exceeded = permit.Message
	}
	if !progress.Lease.Met {
		return nil, rc.giveUp(ctx, in, progress)
	}
	return rc.cordon(ctx, in, before, false, progress)
}

// await has a maintenance wait.
func (rc *reconciliation) await(ctx context.Context, in *plan.Input, permit *disruption.Permit, progress *plan.Progress) error {
	if permit.Reason == disruptionplan.ReasonLease {
		if err := rc.setLease(in, progress, 0, permit.Held); err != nil {
			return err
		}
		return rc.giveUp(ctx, in, progress)
	}
	reason, message := rc.blockedBy(in, permit)
	progress.BlockCordon(reason, message, permit.After)
	return rc.releaseOwn(ctx, in, progress)
}

// blockedBy returns the reason and the message of a maintenance that has to wait.
func (rc *reconciliation) blockedBy(in *plan.Input, permit *disruption.Permit) (reason, message string) {
	switch permit.Reason {
	case disruptionplan.ReasonQuorum:
		return plan.ReasonQuorum, fmt.Sprintf("%s: %s", rc.group.QuorumText(in.Node.Name), permit.Message)
	case disruptionplan.ReasonQuorumUnknown:
		return plan.ReasonQuorumUnknown, permit.Message
	}
	return plan.ReasonWaitingForBudget, permit.Message
}

// request asks for the permission to disrupt the node.
func (rc *reconciliation) request(in *plan.Input) *disruption.Request {
	request := &disruption.Request{
		Request: disruptionplan.Request{
			Node: in.Object.GetSpec().NodeName, Capability: v1alpha1.CapabilityMaintenance,
			Object: "NodeMaintenance/" + in.Object.GetName(), ObjectUID: in.Object.GetUID(),
			Person: metav1.GetControllerOfNoCopy(in.Object) == nil, Since: in.Object.GetCreationTimestamp().Time,
		},
		Target: in.Node, Leases: rc.Lease,
	}
	if in.Node == nil {
		return request
	}
	request.UID = in.Node.UID
	if rc.isProtected(in) {
		request.Guard, request.Protected = rc.Guard, in.Node
	}
	return request
}

// giveUp ends a maintenance whose lease another holder has had for too long.
func (rc *reconciliation) giveUp(ctx context.Context, in *plan.Input, progress *plan.Progress) error {
	if !in.GivesUp(progress) {
		return nil
	}
	if err := rc.uncordon(ctx, in, in.Record); err != nil {
		return err
	}
	progress.GiveUp()
	return nil
}

// isProtected reports whether the control plane has to be able to spare the node.
func (rc *reconciliation) isProtected(in *plan.Input) bool {
	return rc.Guard != nil && !in.OwnsCordonRecord() && rc.Guard.Applies(in.Node)
}

// acquireLease acquires or renews the leases of the node.
func (rc *reconciliation) acquireLease(ctx context.Context, in *plan.Input, progress *plan.Progress) error {
	renewIn, err := rc.Lease.Acquire(ctx, in.Node)
	if err == nil && rc.group.OwnLease {
		_, err = rc.OwnLease.Acquire(ctx, in.Node)
	}
	return rc.reportLease(in, progress, renewIn, err)
}

// reportLease reports the answer to a request for the leases, and counts an error.
func (rc *reconciliation) reportLease(in *plan.Input, progress *plan.Progress, renewIn time.Duration, err error) error {
	if err != nil && !errors.As(err, new(*nodelease.AlreadyHeldError)) {
		rc.Metrics.leaseErrors.Inc()
	}
	return rc.setLease(in, progress, renewIn, err)
}

// setLease reports the answer to a request for the lease, and counts its loss.
func (rc *reconciliation) setLease(in *plan.Input, progress *plan.Progress, renewIn time.Duration, err error) error {
	err = in.SetLease(progress, renewIn, err)
	if progress.LossCounted {
		rc.state.lossCounted = in.Now
		rc.Metrics.leaseErrors.Inc()
	}
	return err
}

// releaseOwn releases the leases of a node that this maintenance cannot work on now, if they were acquired: they keep the controllers away that could
// help the node, or that have cordoned it. The leases show that themselves: a reconciliation that acquires one and then fails writes no status.
func (rc *reconciliation) releaseOwn(ctx context.Context, in *plan.Input, progress *plan.Progress) error {
	err := rc.Lease.ReleaseIfHolder(ctx, in.Node.Name)
	if err == nil && rc.group.OwnLease {
		err = rc.OwnLease.ReleaseIfHolder(ctx, in.Node.Name)
	}
	if err == nil {
		return nil
	}
	return in.SetLease(progress, 0, err)
}

// cordon cordons the node, or restores what another writer has undone, in one patch. It returns the cordon record; nil if the node cannot be
// cordoned.
func (rc *reconciliation) cordon(
	ctx context.Context, in *plan.Input, before *drain.CordonRecord, outOfService bool, progress *plan.Progress,
) (*drain.CordonRecord, error) {
	change, restores, err := in.Cordon(before, outOfService)
	if err != nil {
		return nil, err
	}
	parts := strings.Join(change.Parts, ", ")
	if restores && rc.options.Uncordon == plan.Report {
		progress.BlockCordon(plan.ReasonUncordoned, "another writer has undone: "+parts, 0)
		return nil, nil
	}
	err = rc.patchNode(ctx, in.Node, change.Patch)
	switch {
	case status.Classify(err) == status.Denied:
		progress.BlockCordon(plan.ReasonDenied, err.Error(), controller.RetryDenied)
		return nil, nil
	case err != nil:
		return nil, err
	case change.Patch != nil:
		log.FromContext(ctx).Info("node cordoned", "parts", change.Parts, "restored", restores)
	}
	if restores && parts != "" {
		rc.Recorder.Eventf(in.Object, corev1.EventTypeWarning, EventCordonRestored, "restored what another writer has undone: %s", parts)
	}
	progress.SetCordoned(change.Record.Since)
	return change.Record, nil
}

// uncordon undoes what a cordon record has.
func (rc *reconciliation) uncordon(ctx context.Context, in *plan.Input, record *drain.CordonRecord) error {
	change, err := in.Uncordon(record)
	if err != nil || change.Patch == nil {
		return err
	}
	if err := rc.patchNode(ctx, in.Node, change.Patch); err != nil {
		return fmt.Errorf("uncordoning node %s: %w", in.Node.Name, err)
	}
	rc.Recorder.Event(in.Node, corev1.EventTypeNormal, EventUncordon, "Uncordon a node")
	log.FromContext(ctx).Info("node uncordoned", "undone", change.Parts)
	return nil
}

// isDeleted reports whether the cache shows by now that the NodeMaintenance is being deleted: the writes of this reconciliation have taken time, and
// no Pod is evicted for a maintenance that ends.
func (rc *reconciliation) isDeleted(ctx context.Context, object plan.Object) (bool, error) {
	current := rc.group.NewObject()
	switch err := rc.Cache.Get(ctx, types.NamespacedName{Name: object.GetName()}, current); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading NodeMaintenance %s: %w", object.GetName(), err)
	}
	return current.GetUID() != object.GetUID() || current.GetDeletionTimestamp() != nil, nil
}

// release uncordons the node, releases its leases and removes the finalizer.
func (rc *reconciliation) release(ctx context.Context, in *plan.Input) error {
	if in.RecordErr != nil {
		log.FromContext(ctx).Error(in.RecordErr, "uncordoning the node without its cordon record")
	}
	if record := in.RecordToUndo(); record != nil {
		if err := rc.uncordon(ctx, in, record); err != nil {
			return err
		}
	}
	// If another NodeMaintenance is deleted before the node is uncordoned, it leaves the leases to this one. So the others are read only now.
	if err := rc.observePeers(ctx, in); err != nil {
		return err
	}
	node := in.Object.GetSpec().NodeName
	lease, ownLease := in.LeasesToRelease()
	if lease {
		if err := rc.Lease.Release(ctx, node); err != nil {
			return err
		}
	}
	if ownLease {
		if err := rc.OwnLease.Release(ctx, node); err != nil {
			return err
		}
	}
	over := rc.request(in)
	over.Leases = nil // those of another NodeMaintenance of the node stay
	if err := rc.Budgets.End(ctx, over); err != nil {
		return err
	}
	changed := copyOf(in.Object)
	controllerutil.RemoveFinalizer(changed, medik8s.Finalizer)
	if err := rc.patch(ctx, in.Object, changed); err != nil {
		return fmt.Errorf("removing the finalizer: %w", err)
	}
	rc.state.finished = true
	rc.Recorder.Event(in.Object, corev1.EventTypeNormal, EventRemoved, "Removed a node maintenance")
	log.FromContext(ctx).Info("maintenance is over")
	return nil
}

// copyOf returns a copy of a NodeMaintenance that may be changed.
func copyOf(object plan.Object) plan.Object {
	return object.DeepCopyObject().(plan.Object) //nolint:errcheck // a copy has the type of the original
}

// patch writes the metadata of a NodeMaintenance that has not changed since it was observed.
func (rc *reconciliation) patch(ctx context.Context, before, changed plan.Object) error {
	err := rc.Writer.Patch(ctx, changed, controller.GuardedPatch(before), fieldOwner)
	if err == nil {
		rc.expect(changed)
	}
	return err
}

// expect expects the cache to show a NodeMaintenance as the API server has answered a write.
func (rc *reconciliation) expect(object plan.Object) {
	rc.versions.Expect(string(object.GetUID()), expectations.Write{Version: object.GetResourceVersion()})
}

// patchNode patches the node if there is a change.
func (rc *reconciliation) patchNode(ctx context.Context, node *corev1.Node, patch []byte) error {
	if patch == nil {
		return nil
	}
	version, err := controller.PatchCordon(ctx, rc.Writer, node.Name, patch, fieldOwner)
	if err == nil {
		rc.Nodes.Expect(string(node.UID), expectations.Write{Version: version})
	}
	return err
}
