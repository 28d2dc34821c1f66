package machine

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/status"
)

// checkQuorum returns what is waited for while the control plane cannot spare a Node; nil if it can.
func (rc *reconciliation) checkQuorum(ctx context.Context, machine *machinev1beta1.Machine, node *corev1.Node) (*plan.Wait, error) {
	if machine.Annotations[plan.AnnotationSkipQuorum] == "true" {
		return nil, nil
	}
	denial, err := rc.Guard.Check(ctx, node)
	switch {
	case status.Classify(err) == status.Denied:
		return plan.QuorumBlocked("", err), nil
	case err != nil || denial == "":
		return nil, err
	}
	return plan.QuorumBlocked(denial, nil), nil
}

// cordonNode acquires the lease of a Node and cordons it; a control-plane node under the guard's lock, from the check to the cordon. The check comes
// before the lease, which would keep other controllers away that could help. The cordon record of another owner is taken over: it works on the Node
// only as long as it holds the lease, and what it would have to undo is deleted with the Node. If the Node is gone, the check alone is made: the
// instance may still be a part of the control plane.
func (rc *reconciliation) cordonNode(ctx context.Context, in *plan.Input) (cordon plan.Cordon, lease plan.Lease, err error) {
	cordon.Tried = true
	node, guarded := in.Link.Node, in.Link.Node
	var record *drain.CordonRecord
	var unreadable error
	if node != nil {
		record, unreadable = drain.ReadCordonRecord(node)
	} else if rc.Guard != nil {
		guarded = rc.Guard.MissingNode(in.Machine)
	}
	isOwn := record != nil && record.By == recordID(in.Machine)
	if guarded != nil && !isOwn && rc.Guard != nil && rc.Guard.Applies(guarded) {
		var unlock func()
		ctx, unlock = rc.Guard.Lock(ctx)
		defer unlock()
		cordon.Blocked, err = rc.checkQuorum(ctx, in.Machine, guarded)
	}
	switch {
	case err != nil, cordon.Blocked != nil, node == nil:
		return cordon, lease, err
	case unreadable != nil:
		cordon.Blocked = plan.CordonDenied(plan.ReasonRecordUnreadable, unreadable)
		return cordon, lease, nil
	}
	if lease, err = rc.acquireLease(ctx, node); err != nil {
		return cordon, lease, err
	}
	if lease.Held != nil {
		cordon.Blocked = plan.LeaseBlocked(lease.Held, in.Now)
		return cordon, lease, nil
	}
	cordon.Record, cordon.Blocked, err = rc.cordon(ctx, in, record)
	return cordon, lease, err
}

// cordon cordons the Node and records what was there before, in one patch.
func (rc *reconciliation) cordon(ctx context.Context, in *plan.Input, record *drain.CordonRecord) (*drain.CordonRecord, *plan.Wait, error) {
	node := in.Link.Node
	change, err := drain.Cordon(node, record, drain.Owner{ID: recordID(in.Machine), Object: rc.key.String()}, drain.Additions{}, in.Now)
	if err != nil || change.Patch == nil {
		return change.Record, nil, err
	}
	_, err = controller.PatchCordon(ctx, rc.Writer, node.Name, change.Patch, fieldOwner)
	switch status.Classify(err) {
	case status.OK:
		return change.Record, nil, nil
	case status.Denied:
		return nil, plan.CordonDenied(plan.ReasonDenied, err), nil
	}
	return nil, nil, fmt.Errorf("cordoning Node %s: %w", node.Name, err)
}

// acquireLease acquires or renews the lease of a Node.
func (rc *reconciliation) acquireLease(ctx context.Context, node *corev1.Node) (plan.Lease, error) {
	lease := plan.Lease{Asked: true}
	renewIn, err := rc.Lease.Acquire(ctx, node)
	if errors.As(err, &lease.Held) {
		return lease, nil
	}
	if err == nil {
		lease.RenewIn = renewIn
	}
	return lease, err
}

// evictPods has the engine drain the Node, and returns how far the drain is.
func (rc *reconciliation) evictPods(ctx context.Context, in *plan.Input) (*drain.Report, error) {
	since := in.Cordon.Record.Since
	rc.state.Draining = in.Link.Node.Name
	report, err := rc.Engine.Drain(ctx, in.Link.Node, since, in.DrainOptions(since))
	if err != nil {
		return nil, err
	}
	return &report, nil
}

// endDrain reports how the drain ended. One event is enough for a Node that no pod had to leave.
func (rc *reconciliation) endDrain(in *plan.Input, step *plan.Step) {
	rc.emit(in.Machine, step.Event)
	if !step.IsFinished() {
		return
	}
	rc.state.Drained = true
	if rc.state.emitted[plan.EventDrainProceeds] != "" {
		rc.emit(in.Machine, plan.Normal(plan.EventDeleted, fmt.Sprintf("Node %q drained", in.NodeName())))
	}
}

// recordID identifies the Machine in the cordon record on its Node.
func recordID(machine *machinev1beta1.Machine) string {
	return owner.MachinePrefix + string(machine.UID)
}
