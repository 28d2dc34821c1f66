// Package nodelink finds the Node of a Machine and the Machine of a Node: by providerID, and where that is missing by internal IP. It writes
// nothing: the machine controller puts what it finds into the Machine's status, and the metadata capability carries over what belongs on
// the Node.
package nodelink

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
)

// Link is what is known of a Machine's Node.
type Link struct {
	// Node is the Machine's, nil when there is none.
	Node *corev1.Node
	// Conflict says why none is linked although there is one; empty when nothing is wrong.
	Conflict string
}

// Candidates are what speaks for a link. Nothing of it is changed.
type Candidates struct {
	// ByID are the Nodes with the Machine's providerID, ByIP those with one of its internal addresses.
	ByID, ByIP []*corev1.Node
	// Rivals are other Machines with the same providerID, or with one of the same internal addresses, that are not being deleted.
	Rivals []*machinev1beta1.Machine
	// Owners are other Machines, deleted ones among them, with the providerID of a Node in ByIP.
	Owners []*machinev1beta1.Machine
}

// Decide picks the Node of a Machine. Where it is not clear it picks none: a wrong link would let one Machine's end take another one's Node.
func Decide(machine *machinev1beta1.Machine, c Candidates) Link {
	id := ProviderID(machine)
	if len(c.ByID) > 1 {
		return Link{Conflict: fmt.Sprintf("Nodes %s all have the providerID %s", nodeNames(c.ByID), id)}
	}
	var node *corev1.Node
	if len(c.ByID) == 1 {
		node = c.ByID[0]
	}
	if same := rivalsByID(contenders(machine, node, c.Rivals), id); id != "" && len(same) > 0 {
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
	if same := rivalsByIP(contenders(machine, found[0], c.Rivals), found[0]); len(same) > 0 {
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

// contenders are the rivals whose nodeRef says as much for a Node as the Machine's. Drover writes nodeRef, while spec.providerID is what anybody
// says who may create Machines: one that repeats the providerID of a Machine must not part that one from its Node. A nil Node is one that is gone.
func contenders(machine *machinev1beta1.Machine, node *corev1.Node, rivals []*machinev1beta1.Machine) []*machinev1beta1.Machine {
	least := standing(machine, node)
	return slices.DeleteFunc(slices.Clone(rivals), func(rival *machinev1beta1.Machine) bool { return standing(rival, node) < least })
}

// standing is how much a Machine's nodeRef says for a Node: 2 if it names the Node itself, 1 if it names one that had the name before, 0 if neither.
func standing(machine *machinev1beta1.Machine, node *corev1.Node) int {
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

func rivalsByID(rivals []*machinev1beta1.Machine, id string) []string {
	var names []string
	for _, rival := range rivals {
		if id != "" && ProviderID(rival) == id {
			names = append(names, rival.Name)
		}
	}
	slices.Sort(names)
	return names
}

// rivalsByIP are those that could be linked to a Node by its address, too.
func rivalsByIP(rivals []*machinev1beta1.Machine, node *corev1.Node) []string {
	var names []string
	for _, rival := range rivals {
		if id := ProviderID(rival); id != "" && node.Spec.ProviderID != "" && id != node.Spec.ProviderID {
			continue
		}
		if slices.ContainsFunc(InternalIPs(rival.Status.Addresses), func(ip string) bool {
			return slices.Contains(InternalIPs(node.Status.Addresses), ip)
		}) {
			names = append(names, rival.Name)
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

// ProviderID is a Machine's, empty for none.
func ProviderID(machine *machinev1beta1.Machine) string {
	if machine.Spec.ProviderID == nil {
		return ""
	}
	return *machine.Spec.ProviderID
}

// InternalIPs are the internal addresses, all of them: the incumbent looks at the first alone, and so misses Nodes with two families.
func InternalIPs(addresses []corev1.NodeAddress) []string {
	var ips []string
	for _, address := range addresses {
		if address.Type == corev1.NodeInternalIP && address.Address != "" {
			ips = append(ips, address.Address)
		}
	}
	return ips
}

// Ref is what status.nodeRef of a Machine says about a Node.
func Ref(node *corev1.Node) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Node", Name: node.Name, UID: node.UID}
}
