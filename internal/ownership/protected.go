package ownership

import (
	"fmt"
	"strings"
)

// Protected holds by kind the patterns of keys that belong to the system. In a pattern `*` stands for any text, also with slashes;
// everything else stands for itself. Taints are matched by key, whatever their effect. The zero value protects nothing.
type Protected struct {
	Labels      []string
	Annotations []string
	Taints      []string
}

// DefaultProtected lists the keys that Drover never sets or removes (spec metadata-sync.md 5.3 to 5.5): those which kubelet
// restores when it starts, which other controllers reconcile, or which say what the machine is.
func DefaultProtected() Protected {
	return Protected{
		Labels: []string{
			"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch",
			"beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type",
			"node.kubernetes.io/instance-type", "node.kubernetes.io/windows-build",
			"failure-domain.beta.kubernetes.io/*", "topology.*",
			"node-role.kubernetes.io/master", "node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/worker",
			"node-role.kubernetes.io/etcd", "node-role.kubernetes.io/arbiter",
			"machine.openshift.io/*", "hypershift.openshift.io/*", "node.openshift.io/*", "karpenter.sh/*",
			"cluster.x-k8s.io/*", "*.cluster.x-k8s.io/*", "feature.node.kubernetes.io/*", "*.feature.node.kubernetes.io/*",
			"remediation.medik8s.io/*",
		},
		Annotations: []string{
			AnnotationCustomLabels, "drover.dev/*",
			"machine.openshift.io/*", "machineconfiguration.openshift.io/*", "cluster.x-k8s.io/*", "karpenter.sh/*",
			"nfd.node.kubernetes.io/*", "node.alpha.kubernetes.io/ttl", "csi.volume.kubernetes.io/nodeid",
			"volumes.kubernetes.io/controller-managed-attach-detach", "kubeadm.alpha.kubernetes.io/*", "k8s.ovn.org/*",
			"node.machine.sapcloud.io/*", "kwok.x-k8s.io/*",
		},
		Taints: []string{
			"node.kubernetes.io/*", "node.cloudprovider.kubernetes.io/*", "node.cluster.x-k8s.io/*", "karpenter.sh/*",
			"ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler", "*.cluster-autoscaler.kubernetes.io/*",
			"UpdateInProgress", "medik8s.io/*", "*.medik8s.io/*", "kubevirt.io/drain",
			"node.gardener.cloud/critical-components-not-ready", "readiness.k8s.io/*",
			"feature.node.kubernetes.io/*", "*.feature.node.kubernetes.io/*",
		},
	}
}

// And returns both lists together.
func (p Protected) And(more Protected) Protected {
	return Protected{
		Labels:      append(append([]string{}, p.Labels...), more.Labels...),
		Annotations: append(append([]string{}, p.Annotations...), more.Annotations...),
		Taints:      append(append([]string{}, p.Taints...), more.Taints...),
	}
}

// Of makes the test for one kind, as Merge takes it.
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

// ValidatePattern tells what is wrong with a pattern: an empty one, one with blanks or commas, or a bare `*`, which would stop the
// whole capability.
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
