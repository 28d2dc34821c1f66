package ownership

import (
	"slices"
	"strings"
)

// kubeletLabels are the labels below kubernetes.io that a kubelet may change on its own Node, as the admission plugin NodeRestriction has them
// (IsKubeletLabel in https://github.com/kubernetes/kubernetes/blob/master/staging/src/k8s.io/kubelet/pkg/apis/well_known_labels.go).
var kubeletLabels = []string{
	"kubernetes.io/hostname", "kubernetes.io/os", "kubernetes.io/arch", "beta.kubernetes.io/os", "beta.kubernetes.io/arch",
	"node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type", "topology.kubernetes.io/zone", "topology.kubernetes.io/region",
	"failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region",
}

// NodeRestricted reports whether the admission plugin NodeRestriction keeps a kubelet from changing an entry of its own Node: every taint, and the
// labels below kubernetes.io and k8s.io, except labels that describe the machine. A kubelet can write annotations, and so the record on its Node.
// Therefore such an entry is removed only if the record on the Machine, which a kubelet cannot write, names it too. See
// https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/#noderestriction
func NodeRestricted(kind Kind, key string) bool {
	switch kind {
	case Taint:
		return true
	case Label:
		domain, _, found := strings.Cut(key, "/")
		return found && (within(domain, "kubernetes.io") || within(domain, "k8s.io")) &&
			!within(domain, "kubelet.kubernetes.io") && !within(domain, "node.kubernetes.io") && !slices.Contains(kubeletLabels, key)
	default:
		return false
	}
}

// within reports whether a domain is another one or below it.
func within(domain, parent string) bool {
	return domain == parent || strings.HasSuffix(domain, "."+parent)
}

// NodeRestricted returns the keys of a kind that NodeRestriction keeps from a kubelet.
func (k Keys) NodeRestricted(kind Kind) Keys {
	return k.filter(func(key string) bool { return NodeRestricted(kind, key) })
}
