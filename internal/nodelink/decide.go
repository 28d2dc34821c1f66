// Package nodelink finds the Node of a Machine and the Machine of a Node: by providerID, and where that is missing by internal IP. It writes
// nothing: the machine controller writes the link to the Machine's status, and the metadata capability applies what belongs on the Node.
package nodelink

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Link is the Node of a Machine.
type Link struct {
	// Node is the Machine's, nil when there is none.
	Node *corev1.Node
	// Conflict is why none is linked although there is one; empty otherwise.
	Conflict string
}

// Candidates are what Decide chooses from. It changes none of them.
type Candidates struct {
	// Recorded is the Node whose name and UID are in the Machine's nodeRef; nil if there is none or it is gone.
	Recorded *corev1.Node
	// ByID are the Nodes with the Machine's providerID, ByIP those with one of its internal addresses.
	ByID, ByIP []*corev1.Node
	// Others are other Machines with the same providerID, or with one of the same internal addresses, that are not being deleted.
	Others []*machinev1beta1.Machine
	// Owners are other Machines, deleted ones among them, with the providerID of Recorded or of a Node in ByIP.
	Owners []*machinev1beta1.Machine
	// Linked has the Nodes that are in the nodeRef of other Machines, deleted ones among them, and that exist: by the UID of the Machine.
	Linked map[types.UID]*corev1.Node
}

// Decide returns the Node of a Machine. When it is ambiguous it returns none: with a wrong link, the deletion of one Machine would delete the
// Node of another. A kubelet writes the addresses of its Node, and its providerID if that is empty, while only Drover writes nodeRef: a Node that
// claims to be another Machine's neither takes the place of the Node in nodeRef nor makes it ambiguous.
func Decide(machine *machinev1beta1.Machine, c Candidates) Link {
	id := ProviderID(machine)
	node := c.recorded(machine)
	if found := c.free(c.ByID); node == nil && len(found) > 1 {
		return Link{Conflict: fmt.Sprintf("Nodes %s all have the providerID %s", nodeNames(found), id)}
	} else if node == nil && len(found) == 1 {
		node = found[0]
	}
	if same := sameProviderID(contenders(machine, node, c.Others), id); id != "" && len(same) > 0 {
		return Link{Conflict: fmt.Sprintf("Machines %s and %s have the same providerID %s", machine.Name, strings.Join(same, ", "), id)}
	}
	if node != nil && node.Spec.ProviderID != "" && node.Spec.ProviderID == id {
		return Link{Node: node}
	}
	return c.byAddress(machine, node)
}

// byAddress returns the Node of a Machine that no providerID proves. A Node that is not nil is the recorded one.
func (c *Candidates) byAddress(machine *machinev1beta1.Machine, node *corev1.Node) Link {
	if node == nil {
		found := slices.DeleteFunc(c.free(c.ByIP), func(node *corev1.Node) bool { return Foreign(machine, node, c.Owners) })
		switch {
		case len(found) == 0:
			return Link{}
		case len(found) > 1:
			return Link{Conflict: fmt.Sprintf("Nodes %s have addresses of the Machine", nodeNames(found))}
		}
		node = found[0]
	}
	others := slices.DeleteFunc(contenders(machine, node, c.Others), func(other *machinev1beta1.Machine) bool {
		// A guest reports the addresses of its Machine. By reporting addresses of other Machines, it must not keep these Machines from their Nodes.
		linked := c.Linked[other.UID]
		return linked != nil && linked.UID != node.UID
	})
	if same := sameAddress(others, node); len(same) > 0 {
		return Link{Conflict: fmt.Sprintf("Machines %s and %s have addresses of Node %s", machine.Name, strings.Join(same, ", "), node.Name)}
	}
	return Link{Node: node}
}

// recorded returns the Node in the Machine's nodeRef, unless its providerID says that it is not the Machine's.
func (c *Candidates) recorded(machine *machinev1beta1.Machine) *corev1.Node {
	if c.Recorded == nil || Foreign(machine, c.Recorded, c.Owners) {
		return nil
	}
	return c.Recorded
}

// free returns the Nodes that are not in the nodeRef of another Machine.
func (c *Candidates) free(nodes []*corev1.Node) []*corev1.Node {
	return slices.DeleteFunc(slices.Clone(nodes), func(node *corev1.Node) bool {
		for _, linked := range c.Linked {
			if linked.UID == node.UID {
				return true
			}
		}
		return false
	})
}

// needsAddresses reports whether the providerID alone does not prove which Node is the Machine's.
func (c *Candidates) needsAddresses(machine *machinev1beta1.Machine) bool {
	return len(c.free(c.ByID)) == 0 || c.Recorded != nil && c.Recorded.Spec.ProviderID != ProviderID(machine)
}

// Foreign reports whether a Node's providerID says that the Node is not the Machine's, whatever its addresses or an old nodeRef say: addresses are
// reused. The Node is foreign if its providerID differs from the Machine's, or if another Machine has the same providerID. Others are Machines with
// the Node's providerID.
func Foreign(machine *machinev1beta1.Machine, node *corev1.Node, others []*machinev1beta1.Machine) bool {
	own, id := ProviderID(machine), node.Spec.ProviderID
	if id == "" || own == id {
		return false
	}
	return own != "" || slices.ContainsFunc(others, func(other *machinev1beta1.Machine) bool {
		return other.UID != machine.UID && ProviderID(other) == id
	})
}

// contenders returns the other Machines whose nodeRef matches a Node as well as the Machine's does. Only Drover writes nodeRef, while every author of
// Machines can write spec.providerID: a Machine with the providerID of another must not unlink that one from its Node. A nil Node is gone.
func contenders(machine *machinev1beta1.Machine, node *corev1.Node, others []*machinev1beta1.Machine) []*machinev1beta1.Machine {
	least := match(machine, node)
	return slices.DeleteFunc(slices.Clone(others), func(other *machinev1beta1.Machine) bool { return match(other, node) < least })
}

// match returns how well a Machine's nodeRef matches a Node: 2 if it names the Node itself, 1 if it names an earlier one of the name, 0 if neither.
func match(machine *machinev1beta1.Machine, node *corev1.Node) int {
	ref := machine.Status.NodeRef
	switch {
	case ref == nil:
		return 0
	case node != nil && ref.UID == node.UID:
		return 2
	case node == nil || ref.Name == node.Name:
		return 1
	}
	return 0
}

func sameProviderID(others []*machinev1beta1.Machine, id string) []string {
	var names []string
	for _, other := range others {
		if id != "" && ProviderID(other) == id {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return names
}

// sameAddress returns the names of Machines that could be linked to a Node by its address as well.
func sameAddress(others []*machinev1beta1.Machine, node *corev1.Node) []string {
	var names []string
	for _, other := range others {
		if id := ProviderID(other); id != "" && node.Spec.ProviderID != "" && id != node.Spec.ProviderID {
			continue
		}
		if slices.ContainsFunc(InternalIPs(other.Status.Addresses), func(ip string) bool {
			return slices.Contains(InternalIPs(node.Status.Addresses), ip)
		}) {
			names = append(names, other.Name)
		}
	}
	slices.Sort(names)
	return names
}

func nodeNames(nodes []*corev1.Node) string {
	names := make([]string, len(nodes))
	for i, node := range nodes {
		names[i] = node.Name
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// ProviderID returns the providerID of a Machine; empty for none.
func ProviderID(machine *machinev1beta1.Machine) string {
	if machine.Spec.ProviderID == nil {
		return ""
	}
	return *machine.Spec.ProviderID
}

const (
	// MaxInternalIPs is how many internal addresses of a Node or a Machine are read. A kubelet can write thousands into the status of its Node, and each
	// would be indexed, compared, and wake the Machines that have it; no Node has more than a few.
	MaxInternalIPs = 64
	// maxInternalIP is the length, in bytes, of the longest address that is read. No IP address is longer.
	maxInternalIP = 64
)

// InternalIPs returns the first MaxInternalIPs internal addresses. machine-api-operator uses only the first one, and does not find dual-stack
// Nodes by the second.
func InternalIPs(addresses []corev1.NodeAddress) []string {
	var ips []string
	for _, address := range addresses {
		if address.Type == corev1.NodeInternalIP && address.Address != "" && len(address.Address) <= maxInternalIP {
			if ips = append(ips, address.Address); len(ips) == MaxInternalIPs {
				break
			}
		}
	}
	return ips
}

// Ref returns status.nodeRef of a Machine for a Node.
func Ref(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
}
