package healthcheck

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
)

// remediate begins as many remediations as there is room for. Everything is gathered and counted anew after each of them: what was true
// for the first need not be so for the next.
func (p *pass) remediate(ctx context.Context) error {
	var trouble []error
	for p.room() > 0 && ctx.Err() == nil {
		r := p.next()
		if r == nil {
			break
		}
		p.tried[r.target.machine.UID] = true
		begun, err := p.begin(ctx, r)
		if err != nil {
			p.fail(r, err)
			trouble = append(trouble, err)
		}
		if !begun {
			continue
		}
		p.begun(ctx, r)
		if r.means != byDeletion {
			p.decision.underway++
		}
		if p.room() == 0 {
			break
		}
		if err := p.gather(ctx); err != nil {
			return errors.Join(append(trouble, err)...)
		}
		p.decide()
	}
	if p.next() != nil {
		// The cache tells by an event what has been begun; an external remediation has none.
		p.later(catchUp)
	}
	return errors.Join(trouble...)
}

// room is how many remediations may be begun before the cache shows those that are under way.
func (p *pass) room() int {
	room := p.options.MaxInFlight - p.done
	for i := range p.in.targets {
		if t := &p.in.targets[i]; (t.leaving || t.behind) && !p.tried[t.machine.UID] {
			room--
		}
	}
	return room
}

// next is the first remedy that has not been tried.
func (p *pass) next() *remedy {
	for i := range p.decision.remedies {
		if r := &p.decision.remedies[i]; !p.tried[r.target.machine.UID] {
			return r
		}
	}
	return nil
}

// begin begins one remediation, unless something is in its way. An error is for what may work next time.
func (p *pass) begin(ctx context.Context, r *remedy) (begun bool, err error) {
	if gone, err := p.confirm(ctx, r); err != nil || !gone {
		return false, err
	}
	if node := p.protected(r.target.machine, r.target.node); node != nil {
		var unlock func()
		ctx, unlock = p.options.Guard.Lock(ctx)
		defer unlock()
		if denied, err := p.guarded(ctx, r, node); err != nil || denied {
			return false, err
		}
	}
	if r.means == byDeletion {
		return p.remove(ctx, r)
	}
	// Whoever remediates outside has its own way with leases; but a node that somebody works on is not handed over.
	if held, err := p.held(ctx, r); err != nil || held {
		return false, err
	}
	if r.means == byTemplate {
		return p.request(ctx, r)
	}
	return p.annotate(ctx, r)
}

// protected is the Node of a Machine of the control plane that is guarded, or what stands for it when it is gone; nil for any other Machine.
func (p *pass) protected(machine *machinev1beta1.Machine, node *corev1.Node) *corev1.Node {
	switch {
	case p.options.Guard == nil:
		return nil
	case node == nil:
		return p.options.Guard.MissingNode(machine)
	case p.options.Guard.Applies(node):
		return node
	}
	return nil
}

// held tells whether somebody else has the lease of the Machine's node.
func (p *pass) held(ctx context.Context, r *remedy) (bool, error) {
	if r.target.node == nil || p.options.Leases == nil {
		return false, nil
	}
	held, err := p.options.Leases.HeldByOther(ctx, r.target.node.Name)
	if err != nil || held == nil {
		return false, err
	}
	p.leaseHeld(r, held)
	return true, nil
}

func (p *pass) leaseHeld(r *remedy, held *nodelease.AlreadyHeldError) {
	p.block(r, reasonLease, fmt.Sprintf("the lease of node %s is held by %q", held.Node, held.Holder))
	p.later(min(max(held.Until.Sub(p.now), catchUp), retryLease))
}

// confirm asks the API server whether a Node is as bad as the cache has it: news of Machines and of Nodes come in no order, and the first
// list after a restart may be old. A Machine whose Node is well must not be deleted for either. That a Machine itself has changed is seen
// by its version, when it is deleted.
func (p *pass) confirm(ctx context.Context, r *remedy) (bool, error) {
	if f := r.verdict.finding; f != foundNodeGone && f != foundUnhealthy {
		return true, nil
	}
	seen := *r.target
	var err error
	if seen.node, err = p.nodeOf(ctx, p.options.Live, seen.machine); err != nil {
		return false, err
	}
	if !p.in.judge(&seen).finding.due() {
		p.later(catchUp)
		return false, nil
	}
	return true, nil
}

// guarded asks whether the control plane can spare a node. A Machine of another of its nodes that is on its way out counts, too: its node
// may still look well.
func (p *pass) guarded(ctx context.Context, r *remedy, node *corev1.Node) (denied bool, err error) {
	denial, err := p.leavingPeer(ctx, r.target.machine)
	if err == nil && denial == "" {
		denial, err = p.options.Guard.Check(ctx, node)
	}
	switch {
	case status.Classify(err) == status.Denied:
		p.block(r, reasonQuorumUnknown, err.Error())
		p.later(retryDenied)
	case err != nil || denial == "":
		return false, err
	default:
		p.block(r, reasonQuorum, denial)
		p.later(retryQuorum)
	}
	return true, nil
}

func (p *pass) leavingPeer(ctx context.Context, machine *machinev1beta1.Machine) (denial string, err error) {
	machines := &machinev1beta1.MachineList{}
	if err := p.reader.List(ctx, machines, client.InNamespace(machine.Namespace)); err != nil {
		return "", fmt.Errorf("listing the Machines of namespace %s: %w", machine.Namespace, err)
	}
	for i := range machines.Items {
		peer := &machines.Items[i]
		if peer.UID == machine.UID {
			continue
		}
		if leaving, err := p.deletions.Pending(ctx, string(peer.UID)); err != nil || !leaving && peer.DeletionTimestamp == nil {
			if err != nil {
				return "", err
			}
			continue
		}
		node, err := p.nodeOf(ctx, p.reader, peer)
		if err != nil {
			return "", err
		}
		if node = p.protected(peer, node); node != nil {
			return fmt.Sprintf("Machine %s of control-plane node %s is being deleted", peer.Name, node.Name), nil
		}
	}
	return "", nil
}

// remove deletes the Machine, exactly as it was seen.
func (p *pass) remove(ctx context.Context, r *remedy) (bool, error) {
	if held, err := p.lease(ctx, r); err != nil || !held {
		return false, err
	}
	seen := r.target.machine
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name}}
	err := p.writer.Delete(ctx, machine, client.Preconditions{UID: &seen.UID, ResourceVersion: &seen.ResourceVersion})
	ok, err := p.answered(r, err, EventDeletionFailed)
	if !ok {
		return false, err
	}
	p.deletions.Deleted(string(seen.UID), seen)
	// The controller of Machines has the same holder, and goes on with the lease.
	delete(p.memory.leases, seen.UID)
	p.metrics.remediated.WithLabelValues(p.key.Name, p.key.Namespace).Inc()
	p.recorder.Eventf(seen, corev1.EventTypeNormal, EventDeleted, "MachineHealthCheck %s has deleted it: %s", p.key.Name, r.verdict.text)
	if !r.started {
		p.owners.failed(ownerOf(seen), r.known, seen.CreationTimestamp.Time, p.now)
	}
	return true, nil
}

// lease takes the lease of the Machine's node.
func (p *pass) lease(ctx context.Context, r *remedy) (bool, error) {
	node := r.target.node
	if node == nil || p.options.Leases == nil {
		return true, nil
	}
	_, err := p.options.Leases.Acquire(ctx, node)
	var held *nodelease.AlreadyHeldError
	switch {
	case err == nil:
		p.memory.leases[r.target.machine.UID] = node.Name
		return true, nil
	case errors.As(err, &held):
		p.leaseHeld(r, held)
		return false, nil
	case status.Classify(err) == status.Stale:
		p.conflicted = true
		return false, nil
	}
	return false, err
}

// returnLeases gives back what was taken for a Machine that is not going to be deleted after all: a lease in hand keeps those away who
// could help the node. The lease of one that is being deleted stays.
func (p *pass) returnLeases(ctx context.Context) {
	if len(p.memory.leases) == 0 {
		return
	}
	idle := map[types.UID]bool{}
	for i := range p.in.targets {
		t := &p.in.targets[i]
		idle[t.machine.UID] = t.machine.DeletionTimestamp == nil && !t.leaving
	}
	for i := range p.decision.remedies {
		idle[p.decision.remedies[i].target.machine.UID] = false
	}
	for i := range p.blocked {
		// What has failed may have been done all the same, and is tried again at once.
		idle[p.blocked[i].machine.UID] = !p.blocked[i].retried
	}
	for uid, node := range p.memory.leases {
		free, present := idle[uid]
		if present && !free {
			continue
		}
		err := error(nil)
		if free {
			err = p.options.Leases.Release(ctx, node)
		}
		if status.Classify(err) == status.Stale {
			p.conflicted = true
			continue
		}
		delete(p.memory.leases, uid)
		if err != nil {
			log.FromContext(ctx).Error(err, "cannot return a lease; it runs out by itself", "node", node)
		}
	}
}

// annotate hands the Machine over to somebody outside.
func (p *pass) annotate(ctx context.Context, r *remedy) (bool, error) {
	seen := r.target.machine
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": seen.UID, "resourceVersion": seen.ResourceVersion, "annotations": map[string]string{AnnotationExternal: ""},
	}})
	if err != nil {
		return false, fmt.Errorf("making the patch of Machine %s: %w", seen.Name, err)
	}
	// Only metadata comes back, which is all that is needed of the answer.
	machine := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: seen.Namespace, Name: seen.Name}}
	machine.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("Machine"))
	err = p.writer.Patch(ctx, machine, client.RawPatch(types.MergePatchType, patch), fieldOwner)
	ok, err := p.answered(r, err, EventAnnotationFailed)
	if !ok {
		return false, err
	}
	p.versions.Expect(string(seen.UID), expectations.Write{Version: machine.ResourceVersion})
	p.recorder.Eventf(seen, corev1.EventTypeNormal, EventAnnotationAdded,
		"MachineHealthCheck %s has added the annotation %s: %s", p.key.Name, AnnotationExternal, r.verdict.text)
	return true, nil
}

// answered notes the API server's answer to a deletion or an annotation, and tells whether it was done.
func (p *pass) answered(r *remedy, err error, event string) (bool, error) {
	class := status.Classify(err)
	p.metrics.attempts.WithLabelValues(string(r.means), string(class)).Inc()
	switch class {
	case status.OK:
		return true, nil
	case status.Stale:
		p.conflicted = true
		return false, nil
	case status.Gone:
		// Its Deleted event is on the way.
		p.later(catchUp)
		return false, nil
	}
	o := obstacle{machine: r.target.machine, reason: reasonFailed, message: err.Error(), event: event, retried: class != status.Denied}
	p.blocked = append(p.blocked, o)
	if class == status.Denied {
		p.later(retryDenied)
		return false, nil
	}
	return false, fmt.Errorf("remediating Machine %s: %w", r.target.machine.Name, err)
}

// begun notes what holds for every remediation.
func (p *pass) begun(ctx context.Context, r *remedy) {
	p.done++
	due := r.verdict.dueAt
	if seen := p.memory.machines[r.target.machine.UID]; due.IsZero() && seen != nil {
		due = seen.due
	}
	if !due.IsZero() {
		p.metrics.delay.Observe(max(0, p.now.Sub(due).Seconds()))
	}
	log.FromContext(ctx).Info("remediation begun", "machine", r.target.machine.Name, "node", nodeName(r.target.machine),
		"means", string(r.means), "why", r.verdict.text)
}

// fail notes an error that came into the way of a remedy, unless that has been done with more to say.
func (p *pass) fail(r *remedy, err error) {
	if len(p.blocked) > 0 && p.blocked[len(p.blocked)-1].machine.UID == r.target.machine.UID {
		return
	}
	p.block(r, reasonFailed, err.Error())
	p.blocked[len(p.blocked)-1].retried = true
}

// block notes what has come into the way of a remedy.
func (p *pass) block(r *remedy, reason, message string) {
	p.blocked = append(p.blocked, obstacle{machine: r.target.machine, reason: reason, message: message})
}
