package grouplayer

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/status"
)

// Holder is the identity in the leases of Nodes.
const Holder = "drover-node-groups"

// recheckHeld is how often a Node is checked whose guarded taints are held back: the next wave is no event of a Node that is not being drained.
const recheckHeld = 30 * time.Second

// budgetDelay is how long a Node's check waits after a change of a PodDisruptionBudget, so that several changes are one reconciliation.
const budgetDelay = time.Second

// Guard evicts the Pods that do not tolerate a taint with the effect NoExecute before the taint is set.
type Guard struct {
	Engine  *engine.Engine
	Leases  *nodelease.Leases
	Budgets *disruption.Budgets
	// Live reads Pods from the API server itself.
	Live *pages.Reader
}

// noGuard is why taints are held back where Drover drains no nodes.
const noGuard = "the capability maintenance or machines evicts the Pods that do not tolerate it, and neither is on; turn one of them on, or set " +
	"spec.rollout.noExecute.policy to Allow if Kubernetes may delete them without regard to their PodDisruptionBudgets"

// verdict is what the guard decides about a Node.
type verdict struct {
	guard metadataplan.Guard
	// held says why taints are held back.
	held string
	// waits reports that the taints are not set now: the Node's turn has not come, its budget has no place, or another controller has its lease.
	waits   bool
	requeue controller.Requeue
}

// guardTaints brings the guard of a Node forward: its intolerant Pods leave within their budgets, and then the taints are set. ids are the taints.
func (rc *reconciliation) guardTaints(ctx context.Context, ids []string) (v verdict, err error) {
	taints := rc.Declaration().GuardedTaints(ids)
	if rc.Guard == nil {
		return verdict{held: noGuard}, nil
	}
	settings := metadataplan.NoExecuteOf(rc.Group.NodeGroup)
	options := metadataplan.GuardOptions(&settings, taints)
	report, err := rc.Guard.Engine.Preview(ctx, rc.Node, options)
	switch {
	case err != nil:
		return v, err
	case len(report.Remaining) == 0:
		return rc.verifyLater(ctx, taints)
	}
	if v, err = rc.awaitTurn(ctx); err != nil || v.waits {
		return v, err
	}
	// What has begun goes on.
	if v.held = metadataplan.HeldBack(&settings, &report, rc.countEvictions); v.held != "" && !rc.begun {
		rc.heldIn.Store(rc.Node.Name, metadataplan.NamespacesOf(&report))
		v.requeue.In(recheckHeld)
		return v, nil
	}
	return rc.announceAndDrain(ctx, ids, taints, &report, options)
}

// announceAndDrain acquires the Node, and then announces its taints, or evicts its intolerant Pods where they are announced.
func (rc *reconciliation) announceAndDrain(
	ctx context.Context, ids []string, taints []corev1.Taint, report *drain.Report, options drain.Options,
) (verdict, error) {
	since, v, err := rc.acquire(ctx)
	switch {
	case err != nil:
		return v, err
	case v.waits:
		// Without the lease no Pod is evicted, also where this process has had it.
		rc.withdraw(rc.Node.Name)
		return v, nil
	}
	v.guard = metadataplan.GuardAnnounced
	if metadataplan.IsAnnounced(rc.Node, ids) {
		return rc.drain(ctx, since, taints, options, v)
	}
	if rc.now.Sub(since) >= options.Deadline {
		// The API server denies the announcement, or another writer removes it.
		return rc.timeOut(ctx, report, options.Deadline)
	}
	v.requeue.In(controller.CatchUp)
	return v, nil
}

// arrivals is how long after the announcement of a taint Pods may still arrive that were on their way: the scheduler has not seen it, and binds a Pod
// in the background.
const arrivals = 5 * time.Second

// awaitArrivals has a taint wait, from when this process has seen its announcement on the Node, for Pods that are on their way: Kubernetes would
// delete them. The zero value waits for nothing.
func (rc *reconciliation) awaitArrivals() (v verdict) {
	if !rc.begun {
		rc.state.announced = time.Time{}
		return v
	}
	if rc.state.announced.IsZero() {
		rc.state.announced = rc.now
	}
	if wait := rc.state.announced.Add(arrivals).Sub(rc.now); wait > 0 {
		v.guard = metadataplan.GuardAnnounced
		v.requeue.In(wait)
	}
	return v
}

// awaitTurn waits after a timeout, and for the roll-out: also where a Node is new, and has Pods already.
func (rc *reconciliation) awaitTurn(ctx context.Context) (v verdict, err error) {
	if v, err = rc.awaitRetry(ctx); err == nil && !rc.begun && !rc.isAdmitted() {
		v.waits = true
	}
	return v, err
}

// hasBegun reports whether the guard has begun: the taints are announced, and Drover has the lease of the Node, which it acquires before. A taint of
// the same key with the effect NoSchedule may be of anybody else, or declared beside the guarded one.
func (rc *reconciliation) hasBegun(ctx context.Context, ids []string) (bool, error) {
	if rc.Guard == nil || !metadataplan.IsAnnounced(rc.Node, ids) {
		return false, nil
	}
	return rc.Guard.Leases.IsHolder(ctx, rc.Node.Name)
}

// countEvictions counts the Pods that would leave the Node in the wave that is under way.
func (rc *reconciliation) countEvictions(pods, limit int) (all int) {
	return rc.Gate.Evict(rc.Group.UID, rc.Node.Name, pods, limit, rc.begun)
}

// acquire asks for the permission to disrupt the Node, which what has begun has, and acquires or renews its lease. since is when this holder acquired
// it first: spec.rollout.noExecute.timeout counts from then.
func (rc *reconciliation) acquire(ctx context.Context) (since time.Time, v verdict, err error) {
	if since = rc.state.guardedSince; since.IsZero() {
		// A process before this one may have begun.
		if since, err = rc.Guard.Leases.HeldSince(ctx, rc.Node.Name); err != nil {
			return since, v, err
		}
	}
	request := rc.request()
	request.Begun = rc.begun || !rc.state.guardedSince.IsZero()
	// No deadline for the announcement: it evicts nothing yet, and the lease keeps the place for an hour.
	permit, _, err := rc.Guard.Budgets.Begin(ctx, request)
	permit.Done()
	switch {
	case err != nil:
		return since, v, err
	case !permit.Allowed:
		v.waits = true
		v.requeue.In(permit.After)
		if permit.Reason == disruptionplan.ReasonLease {
			// The roll-out does not wait for another controller, which may work on the Node for days. What has begun on it is over.
			v.held, rc.state.guardedSince = permit.Message, time.Time{}
			rc.heldIn.Store(rc.Node.Name, sets.Set[string]{})
		}
		return since, v, nil
	}
	if since.IsZero() {
		since = rc.now
	}
	rc.state.guardedSince = since
	v.requeue.In(permit.Renewal)
	return since, v, nil
}

func (rc *reconciliation) request() *disruption.Request {
	return &disruption.Request{
		Request: disruptionplan.Request{
			Node: rc.Node.Name, UID: rc.Node.UID, Capability: v1alpha1.CapabilityMetadata, Object: "NodeGroup/" + rc.groupName(), Since: rc.now,
		},
		Target: rc.Node, Leases: rc.Guard.Leases,
	}
}

// drain evicts the intolerant Pods of a Node that keeps further ones away.
func (rc *reconciliation) drain(
	ctx context.Context, since time.Time, taints []corev1.Taint, options drain.Options, v verdict,
) (verdict, error) {
	rc.guarded.Store(rc.Node.Name, true)
	report, err := rc.Guard.Engine.Drain(ctx, rc.Node, since, options)
	switch {
	case err != nil:
		return v, err
	case report.Done():
		return rc.verify(ctx, taints)
	case report.DeadlineExceeded && metadataplan.NoExecuteOf(rc.Group.NodeGroup).OnTimeout == v1alpha1.TimeoutProceed:
		rc.lost = fmt.Sprintf("%d Pods that did not leave in time, regardless of their PodDisruptionBudgets: %s", len(report.Remaining), report.Text())
		return verdict{guard: metadataplan.GuardClear}, nil
	case report.DeadlineExceeded:
		return rc.timeOut(ctx, &report, options.Deadline)
	}
	if !report.Wake.IsZero() {
		v.requeue.In(report.Wake.Sub(rc.now))
	}
	return v, nil
}

// maxLost is how many Pods an event names that Kubernetes deletes.
const maxLost = 5

// verifyLater is verify when Pods that were on their way have arrived.
func (rc *reconciliation) verifyLater(ctx context.Context, taints []corev1.Taint) (v verdict, err error) {
	if v = rc.awaitArrivals(); v.guard != "" {
		return v, nil
	}
	return rc.verify(ctx, taints)
}

// verify asks the API server for the Pods of the Node: the taint is set when all that are left tolerate it, or belong to DaemonSets.
func (rc *reconciliation) verify(ctx context.Context, taints []corev1.Taint) (v verdict, err error) {
	found, lost, names := false, 0, []string(nil)
	ofNode := fields.OneTermEqualSelector("spec.nodeName", rc.Node.Name)
	err = pages.Each(ctx, rc.Guard.Live, &corev1.PodList{}, ofNode, func(pod *corev1.Pod) bool {
		switch owner := metav1.GetControllerOfNoCopy(pod); {
		case !losesPod(pod, taints):
		case owner != nil && drain.IsDaemonSet(owner):
			if lost++; lost <= maxLost {
				names = append(names, pod.Namespace+"/"+pod.Name)
			}
		default:
			found = true
		}
		return !found
	})
	if err != nil {
		return v, fmt.Errorf("listing the Pods of Node %s: %w", rc.Node.Name, err)
	}
	if found {
		// The event of the Pod is on its way.
		v.guard = metadataplan.GuardAnnounced
		v.requeue.In(controller.CatchUp)
		return v, nil
	}
	if lost > 0 {
		rc.lost = fmt.Sprintf("%d Pods of DaemonSets, which do not tolerate them and do not come back, such as %s", lost, status.FirstNames(names))
	}
	return verdict{guard: metadataplan.GuardClear}, nil
}

// losesPod reports whether Kubernetes deletes a Pod of a Node that gets taints.
func losesPod(pod *corev1.Pod, taints []corev1.Taint) bool {
	_, static := pod.Annotations[drain.AnnotationMirror]
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return !static && !finished && !drain.Tolerates(pod, taints)
}

// forgetGuard ends the evictions from a Node.
func (l *Layer) forgetGuard(node string) {
	l.withdraw(node)
	l.heldIn.Delete(node)
	if _, guarded := l.guarded.LoadAndDelete(node); guarded {
		l.setHeld(node, "")
	}
}

// endGuard releases what the guard of a Node has acquired, when its taints are set or not declared any more.
func (rc *reconciliation) endGuard(ctx context.Context) error {
	if rc.Guard == nil {
		return nil
	}
	rc.forgetGuard(rc.Node.Name)
	return rc.release(ctx)
}

// withdraw ends the evictions from a Node for guarded taints. Evictions of another capability go on; it may have acquired the lease of the Node
// since, or have had it all the time.
func (l *Layer) withdraw(node string) {
	l.Gate.EndEvictions(node)
	if l.guarded.CompareAndSwap(node, true, false) {
		l.Guard.Engine.Withdraw(node)
	}
}

// abandonGuard ends the guard of a Node that is gone, or has left its group before it got anything of it.
func (l *Layer) abandonGuard(ctx context.Context, node string) error {
	if l.Guard == nil {
		return nil
	}
	l.forgetGuard(node)
	return l.Guard.Leases.ReleaseIfHolder(ctx, node)
}

// release gives the lease of the Node back, if the guard has it.
func (rc *reconciliation) release(ctx context.Context) error {
	err := rc.Guard.Leases.ReleaseIfHolder(ctx, rc.Node.Name)
	if err == nil && rc.Group != nil {
		over := rc.request()
		over.Leases = nil
		err = rc.Guard.Budgets.End(ctx, over)
	}
	if status.Classify(err) == status.OK {
		rc.state.guardedSince, rc.state.announced = time.Time{}, time.Time{}
	}
	return err
}
