package machineset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/machineset/plan"
)

// gather reads the Machines that are the set's or nobody's, and their Nodes, and decides. It tells whether that was possible.
func (p *pass) gather(ctx context.Context) bool {
	for _, owner := range []string{string(p.set.UID), noOwner} {
		var list machinev1beta1.MachineList
		if p.err = p.cache.List(ctx, &list, client.InNamespace(p.key.Namespace), client.MatchingFields{indexOwner: owner}); p.err != nil {
			p.err = fmt.Errorf("listing the Machines of MachineSet %s: %w", p.key, p.err)
			return false
		}
		for i := range list.Items {
			p.machines = append(p.machines, &list.Items[i])
		}
	}
	nodes, err := p.nodes(ctx)
	if err != nil {
		p.err = err
		return false
	}
	p.decision = plan.Decide(plan.Input{
		Set: p.set, Machines: p.machines, Nodes: nodes, Refused: p.memory.refusals(p.now), ReplaceFailed: p.options.ReplaceFailed, Now: p.now,
	})
	if wake := p.decision.Wake; !wake.IsZero() {
		p.later(p.until(wake))
	}
	for _, r := range p.memory.refused {
		p.later(p.until(r.until))
	}
	return true
}

func (p *pass) nodes(ctx context.Context) (map[string]*corev1.Node, error) {
	nodes := map[string]*corev1.Node{}
	for _, machine := range p.machines {
		name := nodeName(machine)
		if name == "" {
			continue
		}
		node := &corev1.Node{}
		switch err := p.cache.Get(ctx, types.NamespacedName{Name: name}, node); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("reading Node %s: %w", name, err)
		default:
			nodes[name] = node
		}
	}
	return nodes, nil
}

// verified compares the Machines that count with what the API server itself says, when a request has got no answer: it may have been carried
// out, and then the cache will show it.
func (p *pass) verified(ctx context.Context) bool {
	if !p.memory.unverified {
		return true
	}
	live, err := p.living(ctx)
	if err != nil {
		p.err = err
		return false
	}
	uids := make([]types.UID, 0, len(live))
	for i := range live {
		uids = append(uids, live[i].UID)
	}
	slices.Sort(uids)
	if !slices.Equal(uids, p.counted()) {
		log.FromContext(ctx).Info("waiting for the cache of Machines to become as new as the API server")
		p.later(catchUp)
		return false
	}
	p.memory.unverified = false
	return true
}

// chosen makes sure that, where some Machines are to go and others stay, the choice knows every mark. The cluster-autoscaler marks a Machine
// and then takes one off the replicas; the news of the two come in no order, and without the first another Machine would be deleted.
func (p *pass) chosen(ctx context.Context) bool {
	if count := len(p.decision.Delete); count == 0 || count == len(p.decision.Members) {
		return true
	}
	live, err := p.living(ctx)
	if err != nil {
		p.err = err
		return false
	}
	marks := map[types.UID]bool{}
	for i := range live {
		marks[live[i].UID] = plan.Marked(&machinev1beta1.Machine{ObjectMeta: live[i].ObjectMeta})
	}
	for i := range p.decision.Members {
		if member := &p.decision.Members[i]; marks[member.Machine.UID] != member.Marked {
			log.FromContext(ctx).Info("waiting for the cache to show which Machines are marked", "machine", member.Machine.Name)
			p.later(catchUp)
			return false
		}
	}
	return true
}

func (p *pass) counted() []types.UID {
	uids := make([]types.UID, 0, len(p.decision.Members))
	for i := range p.decision.Members {
		uids = append(uids, p.decision.Members[i].Machine.UID)
	}
	slices.Sort(uids)
	return uids
}

// living asks the API server for the Machines that count.
func (p *pass) living(ctx context.Context) ([]metav1.PartialObjectMetadata, error) {
	selector, err := metav1.LabelSelectorAsSelector(&p.set.Spec.Selector)
	if err != nil {
		return nil, err
	}
	var living []metav1.PartialObjectMetadata
	for page := (&metav1.PartialObjectMetadataList{}); ; {
		live := &metav1.PartialObjectMetadataList{}
		live.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineList"))
		err := p.live.List(ctx, live, client.InNamespace(p.key.Namespace), client.MatchingLabelsSelector{Selector: selector},
			client.Limit(pageSize), client.Continue(page.Continue))
		if err != nil {
			return nil, fmt.Errorf("listing the Machines of MachineSet %s: %w", p.key, err)
		}
		for _, item := range live.Items {
			if plan.StandingOf(p.set, selector, &machinev1beta1.Machine{ObjectMeta: item.ObjectMeta}) == plan.Counted {
				maps.DeleteFunc(item.Annotations, func(key, _ string) bool { return key != plan.DeleteAnnotation && key != plan.OldDeleteAnnotation })
				item.ManagedFields = nil
				living = append(living, item)
			}
		}
		if page = live; page.Continue == "" {
			return living, nil
		}
	}
}

// pageSize bounds how many Machines one answer holds, each of which may have 256 KiB of annotations.
const pageSize = 100

// alive tells whether the API server still has this very MachineSet. The cache may not have heard that it is going; a Machine that is
// adopted then would be deleted with it.
func (p *pass) alive(ctx context.Context) bool {
	live := partial("MachineSet", p.set)
	switch err := p.live.Get(ctx, p.key, live); {
	case apierrors.IsNotFound(err):
		p.later(catchUp)
	case err != nil:
		p.err = fmt.Errorf("reading MachineSet %s: %w", p.key, err)
	case live.UID != p.set.UID || live.DeletionTimestamp != nil:
		p.later(catchUp)
	default:
		return true
	}
	return false
}

func partial(kind string, object client.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{}
	target.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind(kind))
	target.Name, target.Namespace = object.GetName(), object.GetNamespace()
	return target
}

func nodeName(machine *machinev1beta1.Machine) string {
	if machine.Status.NodeRef == nil {
		return ""
	}
	return machine.Status.NodeRef.Name
}

// until is how long a time is away.
func (p *pass) until(at time.Time) time.Duration { return at.Sub(p.now) }
