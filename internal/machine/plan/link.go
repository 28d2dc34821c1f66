package plan

import (
	"fmt"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/nodelink"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/provider"
)

// anyNamespace in Settings.AdoptionNamespaces stands for all namespaces.
const anyNamespace = "*"

// Link is what has been found out about the Node of a Machine.
type Link struct {
	// Searched reports that the Node has been searched for.
	Searched bool
	// Node is the Machine's; nil for none. Linked reports that it belongs into nodeRef.
	Node   *corev1.Node
	Linked bool
	// Cleared reports that nodeRef names a Node that is not the Machine's, and Text why.
	Cleared bool
	Text    string
	// Conflict is why the Node of the Machine is ambiguous; empty if it is not.
	Conflict string
	// Refused is why the Machine may not adopt the Node with its providerID or address; empty if it may.
	Refused string
}

// LinkOf returns the link to the Node that has been found by providerID or address, or else to referred, the Node that nodeRef names, nil if it is
// gone: such a Node is known by its name and UID alone. Foreign reports that its providerID is not the Machine's.
func LinkOf(in *Input, found nodelink.Link, referred *corev1.Node, foreign bool) Link {
	link := Link{Searched: true, Conflict: found.Conflict}
	switch node := found.Node; {
	case node != nil && node.DeletionTimestamp == nil:
		if link.Refused = AdoptionRefusal(in, node); link.Refused == "" {
			link.Node, link.Linked = node, true
		}
	case link.Conflict != "" || referred == nil:
	case foreign:
		link.Cleared = true
		link.Text = fmt.Sprintf("Node %s has the providerID %s, which is not this Machine's; removing the Node from status.nodeRef",
			referred.Name, referred.Spec.ProviderID)
	case referred.UID == in.Machine.Status.NodeRef.UID:
		link.Node = referred
	}
	return link
}

// event returns what is reported about a link; the zero value for nothing.
func (l *Link) event() Event {
	switch {
	case l.Refused != "":
		return Warning(EventNotAdopted, l.Refused)
	case l.Conflict != "":
		return Warning(EventLinkConflict, l.Conflict)
	case l.Cleared:
		return Warning(EventLinkConflict, l.Text)
	}
	return Event{}
}

// AdoptionRefusal returns why the Machine may not have a Node that it does not have yet; empty if it may. A Machine names its Node by
// spec.providerID, which its author writes: without this check, anyone who can create Machines in any namespace could drain and delete any Node that
// has no Machine. The Node whose UID is in nodeRef is the Machine's already. Another Node is the Machine's if it is not older than the Machine and
// the Machine's provider knows it as the Machine's instance. Every other Node is adopted: the namespace must be allowed to adopt Nodes, and the Node
// may not belong to the control plane. The age alone proves nothing: when a kubelet registers anew, its Node is younger than any Machine that a user
// has made for it.
func AdoptionRefusal(in *Input, node *corev1.Node) string {
	machine, allowed := in.Machine, in.Settings.AdoptionNamespaces
	if ref := machine.Status.NodeRef; ref != nil && ref.UID == node.UID {
		return ""
	}
	what := "existed before the Machine"
	if node.CreationTimestamp.IsZero() || !node.CreationTimestamp.Before(&machine.CreationTimestamp) {
		if isNodeOf(in.State.Instance, node) || in.isNodeOfLost(node) {
			return ""
		}
		what = "is not known to the Machine's provider as the Machine's instance"
	}
	switch {
	case nodestate.IsControlPlane(node.Labels):
		return fmt.Sprintf("Node %s %s and is a control-plane node, which is never adopted", node.Name, what)
	case !slices.Contains(allowed, machine.Namespace) && !slices.Contains(allowed, anyNamespace):
		return fmt.Sprintf("Node %s %s, and Machines in namespace %s may not adopt Nodes; "+
			"add the namespace to machines.adoptionNamespaces if they may", node.Name, what, machine.Namespace)
	}
	return ""
}

// isNodeOf reports whether a Node belongs to an instance: by providerID, and if one of them has none, by internal IP address.
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

// isNodeOfLost reports whether a Node belongs to an instance that the provider has lost. It compares the providerID, and an internal IP address that
// Drover has recorded in the status, which the author of a Machine cannot write. Otherwise a process that ended before it recorded nodeRef would
// leave the Node behind.
func (in *Input) isNodeOfLost(node *corev1.Node) bool {
	id := nodelink.ProviderID(in.Machine)
	// An instance that this reconciliation has deleted was the Machine's as well.
	deleted := in.Confirm.Asked && in.Confirm.Err == nil && in.Confirm.Instance == nil
	if !in.isMissing() && !deleted || in.State.Instance != nil || id == "" || id != node.Spec.ProviderID {
		return false
	}
	return isNodeOf(&provider.Instance{Addresses: in.Machine.Status.Addresses}, node)
}

// LateNodeNames returns the names of a Node that may have registered just before its instance was deleted. The cache may not show this Node, and no
// other reconciliation would find it. The names are the usual names of Nodes: the Machine's and the instance's. It returns none if the Machine had no
// instance or if the Node is ambiguous.
func LateNodeNames(in *Input) []string {
	known := in.Known()
	if in.Link.Conflict != "" || !Provisioned(known) {
		return nil
	}
	names := []string{known.Name}
	if ref := known.Status.NodeRef; ref != nil {
		names = append(names, ref.Name)
	}
	for _, address := range known.Status.Addresses {
		if address.Type == corev1.NodeHostName || address.Type == corev1.NodeInternalDNS {
			names = append(names, address.Address)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// IsLateNode reports whether a Node found by one of these names is the Machine's.
func IsLateNode(in *Input, node *corev1.Node) bool {
	return node.Spec.ProviderID != "" && node.Spec.ProviderID == nodelink.ProviderID(in.Known()) && AdoptionRefusal(in, node) == ""
}

// recordedMachine returns the Machine with what the provider has returned in its spec and metadata; nil if nothing changes. An instance that is lost
// leaves an unknown state.
func recordedMachine(in *Input) *machinev1beta1.Machine {
	instance, failure := in.Instance(), in.failure()
	if instance == nil && failure == (Condition{}) {
		return nil
	}
	recorded := in.Machine.DeepCopy()
	if failure != (Condition{}) {
		put(&recorded.Annotations, AnnotationInstanceState, string(provider.Unknown))
	} else {
		if instance.ProviderID != "" && nodelink.ProviderID(recorded) == "" {
			recorded.Spec.ProviderID = &instance.ProviderID
		}
		for key, value := range labelsOf(instance) {
			if isLabelValue(value) {
				put(&recorded.Labels, key, value)
			}
		}
		put(&recorded.Annotations, AnnotationInstanceState, string(instance.State))
		if _, named := recorded.Labels[LabelCluster]; !named && nodelink.ProviderID(in.Machine) == "" {
			put(&recorded.Labels, LabelCluster, in.Settings.Cluster)
		}
	}
	if isRecorded(in.Machine, recorded) {
		return nil
	}
	return recorded
}

// labelsOf returns what the provider says for labels of the Machine.
func labelsOf(instance *provider.Instance) map[string]string {
	return map[string]string{LabelType: instance.Type, LabelRegion: instance.Region, LabelZone: instance.Zone}
}

// isLabelValue reports whether the API server accepts the value of a label. If it refuses a label, it refuses the providerID in the same patch, too.
func isLabelValue(value string) bool { return len(validation.IsValidLabelValue(value)) == 0 }

// invalidLabels returns the event for what the provider says that no label can hold; the zero value for none.
func (in *Input) invalidLabels() Event {
	instance := in.Instance()
	if instance == nil {
		return Event{}
	}
	var problems []string
	for key, value := range labelsOf(instance) {
		if !isLabelValue(value) {
			problems = append(problems, fmt.Sprintf("%q is no value for label %s", bounded.Beginning(value, 2*validation.LabelValueMaxLength), key))
		}
	}
	if len(problems) == 0 {
		return Event{}
	}
	slices.Sort(problems)
	return Warning(EventInvalidLabel, strings.Join(problems, "; ")+"; the Machine does not get what the provider says there")
}

// isNew reports whether the Node of an instance that is recorded now is about to register.
func isNew(in *Input) bool {
	instance := in.Instance()
	return instance != nil && nodelink.ProviderID(in.Machine) == "" && instance.ProviderID != "" && instance.State == provider.Running
}

func put(entries *map[string]string, key, value string) {
	if value == "" {
		return
	}
	if *entries == nil {
		*entries = map[string]string{}
	}
	(*entries)[key] = value
}

func isRecorded(before, after *machinev1beta1.Machine) bool {
	for _, key := range []string{LabelType, LabelRegion, LabelZone, LabelCluster} {
		if before.Labels[key] != after.Labels[key] {
			return false
		}
	}
	return before.Annotations[AnnotationInstanceState] == after.Annotations[AnnotationInstanceState] &&
		nodelink.ProviderID(before) == nodelink.ProviderID(after)
}
