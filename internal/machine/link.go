package machine

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/quorum"
	"github.com/drover-io/drover/provider"
)

// anyNamespace in Options.AdoptionNamespaces stands for all namespaces.
const anyNamespace = "*"

// link finds the Machine's Node. Addresses that came with this pass count already.
func (p *pass) link(ctx context.Context) error {
	link, err := p.finder.NodeOf(ctx, p.known())
	if err != nil {
		return err
	}
	if link.Conflict != "" {
		p.found.conflict = link.Conflict
		p.found.ready = step{reason: reasonLinkConflict, message: link.Conflict}
		p.warn(EventLinkConflict, link.Conflict)
	} else {
		delete(p.memory.told, EventLinkConflict)
	}
	if node := link.Node; node != nil && node.DeletionTimestamp == nil {
		if refusal := p.adoptionRefusal(node); refusal != "" {
			p.found.ready = step{reason: reasonNotAdopted, message: refusal}
			p.warn(EventNotAdopted, refusal)
			return nil
		}
		p.found.node, p.found.linked = node, true
		return nil
	}
	if link.Conflict != "" {
		return nil
	}
	return p.linkByRef(ctx)
}

// linkByRef looks at the Node that nodeRef names: a Node that is found by neither providerID nor address is known by the name and UID in nodeRef
// alone. nodeRef is cleared when the providerID says that the Node is not this Machine's.
func (p *pass) linkByRef(ctx context.Context) error {
	ref := p.machine.Status.NodeRef
	if ref == nil {
		return nil
	}
	node := &corev1.Node{}
	err := p.Cache.Get(ctx, types.NamespacedName{Name: ref.Name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("reading Node %s: %w", ref.Name, err)
	}
	foreign, err := p.finder.Foreign(ctx, p.known(), node)
	switch {
	case err != nil:
		return err
	case foreign:
		p.found.unlinked = true
		p.warn(EventLinkConflict, fmt.Sprintf("Node %s has the providerID %s, which is not this Machine's; removing the Node from status.nodeRef",
			node.Name, node.Spec.ProviderID))
	case node.UID == ref.UID:
		p.found.node = node
	}
	return nil
}

// adoptionRefusal returns why the Machine may not have a Node that it does not have yet; empty if it may. A Machine names its Node by
// spec.providerID, which its author writes: without this check the permission to create Machines in any namespace would be the permission to drain
// and delete any Node that has no Machine. The Node whose UID is in nodeRef is the Machine's already. Another one is the Machine's if it is not older
// than the Machine and the Machine's provider knows it as the Machine's instance. Every other Node is adopted: the namespace must be one that may
// adopt Nodes, and the Node may not be one of the control plane. The age alone proves nothing: a kubelet that registers anew has a Node that is
// younger than any Machine which a user has made for it.
func (p *pass) adoptionRefusal(node *corev1.Node) string {
	if ref := p.machine.Status.NodeRef; ref != nil && ref.UID == node.UID {
		return ""
	}
	what := "existed before the Machine"
	if node.CreationTimestamp.IsZero() || !node.CreationTimestamp.Before(&p.machine.CreationTimestamp) {
		if isNodeOf(p.memory.instance, node) {
			return ""
		}
		what = "is not known to the Machine's provider as the Machine's instance"
	}
	allowed := p.options.AdoptionNamespaces
	switch {
	case quorum.IsControlPlane(node):
		return fmt.Sprintf("Node %s %s and is a control-plane node, which is never adopted", node.Name, what)
	case !slices.Contains(allowed, p.machine.Namespace) && !slices.Contains(allowed, anyNamespace):
		return fmt.Sprintf("Node %s %s, and Machines in namespace %s may not adopt Nodes; "+
			"add the namespace to machines.adoptionNamespaces if they may", node.Name, what, p.machine.Namespace)
	}
	return ""
}

// isNodeOf reports whether a Node is that of an instance: by providerID, and if one of them has none, by internal IP address.
func isNodeOf(instance *provider.Instance, node *corev1.Node) bool {
	if instance == nil {
		return false
	}
	if instance.ProviderID != "" && node.Spec.ProviderID != "" {
		return instance.ProviderID == node.Spec.ProviderID
	}
	addresses := nodelink.InternalIPs(node.Status.Addresses)
	return slices.ContainsFunc(nodelink.InternalIPs(instance.Addresses), func(ip string) bool { return slices.Contains(addresses, ip) })
}
