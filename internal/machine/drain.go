package machine

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/owner"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// drain empties the node, and tells when that is over. What stands in the way is noted.
func (p *pass) drain(ctx context.Context) (bool, error) {
	if before := status.MachineCondition(p.machine.Status.Conditions, ConditionDrained); before != nil && before.Status == corev1.ConditionTrue {
		return true, nil
	}
	if p.memory.drained.met {
		p.found.drained = p.memory.drained
		return true, nil
	}
	unclear := p.found.node == nil && p.found.conflict != ""
	if p.nodeName() == "" && !unclear || p.excluded() {
		p.found.drained = step{met: true, message: "Node drain skipped"}
		p.tell(EventDrainSkipped, "Node drain skipped")
		return true, nil
	}
	if len(p.machine.Spec.LifecycleHooks.PreDrain) > 0 {
		p.tell(EventDrainBlocked, "Drain blocked by pre-drain hook")
		p.withdraw(p.memory)
		return false, nil
	}
	switch {
	case unclear:
		// There is a Node, and it is not clear whose: its pods must not lose it without having been asked.
		text := fmt.Sprintf("%s; when that Node is not this Machine's, put the annotation %s on the Machine", p.found.conflict, AnnotationExclude)
		p.blocked(reasonLinkConflict, text, retryDenied)
		return false, nil
	case p.found.node == nil:
		return p.vacant(ctx)
	}
	return p.empty(ctx, p.found.node)
}

// vacant is the drain of a Node that is gone. What runs on an instance of the control plane may be missed all the same. The check is made under
// the guard's lock: another capability may be between its own check and its cordon.
func (p *pass) vacant(ctx context.Context) (bool, error) {
	if p.Guard != nil {
		if node := p.Guard.MissingNode(p.machine); node != nil {
			ctx, unlock := p.Guard.Lock(ctx)
			defer unlock()
			if spared, err := p.spared(ctx, node, false); err != nil || !spared {
				return false, err
			}
		}
	}
	p.drained("the node is gone")
	return true, nil
}

// excluded tells whether an annotation leaves the drain out.
func (p *pass) excluded() bool {
	_, excluded := p.machine.Annotations[AnnotationExclude]
	return excluded
}

// keep keeps the lease of a drained node until its instance is ended, however long hooks and the provider take: others would begin to work
// on it else.
func (p *pass) keep(ctx context.Context) (bool, error) {
	node := p.found.node
	if node == nil || p.excluded() || p.leased || !p.memory.ended.IsZero() {
		return true, nil
	}
	held, err := p.hold(ctx, node)
	if err != nil || held == nil {
		return err == nil, err
	}
	if _, late := p.drainDeadline(); late {
		return true, nil
	}
	p.found.ready = step{reason: reasonLease, message: held.Error()}
	p.tell(EventDrainRequeued, held.Error())
	p.later(p.until(held))
	return false, nil
}

// drained notes that nothing is left to drain.
func (p *pass) drained(how string) {
	p.found.drained = step{met: true, message: "Drain finished successfully"}
	p.memory.drained = p.found.drained
	p.tell(EventDrainSucceeded, "Node drain succeeded: "+how)
	if p.memory.told[EventDrainProceeds] != "" {
		// One event is enough for a node from which nothing had to leave.
		p.tell(EventDeleted, fmt.Sprintf("Node %q drained", p.nodeName()))
	}
}

// blocked notes what is in the way of the drain, and leaves the pods alone meanwhile.
func (p *pass) blocked(reason, message string, again time.Duration) {
	p.found.drained = step{reason: reason, message: message}
	p.tell(EventDrainRequeued, message)
	p.withdraw(p.memory)
	p.later(again)
}

// empty leases, cordons and drains a node.
func (p *pass) empty(ctx context.Context, node *corev1.Node) (bool, error) {
	hold, err := p.acquire(ctx, node)
	switch {
	case err != nil:
		return false, err
	case hold == nil:
		reason := p.found.drained.reason
		return reason != reasonQuorum && reason != reasonQuorumUnknown && p.timedOut(p.found.drained.message), nil
	}
	return p.evict(ctx, node, hold)
}

// acquire leases and cordons a node; one of the control plane under the guard's lock, from the check to the cordon. Nil without an error means that
// it cannot be done now, which is recorded.
func (p *pass) acquire(ctx context.Context, node *corev1.Node) (*drain.CordonRecord, error) {
	hold, unreadable := drain.ReadCordonRecord(node)
	ours := hold != nil && hold.By == p.by()
	if !ours && p.Guard != nil && p.Guard.Applies(node) {
		var unlock func()
		ctx, unlock = p.Guard.Lock(ctx)
		defer unlock()
	}
	if spared, err := p.spared(ctx, node, ours); err != nil || !spared {
		return nil, err
	}
	if unreadable != nil {
		p.blocked(reasonBadRecord, unreadable.Error(), retryDenied)
		return nil, nil
	}
	if held, err := p.lease(ctx, node); err != nil || !held {
		return nil, err
	}
	// A record of another owner is taken over: who cordoned the node works on it only as long as the lease is theirs, and what they had to give
	// back goes with the node.
	return p.cordon(ctx, node, hold)
}

// drainDeadline returns when the drain ends without the rest, and whether that is over; the zero time is without end. The time begins with the
// deletion of the Machine: whatever delays the drain does not prolong it.
func (p *pass) drainDeadline() (end time.Time, over bool) {
	timeout := p.duration(AnnotationDrainTimeout, p.options.DrainTimeout)
	if timeout == 0 {
		return time.Time{}, false
	}
	end = p.machine.DeletionTimestamp.Add(timeout)
	return end, !p.now.Before(end)
}

// timedOut reports whether the time for the drain is over, and records that the instance is deleted in spite of an obstacle. A hook and the
// quorum of the control plane are none: they hold without end.
func (p *pass) timedOut(obstacle string) bool {
	end, over := p.drainDeadline()
	if end.IsZero() {
		return false
	}
	if !over {
		p.later(end.Sub(p.now))
		return false
	}
	text := fmt.Sprintf("the time for the drain, %s, is over; deleting the instance although the drain is not finished: %s",
		end.Sub(p.machine.DeletionTimestamp.Time), obstacle)
	p.found.drained = step{reason: reasonTimeout, message: text}
	p.tell(EventDrainRequeued, text)
	return true
}

// spared asks whether the control plane can spare the node, before the lease is taken, which would keep others away who could help it.
func (p *pass) spared(ctx context.Context, node *corev1.Node, ours bool) (bool, error) {
	if ours || p.Guard == nil || p.machine.Annotations[AnnotationSkipQuorum] == "true" || !p.Guard.Applies(node) {
		return true, nil
	}
	denial, err := p.Guard.Check(ctx, node)
	reason, again := reasonQuorum, retryQuorum
	switch {
	case status.Classify(err) == status.Denied:
		denial, reason, again = err.Error(), reasonQuorumUnknown, retryDenied
	case err != nil:
		return false, err
	case denial == "":
		return true, nil
	}
	text := fmt.Sprintf("%s; to delete the Machine all the same, set the annotation %s to \"true\" on it", denial, AnnotationSkipQuorum)
	p.blocked(reason, text, again)
	return false, nil
}

// lease makes sure that the node's lease is ours.
func (p *pass) lease(ctx context.Context, node *corev1.Node) (bool, error) {
	held, err := p.hold(ctx, node)
	if err != nil || held == nil {
		return err == nil, err
	}
	p.blocked(reasonLease, held.Error(), p.until(held))
	return false, nil
}

// hold takes or renews the node's lease, once in a pass. It tells who else has it; nil for nobody.
func (p *pass) hold(ctx context.Context, node *corev1.Node) (*nodelease.AlreadyHeldError, error) {
	p.leased = true
	again, err := p.Lease.Acquire(ctx, node)
	var held *nodelease.AlreadyHeldError
	switch {
	case err == nil:
		p.later(again)
	case errors.As(err, &held):
		return held, nil
	}
	return nil, err
}

// until is how soon to ask again for a lease that somebody else has.
func (p *pass) until(held *nodelease.AlreadyHeldError) time.Duration {
	return min(max(held.Until.Sub(p.now), time.Second), retryDenied)
}

// cordon cordons the node. Nil without an error means that it cannot be done now.
func (p *pass) cordon(ctx context.Context, node *corev1.Node, hold *drain.CordonRecord) (*drain.CordonRecord, error) {
	change, err := drain.Cordon(node, hold, drain.Owner{ID: p.by(), Object: p.key.String()}, drain.Additions{}, p.now)
	if err != nil || change.Patch == nil {
		return change.Record, err
	}
	target := &metav1.PartialObjectMetadata{ObjectMeta: metaOf(node.Name)}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	if err := p.Writer.Patch(ctx, target, client.RawPatch(types.JSONPatchType, change.Patch), fieldOwner); err != nil {
		if status.Classify(err) != status.Denied {
			return nil, fmt.Errorf("cordoning node %s: %w", node.Name, err)
		}
		p.blocked(reasonDenied, err.Error(), retryDenied)
		return nil, nil
	}
	return change.Record, nil
}

// evict takes the drain as far as it goes.
func (p *pass) evict(ctx context.Context, node *corev1.Node, hold *drain.CordonRecord) (bool, error) {
	options := drain.Options{
		// The pods of a node that nobody hears of cannot report their end; those within their grace are waited for.
		Unreachable: drain.Ignore, Volumes: p.options.VolumeDetachTimeout > 0, VolumesTimeout: p.options.VolumeDetachTimeout,
	}
	if end, _ := p.drainDeadline(); !end.IsZero() {
		// The engine counts from the cordon.
		options.Deadline = max(end.Sub(hold.Since), time.Second)
	}
	p.memory.drains = node.Name
	report, err := p.Engine.Drain(ctx, node, hold.Since, options)
	if err != nil {
		return false, err
	}
	if !report.Wake.IsZero() {
		p.later(report.Wake.Sub(p.now))
	}
	switch {
	case report.Done():
		p.drained("all pods have left")
		return true, nil
	case p.timedOut(report.Text()):
		return true, nil
	}
	p.tell(EventDrainProceeds, "Node drain proceeds")
	p.found.drained = step{reason: reasonDraining, message: report.Text()}
	return false, nil
}

// by is the holder's name in the record on the node.
func (p *pass) by() string { return owner.MachinePrefix + string(p.machine.UID) }

func metaOf(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }
