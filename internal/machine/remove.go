package machine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// remove takes a Machine that is being deleted as far as it goes: hooks, drain, instance, Node, lease, finalizer. The status says where it
// stands, unless the Machine is gone by then.
func (p *pass) remove(ctx context.Context) error {
	if !slices.Contains(p.machine.Finalizers, machinev1beta1.MachineFinalizer) {
		// Somebody else's finalizer keeps it; nothing is ours here any more.
		p.withdraw(p.memory)
		return nil
	}
	if p.memory.finished {
		return nil // the cache has yet to hear of it
	}
	p.found.phase = machinev1beta1.PhaseDeleting
	p.found.ready = step{reason: reasonDeleting}
	if p.keptByOthers() && phaseOf(&p.machine.Status) != machinev1beta1.PhaseDeleting {
		// It is going to be seen for a while.
		if err := p.writeStatus(ctx); err != nil {
			return err
		}
	}
	if known, err := p.identify(ctx); !known {
		return errors.Join(p.writeStatus(ctx), err)
	}
	over, failed := p.dismantle(ctx)
	if over && failed == nil {
		return p.finish(ctx)
	}
	if p.ending && failed == nil {
		return nil
	}
	if err := p.writeStatus(ctx); err != nil {
		return err
	}
	return failed
}

// keptByOthers reports whether a finalizer of another controller keeps the Machine when Drover is done with it.
func (p *pass) keptByOthers() bool { return len(p.machine.Finalizers) > 1 }

// identify finds the Node, and tells whether that is certain. An instance that was made and not recorded, or by half, is asked for first: its
// Node would not be known else, and neither drained nor deleted. So is that of a Machine without nodeRef: what else the Machine says of its Node
// proves nothing.
func (p *pass) identify(ctx context.Context) (known bool, err error) {
	unproven := p.machine.Status.NodeRef == nil && p.memory.instance == nil
	if unproven || nodelink.ProviderID(p.machine) == "" || len(p.machine.Status.Addresses) == 0 {
		if err := p.ask(ctx); err != nil {
			p.found.unknown = true
			return false, p.refused(err, reasonProviderError, machinev1beta1.UpdateMachineError)
		}
	}
	if err := p.link(ctx); err != nil {
		return false, err
	}
	return true, nil
}

// ask asks the provider for the instance of a Machine that goes. What could never be made there is none of.
func (p *pass) ask(ctx context.Context) error {
	actuator, err := p.Actuators.of(p.machine)
	if err != nil {
		return nil // terminate says so
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ProviderTimeout)
	defer cancel()
	if p.found.instance, err = actuator.Get(ctx, p.machine); p.found.instance != nil {
		p.memory.instance = p.found.instance
	}
	if provider.ReasonOf(err, machinev1beta1.UpdateMachineError) == machinev1beta1.InvalidConfigurationMachineError {
		return nil
	}
	return err
}

// dismantle goes through the steps of the end; over tells that nothing is left of the Machine outside.
func (p *pass) dismantle(ctx context.Context) (over bool, err error) {
	if drained, err := p.drain(ctx); err != nil || !drained {
		return false, err
	}
	p.withdraw(p.memory)
	if kept, err := p.keep(ctx); err != nil || !kept {
		return false, err
	}
	if len(p.machine.Spec.LifecycleHooks.PreTerminate) > 0 {
		return false, nil
	}
	if p.found.linked && p.machine.Status.NodeRef == nil {
		// Once the instance is gone nobody tells its addresses any more, by which the Node may have been found.
		if err := p.writeStatus(ctx); err != nil {
			return false, err
		}
	}
	if ended, err := p.terminate(ctx); err != nil || !ended {
		return false, err
	}
	return p.removeNode(ctx)
}

// nodeName is the Node that the Machine has or had; empty for none ever.
func (p *pass) nodeName() string {
	if p.found.node != nil {
		return p.found.node.Name
	}
	if ref := p.machine.Status.NodeRef; ref != nil && !p.found.unlinked {
		return ref.Name
	}
	return ""
}

// terminate has the instance ended, and tells when there is none any more.
func (p *pass) terminate(ctx context.Context) (bool, error) {
	actuator, err := p.Actuators.of(p.machine)
	if err != nil {
		if !provisioned(p.machine) {
			return true, nil // there never was an instance
		}
		p.found.exists = step{reason: reasonNoProvider, message: err.Error()}
		p.later(retryDenied)
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, p.options.ProviderTimeout)
	defer cancel()
	if p.settling() <= 0 {
		if err := actuator.Delete(ctx, p.machine); err != nil {
			return p.notDeleted(err)
		}
	}
	instance, err := actuator.Get(ctx, p.machine)
	if err != nil {
		p.found.unknown = true
		return false, p.refused(err, reasonProviderError, machinev1beta1.UpdateMachineError)
	}
	if instance != nil {
		p.later(cmp.Or(instance.LookAgain, retryInstance))
		p.found.exists = step{met: true}
		if p.memory.ended.IsZero() {
			p.memory.ended = p.clock.Now()
		}
		// It is gone in a moment, or has to be waited for: only then is it worth a status.
		if left := p.settling(); left > 0 {
			p.ending = true
			p.later(left)
		}
		return false, nil
	}
	p.tell(EventDelete, "The instance is gone")
	if provisioned(p.known()) {
		p.found.exists = step{reason: reasonInstanceGone, message: "The instance has been deleted"}
	}
	return true, nil
}

// settling is for how long an instance that was just ended may still be there without a word. What came before in this pass has taken time.
func (p *pass) settling() time.Duration { return p.memory.ended.Add(settleInstance).Sub(p.clock.Now()) }

// notDeleted notes why the instance is still there. A Machine that could never become one has none.
func (p *pass) notDeleted(err error) (bool, error) {
	reason := provider.ReasonOf(err, machinev1beta1.DeleteMachineError)
	if reason == machinev1beta1.InvalidConfigurationMachineError && len(p.machine.Status.Addresses) == 0 {
		return true, nil
	}
	p.found.exists = step{met: true, message: err.Error()}
	if wait, only := provider.AsRequeueAfter(err); only {
		p.laterByProvider(wait)
		return false, nil
	}
	p.Metrics.failed("delete", p.key, reason)
	p.warn(EventFailedDelete, err.Error())
	return false, &providerError{p.key, err}
}

// removeNode deletes the Node that the Machine left behind, also one that never came into nodeRef. One of the same name that is another
// Machine's by now is not touched.
func (p *pass) removeNode(ctx context.Context) (bool, error) {
	node := p.found.node
	if node == nil {
		var err error
		if node, err = p.latecomer(ctx); err != nil || node == nil {
			return err == nil, err
		}
	}
	err := p.Cache.Get(ctx, types.NamespacedName{Name: node.Name}, &corev1.Node{})
	if apierrors.IsNotFound(err) && p.found.node != nil {
		return true, nil // it went with the instance
	}
	err = p.Writer.Delete(ctx, &corev1.Node{ObjectMeta: metaOf(node.Name)}, client.Preconditions{UID: &node.UID})
	switch status.Classify(err) {
	case status.Stale:
		// It has registered anew, which the cache does not show yet.
		p.later(retryStale)
		return false, nil
	case status.OK, status.Gone:
		log.FromContext(ctx).Info("node deleted", "node", node.Name)
		return true, nil
	}
	if p.memory.parting.IsZero() {
		p.memory.parting = p.now
	}
	timeout := p.duration(AnnotationNodeDeletionTimeout, p.options.NodeDeletionTimeout)
	if timeout > 0 && !p.now.Before(p.memory.parting.Add(timeout)) {
		log.FromContext(ctx).Error(err, "the Node stays; the time for its deletion is over", "node", node.Name)
		p.warn(EventNodeLeft, fmt.Sprintf("Node %s could not be deleted for %s, and stays: %v", node.Name, timeout, err))
		p.found.node, p.found.nodeStays = node, true
		return true, nil
	}
	return false, fmt.Errorf("deleting Node %s: %w", node.Name, err)
}

// latecomer looks for a Node that registered, or registered anew, so shortly before its instance ended that the cache has not heard of it.
// Nobody would look for it later. It is looked for by the names that Nodes are given: the Machine's, and those of the instance.
func (p *pass) latecomer(ctx context.Context) (*corev1.Node, error) {
	known := p.known()
	if p.found.conflict != "" || !provisioned(known) {
		return nil, nil
	}
	for _, name := range nodeNames(known) {
		node := &corev1.Node{}
		err := p.Live.Get(ctx, types.NamespacedName{Name: name}, node)
		switch {
		case err == nil && node.Spec.ProviderID != "" && node.Spec.ProviderID == nodelink.ProviderID(known) && p.adoptionRefusal(node) == "":
			return node, nil
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading Node %s: %w", name, err)
		}
	}
	return nil, nil
}

// nodeNames are the names that the Node of a Machine is given.
func nodeNames(machine *machinev1beta1.Machine) []string {
	names := []string{machine.Name}
	if ref := machine.Status.NodeRef; ref != nil {
		names = append(names, ref.Name)
	}
	for _, address := range machine.Status.Addresses {
		if address.Type == corev1.NodeHostName || address.Type == corev1.NodeInternalDNS {
			names = append(names, address.Address)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// finish gives the lease back and lets the Machine go. The lease of a Node that has been deleted goes with the Node, which owns it.
func (p *pass) finish(ctx context.Context) error {
	if p.found.nodeStays {
		if err := p.Lease.Release(ctx, p.found.node.Name); err != nil {
			return err
		}
	}
	if p.keptByOthers() {
		// Nobody writes the status after this.
		if p.found.conflict == "" && !p.found.nodeStays {
			p.found.linked, p.found.unlinked = false, true
		}
		if err := p.writeStatus(ctx); err != nil {
			return err
		}
	}
	changed := p.machine.DeepCopy()
	changed.Finalizers = slices.DeleteFunc(changed.Finalizers, func(f string) bool { return f == machinev1beta1.MachineFinalizer })
	patch := client.MergeFromWithOptions(p.machine, client.MergeFromWithOptimisticLock{})
	if err := p.Writer.Patch(ctx, changed, patch, fieldOwner); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the finalizer of Machine %s: %w", p.key, err)
	}
	// The answer is no version to wait for: the object that it is of may be gone.
	p.memory.finished = true
	log.FromContext(ctx).Info("machine is gone")
	return nil
}

// duration reads an annotation with a duration. One that cannot be read is told, and counts as absent.
func (p *pass) duration(annotation string, otherwise time.Duration) time.Duration {
	text, there := p.machine.Annotations[annotation]
	if !there {
		return otherwise
	}
	value, err := time.ParseDuration(text)
	if err != nil || value < 0 {
		p.warn(EventFailedValidate, fmt.Sprintf("annotation %s: %q is no duration such as 10m; %s counts", annotation, text, otherwise))
		return otherwise
	}
	return bounded.Duration(value)
}
