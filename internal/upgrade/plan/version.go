package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Names by which a node's version is known.
const (
	// LabelVersion on a Node, or an annotation of a rendered MachineConfig, holds the version of the release.
	LabelVersion = "machineconfiguration.openshift.io/release-image-version"
	// AnnotationCurrentConfig on a Node names its rendered MachineConfig.
	AnnotationCurrentConfig = "machineconfiguration.openshift.io/currentConfig"
)

// VersionOf is the version of a node: its label where there is one, else that of its rendered MachineConfig, which configOf looks up by
// name; empty when neither says.
func VersionOf(node *corev1.Node, configOf func(name string) (version string)) string {
	if label := node.Labels[LabelVersion]; label != "" {
		return label
	}
	if config := node.Annotations[AnnotationCurrentConfig]; config != "" {
		return configOf(config)
	}
	return ""
}

// Same tells whether two versions are the same, as semantic versions where both are: build data and a leading v do not count.
func Same(a, b string) bool {
	if a == b {
		return true
	}
	left, err := version.ParseSemantic(a)
	if err != nil {
		return false
	}
	right, err := version.ParseSemantic(b)
	return err == nil && left.EqualTo(right)
}
