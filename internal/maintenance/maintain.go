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
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// The incumbent's words, which programs look for.
const (
	// marker is what its tests look for in the log whenever a pass ends with pods left.
	marker          = "Reconciling with fixed duration"
	textNotObtained = "failed to obtain a lease that is not owned by us"
	textNotExtended = "failed to extend a lease that used to be owned by us"
	textGivenUp     = "maintenance failed: lease could not be extended"
	textRival       = "a NodeMaintenance for node %s already exists"
)

// maintain takes the node into maintenance, step by step; the status comes last and says how far that went.
func (p *pass) maintain(ctx context.Context) error {
	node, err := p.readNode(ctx)
	if err != nil {
		return err
	}
	if err := p.begin(ctx, node); err != nil {
		return err
	}
	p.found.leaseErrors = p.status.ErrorOnLeaseCount
	if err := p.work(ctx, node); err != nil {
		return err
	}
	if p.found.report == nil && p.status.Phase == "" && node != nil {
		// The counts of the beginning are the incumbent's, whether the drain may begin or not.
		if report, err := p.Engine.Preview(ctx, node, drain.Options{}); err == nil {
			p.found.report = &report
		}
	}
	return p.writeStatus(ctx)
}

// pause stops the drain. A node that is cordoned stays so, and its lease is renewed: nobody else is to work on it meanwhile.
func (p *pass) pause(ctx context.Context) error {
	p.withdraw(p.state)
	p.found.paused = true
	node, err := p.readNode(ctx)
	if err != nil {
		return err
	}
	if p.holds(node) {
		if _, err := p.lease(ctx, node); err != nil {
			return err
		}
	}
	return p.writeStatus(ctx)
}

// readNode returns the node, nil when there is none. The error is a conflict while the cache does not show the last write of it.
func (p *pass) readNode(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	err := p.Cache.Get(ctx, types.NamespacedName{Name: p.spec.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading node %s: %w", p.spec.NodeName, err)
	case p.Nodes != nil && p.Nodes.Pending(ctx, node):
		// Without the cordon and its record there would be nothing to give back.
		return nil, apierrors.NewConflict(corev1.Resource("nodes"), node.Name, errPending)
	}
	return node, nil
}

// errPending is why nothing can be decided about a node yet.
var errPending = errors.New("the cache does not show the last write of it yet")

// begin puts the finalizer on the object, and makes the node its owner, so that it goes when the node does.
func (p *pass) begin(ctx context.Context, node *corev1.Node) error {
	fresh := !slices.Contains(p.GetFinalizers(), medik8s.Finalizer)
	owned := node == nil || slices.ContainsFunc(p.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return o.UID == node.UID })
	if !fresh && owned {
		return nil
	}
	changed, ok := p.Object.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object of the API", p.Object)
	}
	if fresh {
		changed.SetFinalizers(append(changed.GetFinalizers(), medik8s.Finalizer))
	}
	if !owned {
		changed.SetOwnerReferences(append(changed.GetOwnerReferences(), metav1.OwnerReference{
			APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID,
		}))
	}
	patch := client.MergeFromWithOptions(p.Object, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); err != nil {
		return fmt.Errorf("adding the finalizer: %w", err)
	}
	p.wrote(changed)
	p.view = p.flavour.view(changed)
	if fresh {
		p.Recorder.Event(p.Object, corev1.EventTypeNormal, EventBegin, "Begin a node maintenance")
		log.FromContext(ctx).Info("maintenance begins", "reason", p.spec.Reason)
	}
	return nil
}

func (p *pass) wrote(object client.Object) {
	p.versions.Expect(string(p.GetUID()), expectations.Write{Version: object.GetResourceVersion()})
}

// work takes the node as far as it goes. What stands in the way is noted and ends it; an error is for what may work at once next time.
func (p *pass) work(ctx context.Context, node *corev1.Node) error {
	if node == nil {
		p.fail(step{reason: reasonNoNode, message: fmt.Sprintf("nodes %q not found", p.spec.NodeName)})
		return nil
	}
	if rival, err := p.rival(ctx, node); err != nil || rival {
		return err
	}
	options, ok := p.drainOptions()
	if !ok {
		return nil
	}
	if p.spec.Drain != nil && p.spec.Drain.DryRun && !p.holds(node) {
		report, err := p.Engine.Preview(ctx, node, options)
		p.found.report, p.found.drain = &report, planned(&report)
		p.requeue.In(retryDenied)
		return err
	}
	return p.take(ctx, node, options)
}

// take leases, cordons and drains a node that nothing on the outside speaks against.
func (p *pass) take(ctx context.Context, node *corev1.Node, options drain.Options) error {
	record, err := p.acquire(ctx, node)
	if err != nil || record == nil {
		return err
	}
	return p.drain(ctx, node, record, options)
}

// acquire leases and cordons the node; one of the control plane under the guard's lock, from the check to the cordon. Nil without an error means
// that it cannot be done now. The record comes first: another owner of the node needs the lease for its own work.
func (p *pass) acquire(ctx context.Context, node *corev1.Node) (*drain.CordonRecord, error) {
	before, ours, err := p.inFront(ctx, node)
	switch {
	case err != nil:
		return nil, err
	case p.found.cordon.reason != "":
		return nil, p.standAside(ctx, node, before)
	}
	if p.isGuarded(node) {
		var unlock func()
		ctx, unlock = p.Guard.Lock(ctx)
		defer unlock()
	}
	if refused, err := p.refused(ctx, node); err != nil || refused {
		return nil, err
	}
	if held, err := p.lease(ctx, node); err != nil || !held {
		return nil, err
	}
	return p.mark(ctx, node, before, ours, false)
}

// isGuarded reports whether the control plane has to be asked before the node is disrupted.
func (p *pass) isGuarded(node *corev1.Node) bool {
	return p.Guard != nil && p.Guard.Applies(node) && !p.holds(node)
}

// drainOptions reads spec.drain. One that cannot be read is told, and nothing is done.
func (p *pass) drainOptions() (drain.Options, bool) {
	options, err := DrainOptions(p.spec.Drain)
	if err != nil {
		p.found.drain = step{reason: reasonBadRules, message: err.Error()}
		p.found.trouble = err.Error()
	}
	p.found.ignored = p.options.Limits.apply(&options)
	return options, err == nil
}

// fail ends the maintenance for now.
func (p *pass) fail(why step) {
	p.found.failure = why
	p.withdraw(p.state)
}

// rival notes that another NodeMaintenance is in front: the one that holds the node, else the oldest.
func (p *pass) rival(ctx context.Context, node *corev1.Node) (bool, error) {
	if p.holds(node) {
		return false, nil
	}
	claims, err := p.Registry.claims(ctx, node.Name)
	if err != nil || len(claims) == 0 {
		return false, err
	}
	front := claims[0]
	if hold, err := drain.ReadCordonRecord(node); err == nil && hold != nil {
		if i := slices.IndexFunc(claims, func(c claim) bool { return recordPrefix+string(c.uid) == hold.By }); i >= 0 {
			front = claims[i]
		}
	}
	if front.uid == p.GetUID() {
		return false, nil
	}
	p.found.failure = step{
		reason: reasonRival, message: fmt.Sprintf(textRival+": %s", node.Name, front),
	}
	return true, nil
}

// holds tells whether the record on the node is this maintenance's.
func (p *pass) holds(node *corev1.Node) bool { return recordedHolder(node) == p.by() }

// lease makes sure that the node's lease is ours.
func (p *pass) lease(ctx context.Context, node *corev1.Node) (bool, error) {
	again, err := p.Lease.Acquire(ctx, node)
	if err == nil && p.flavour.OwnLease {
		_, err = p.OwnLease.Acquire(ctx, node)
	}
	var held *nodelease.AlreadyHeldError
	switch {
	case err == nil:
		p.found.lease = step{met: true, reason: reasonHeld, message: "renewed for as long as the maintenance lasts"}
		p.found.leaseErrors = 0
		p.requeue.In(again)
		return true, nil
	case errors.As(err, &held):
		p.leaseHeld(node, held)
		return false, p.giveUp(ctx, node)
	}
	p.Metrics.leaseErrors.Inc()
	if status.Classify(err) != status.Denied {
		return false, err
	}
	p.leaseDenied(node, err)
	return false, nil
}

// leaseDenied reports that the API server refuses to have the lease written. Nothing is evicted until it can be: another actor may acquire
// the lease when it expires.
func (p *pass) leaseDenied(node *corev1.Node, err error) {
	p.found.lease = step{reason: reasonDenied, message: err.Error()}
	var missing *nodelease.NamespaceError
	if errors.As(err, &missing) {
		p.found.lease.reason = reasonNamespace
	}
	p.found.trouble = err.Error()
	p.withdraw(p.state)
	p.requeue.In(retryDenied)
	if p.holds(node) {
		p.found.cordon = step{met: true, reason: reasonCordoned, message: "the cordon stays while the lease cannot be renewed"}
	}
}

// leaseHeld notes that somebody else has the lease. Failures count only for one that was ours.
func (p *pass) leaseHeld(node *corev1.Node, held *nodelease.AlreadyHeldError) {
	p.requeue.In(min(max(held.Until.Sub(p.now), time.Second), p.leasePace()))
	p.withdraw(p.state)
	before := meta.FindStatusCondition(p.status.Conditions, ConditionLeaseHeld)
	ours := p.holds(node) || before != nil && before.Status == metav1.ConditionTrue
	switch {
	case p.status.Phase == medik8s.PhaseFailed && before != nil && before.Reason == reasonLost && !p.holds(node):
		// Given up already. The node is somebody else's, and the maintenance begins anew when its lease is free.
		p.found.lease = step{reason: reasonLost, message: held.Error()}
		p.found.failure = step{reason: reasonLost, message: textGivenUp}
	case !ours:
		p.found.lease = step{reason: reasonHolder, message: held.Error()}
		p.found.trouble = fmt.Sprintf("%s: %s", textNotObtained, held)
	default:
		p.found.lease = step{reason: reasonLost, message: held.Error()}
		p.found.trouble = fmt.Sprintf("%s: %s", textNotExtended, held)
		p.countLoss()
	}
	if p.holds(node) {
		p.found.cordon = step{met: true, reason: reasonCordoned, message: "the cordon stays while the lease is somebody else's"}
	}
}

// leasePace is how far apart failures are counted: so that enough of them fit into the time after which the node is given back.
func (p *pass) leasePace() time.Duration {
	return min(retryLease, max(p.options.LeaseLoss/(maxLeaseErrors+1), time.Second))
}

// countLoss counts at most once a minute, over restarts, too: what counts is how long the lease is lost, not how often anybody looks.
func (p *pass) countLoss() {
	last := p.state.counted
	if last.IsZero() && p.status.ErrorOnLeaseCount > 0 && p.status.LastUpdate != nil {
		last = p.status.LastUpdate.Time
	}
	if p.now.Sub(last) < p.leasePace() {
		return
	}
	p.state.counted = p.now
	p.found.leaseErrors++
	p.Metrics.leaseErrors.Inc()
}

// giveUp gives the node back when its lease has been lost for too long. A node that has been drained stays: somebody may work on it.
func (p *pass) giveUp(ctx context.Context, node *corev1.Node) error {
	before := meta.FindStatusCondition(p.status.Conditions, ConditionLeaseHeld)
	lost := before != nil && before.Reason == reasonLost && p.now.Sub(before.LastTransitionTime.Time) >= p.options.LeaseLoss
	if !lost || p.found.leaseErrors <= maxLeaseErrors || p.status.Phase == medik8s.PhaseSucceeded || !p.holds(node) {
		return nil
	}
	if err := p.give(ctx, node); err != nil {
		return err
	}
	p.found.cordon = step{}
	p.fail(step{reason: reasonLost, message: textGivenUp})
	return nil
}

// mark cordons and marks the node, and puts back what somebody else has taken away, in one patch. Nil without an error means that it cannot be done.
func (p *pass) mark(ctx context.Context, node *corev1.Node, before *drain.CordonRecord, ours, outOfService bool) (*drain.CordonRecord, error) {
	// The taint for an unreachable node is kept once it is given: the record has it.
	given := ours && slices.Contains(before.Taints, drain.OutOfServiceTaintID()) && !p.options.Limits.NoOutOfService
	change, err := drain.Cordon(node, before, drain.Owner{ID: p.by()}, p.flavour.marks(outOfService || given), p.now)
	if err != nil {
		return nil, err
	}
	repair := ours && (!outOfService || given)
	if change.Patch != nil && repair && p.options.Uncordon == Report {
		p.obstacle(step{reason: reasonUncordon, message: "somebody else has undone " + strings.Join(change.Parts, ", ")})
		return nil, nil
	}
	if err := p.patchNode(ctx, node, change.Patch); err != nil {
		return nil, p.denied(err)
	}
	if change.Patch != nil {
		p.tellCordon(ctx, change, repair)
	}
	p.found.cordon = step{met: true, reason: reasonCordoned, message: "since " + change.Record.Since.Format(time.RFC3339)}
	return change.Record, nil
}

// obstacle notes what is in the way of the cordon, and leaves the pods alone meanwhile.
func (p *pass) obstacle(what step) {
	p.found.cordon = what
	p.found.trouble = what.message
	p.withdraw(p.state)
}

// denied notes a patch of the node that the API server refuses for a reason that lasts.
func (p *pass) denied(err error) error {
	if status.Classify(err) != status.Denied {
		return err
	}
	p.obstacle(step{reason: reasonDenied, message: err.Error()})
	p.requeue.In(retryDenied)
	return nil
}

// refused asks the guard before the lease is acquired: a lease keeps those away who could help the node.
func (p *pass) refused(ctx context.Context, node *corev1.Node) (bool, error) {
	if !p.isGuarded(node) {
		return false, nil
	}
	denied, err := p.guard(ctx, node)
	if err != nil || !denied {
		return denied, err
	}
	return true, p.yieldLease(ctx, node)
}

// guard asks whether the control plane can spare the node.
func (p *pass) guard(ctx context.Context, node *corev1.Node) (denied bool, err error) {
	denial, err := p.Guard.Check(ctx, node)
	switch {
	case status.Classify(err) == status.Denied:
		p.obstacle(step{reason: reasonQuorumUnknown, message: err.Error()})
		p.requeue.In(retryDenied)
		return true, nil
	case err != nil || denial == "":
		return false, err
	}
	p.obstacle(step{reason: reasonQuorum, message: fmt.Sprintf("%s: %s", p.flavour.QuorumText(node.Name), denial)})
	p.requeue.In(retryQuorum)
	return true, nil
}

func (p *pass) patchNode(ctx context.Context, node *corev1.Node, patch []byte) error {
	if patch == nil {
		return nil
	}
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	target.Name = node.Name
	if err := p.Writer.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), fieldOwner); err != nil {
		return err
	}
	if p.Nodes != nil {
		p.Nodes.Expect(string(node.UID), expectations.Write{Version: target.ResourceVersion})
	}
	return nil
}

// goes reports whether the cache shows by now that the NodeMaintenance is being deleted: the writes of this reconciliation have taken their time, and
// no Pod is evicted for a maintenance that ends.
func (p *pass) goes(ctx context.Context) (bool, error) {
	current := p.flavour.fresh()
	switch err := p.Cache.Get(ctx, types.NamespacedName{Name: p.GetName()}, current); {
	case apierrors.IsNotFound(err):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("reading NodeMaintenance %s: %w", p.GetName(), err)
	}
	return current.GetUID() != p.GetUID() || current.GetDeletionTimestamp() != nil, nil
}

// drain takes the drain as far as it goes.
func (p *pass) drain(ctx context.Context, node *corev1.Node, hold *drain.CordonRecord, options drain.Options) error {
	if goes, err := p.goes(ctx); err != nil || goes {
		return err
	}
	p.state.draining = node.Name
	report, err := p.Engine.Drain(ctx, node, hold.Since, options)
	if err != nil {
		return err
	}
	p.found.report, p.found.drain = &report, drained(&report)
	if !report.Wake.IsZero() {
		p.requeue.In(report.Wake.Sub(p.now))
	}
	if report.OutOfService && !slices.Contains(hold.Taints, drain.OutOfServiceTaintID()) {
		if _, err := p.mark(ctx, node, hold, true, true); err != nil {
			return err
		}
	}
	if p.found.drain.reason == reasonLate {
		p.found.trouble = p.found.drain.message
	}
	return nil
}
