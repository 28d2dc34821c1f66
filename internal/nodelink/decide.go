// Package nodelink finds the Node of a Machine and the Machine of a Node: by providerID, and where that is missing by internal IP. It writes
// nothing: the machine controller writes the link to the Machine's status, and the metadata capability applies what belongs on the Node.
package nodelink

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
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
	// ByID are the Nodes with the Machine's providerID, ByIP those with one of its internal addresses.
	ByID, ByIP []*corev1.Node
	// Others are other Machines with the same providerID, or with one of the same internal addresses, that are not being deleted.
	Others []*machinev1beta1.Machine
	// Owners are other Machines, deleted ones among them, with the providerID of a Node in ByIP.
	Owners []*machinev1beta1.Machine
}

// Decide returns the Node of a Machine. When it is ambiguous it returns none: with a wrong link, the deletion of one Machine would delete the Node of
// another.
func Decide(machine *machinev1beta1.Machine, c Candidates) Link {
	id := ProviderID(machine)
	if len(c.ByID) > 1 {
		return Link{Conflict: fmt.Sprintf("Nodes %s all have the providerID %s", nodeNames(c.ByID), id)}
	}
	var node *corev1.Node
	if len(c.ByID) == 1 {
		node = c.ByID[0]
	}
	if same := sameProviderID(contenders(machine, node, c.Others), id); id != "" && len(same) > 0 {
		return Link{Conflict: fmt.Sprintf("Machines %s and %s have the same providerID %s", machine.Name, strings.Join(same, ", "), id)}
	}
	if node != nil {
		return Link{Node: node}
	}
	found := slices.DeleteFunc(slices.Clone(c.ByIP), func(node *corev1.Node) bool { return Foreign(machine, node, c.Owners) })
	switch {
	case len(found) == 0:
		return Link{}
	case len(found) > 1:
		return Link{Conflict: fmt.Sprintf("Nodes %s have addresses of the Machine", nodeNames(found))}
	}
	if same := sameAddress(contenders(machine, found[0], c.Others), found[0]); len(same) > 0 {
		return Link{Conflict: fmt.Sprintf("Machines %s and %s have addresses of Node %s", machine.Name, strings.Join(same, ", "), found[0].Name)}
	}
	return Link{Node: found[0]}
}

// Foreign reports whether a Node's providerID says that it is not the Machine's, whatever its addresses or an old nodeRef say: addresses are
// reused. It is if it differs from the Machine's, or if it is that of another Machine. Others are Machines with the Node's providerID.
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

// InternalIPs returns all internal addresses. machine-api-operator uses only the first, and does not find dual-stack Nodes by the second.
func InternalIPs(addresses []corev1.NodeAddress) []string {
	var ips []string
	for _, address := range addresses {
		if address.Type == corev1.NodeInternalIP && address.Address != "" {
			ips = append(ips, address.Address)
		}
	}
	return ips
}

// Ref returns status.nodeRef of a Machine for a Node.
func Ref(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
}
