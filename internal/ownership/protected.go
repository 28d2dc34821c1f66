package ownership

import (
	"fmt"
	"slices"
	"strings"
)

// Protected holds by kind the patterns of keys that belong to the system. In a pattern `*` stands for any text, also with slashes;
// everything else stands for itself. Taints are matched by key, whatever their effect. The zero value protects nothing.
type Protected struct {
	Labels      []string
	Annotations []string
	Taints      []string
}

// systemKeys lists what the kubelet or a cloud's node controller sets and restores, what makes a node restricted, and what guards, budgets, the
// gate of upgrades and NodeGroups believe of a Node. Everything else a MachineSet may declare, as with machine-api-operator's nodelink controller.
func systemKeys() Protected {
	return Protected{
		Labels: []string{
			// The kubelet's defaults (updateDefaultLabels in pkg/kubelet/kubelet_node_status.go), which a cloud's node controller sets, too.
			"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
			"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
			"topology.kubernetes.io/zone", "topology.kubernetes.io/region",
			"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
			// Workloads are isolated by these: the admission plugin NodeRestriction keeps kubelets from setting them.
			"node-restriction.kubernetes.io/*", "*.node-restriction.kubernetes.io/*",
			// The quorum guard counts Nodes with these, and NodeGroups leave them out.
			"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master",
			// The gate of upgrades reads the version of a Node here.
			"machineconfiguration.openshift.io/*",
		},
		Annotations: []string{
			"volumes.kubernetes.io/controller-managed-attach-detach", "csi.volume.kubernetes.io/nodeid", "alpha.kubernetes.io/provided-node-ip",
			"node.alpha.kubernetes.io/ttl",
			// The gate of upgrades and budgets read here what the machine-config-operator does, budgets what kured does.
			"machineconfiguration.openshift.io/*", "weave.works/kured-reboot-in-progress",
			// Network plugins route the traffic of other nodes by these.
			"k8s.ovn.org/*", "flannel.alpha.coreos.com/*", "projectcalico.org/*", "network.cilium.io/*", "io.cilium.network.*",
			// NodeGroups select Nodes by their owner in the Cluster API (spec.nodes.clusterAPI).
			"cluster.x-k8s.io/cluster-name", "cluster.x-k8s.io/cluster-namespace", "cluster.x-k8s.io/owner-kind", "cluster.x-k8s.io/owner-name",
		},
		Taints: []string{
			"node.kubernetes.io/*", "node.cloudprovider.kubernetes.io/*",
			// These say what a controller is doing with the node: they come and go while it works.
			"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "UpdateInProgress",
			// The same, and budgets do not count the Nodes, or count them as unavailable.
			"karpenter.sh/disrupted", "karpenter.sh/unregistered", "node.cluster.x-k8s.io/uninitialized",
		},
	}
}

// ownKeys lists what Drover itself writes by other means: its records, the link to the Machine, the taints of a maintenance, and the labels and
// annotations of gated upgrades.
func ownKeys() Protected {
	return Protected{
		Labels:      []string{"upgrade.drover.dev/*", "mutexrule.openshift-optional.skrzypek.io/*"},
		Annotations: []string{AnnotationCustomLabels, "drover.dev/*", "upgrade.drover.dev/*", "machine.openshift.io/machine"},
		Taints:      []string{"medik8s.io/drain", "kubevirt.io/drain", "drover.dev/uninitialized"},
	}
}

// DefaultProtected returns the keys that metadata never sets or removes unless the configuration says otherwise.
func DefaultProtected() Protected { return NewProtected(Protected{}, Protected{}) }

// NewProtected returns the built-in patterns, plus the patterns of added, minus the patterns of removed. Drover's own keys are always protected.
func NewProtected(added, removed Protected) Protected {
	system := systemKeys()
	return Protected{
		Labels: without(system.Labels, removed.Labels), Annotations: without(system.Annotations, removed.Annotations),
		Taints: without(system.Taints, removed.Taints),
	}.and(ownKeys()).and(added)
}

func without(patterns, removed []string) []string {
	return slices.DeleteFunc(patterns, func(pattern string) bool { return slices.Contains(removed, pattern) })
}

// ValidateRemoved checks a pattern that is to be taken off the built-in ones of a kind.
func ValidateRemoved(kind Kind, pattern string) error {
	system := systemKeys()
	known := map[Kind][]string{Label: system.Labels, Annotation: system.Annotations, Taint: system.Taints}[kind]
	if slices.Contains(known, pattern) {
		return nil
	}
	return fmt.Errorf("this is none of the built-in patterns that can be removed: %s", strings.Join(known, ", "))
}

// and returns both lists together.
func (p Protected) and(more Protected) Protected {
	return Protected{
		Labels:      append(append([]string{}, p.Labels...), more.Labels...),
		Annotations: append(append([]string{}, p.Annotations...), more.Annotations...),
		Taints:      append(append([]string{}, p.Taints...), more.Taints...),
	}
}

// Of returns a function that reports whether a key of one kind is protected, for Input.
func (p Protected) Of(kind Kind) func(key string) bool {
	switch kind {
	case Label:
		return func(key string) bool { return matchAny(p.Labels, key) }
	case Annotation:
		return func(key string) bool { return matchAny(p.Annotations, key) }
	default:
		return func(id string) bool {
			key, _ := SplitTaintID(id)
			return matchAny(p.Taints, key)
		}
	}
}

// ValidatePattern returns what is wrong with a pattern: it is empty, contains blanks or commas, or is a bare `*`, which would stop the capability.
func ValidatePattern(pattern string) error {
	switch {
	case pattern == "":
		return fmt.Errorf("a pattern must not be empty")
	case strings.ContainsAny(pattern, " \t\n,"):
		return fmt.Errorf("a pattern holds no blanks or commas; write one entry per key")
	case strings.Trim(pattern, "*/") == "":
		return fmt.Errorf("this pattern matches every key; leave metadata out of --controllers to stop the capability")
	}
	return nil
}

func matchAny(patterns []string, key string) bool {
	for _, pattern := range patterns {
		if match(pattern, key) {
			return true
		}
	}
	return false
}

// match compares in time linear in the text: after a failed literal only the last star can move on.
func match(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && pattern[p] == text[t]:
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}
