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

// VersionSource says where the version of a node is read.
type VersionSource string

// The sources.
const (
	// VersionAuto is the Node's label where there is one, else its rendered MachineConfig. The zero value counts as VersionAuto.
	VersionAuto VersionSource = "Auto"
	// VersionLabel is the Node's label alone.
	VersionLabel VersionSource = "Label"
	// VersionConfig is the rendered MachineConfig alone.
	VersionConfig VersionSource = "MachineConfig"
)

// VersionOf is the version of a node. ConfigOf tells that of a rendered MachineConfig by its name. It is empty when neither says.
func VersionOf(node *corev1.Node, from VersionSource, configOf func(name string) (version string)) string {
	if label := node.Labels[LabelVersion]; from == VersionLabel || label != "" && from != VersionConfig {
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
