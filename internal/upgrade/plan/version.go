package plan

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
)

// Where the version of a node is recorded.
const (
	// LabelVersion on a Node, or an annotation of a rendered MachineConfig, holds the version of the release.
	LabelVersion = "machineconfiguration.openshift.io/release-image-version"
	// AnnotationCurrentConfig on a Node names its rendered MachineConfig.
	AnnotationCurrentConfig = "machineconfiguration.openshift.io/currentConfig"
)

// VersionSource says from where the version of a node is read.
type VersionSource string

// The sources.
const (
	// VersionAuto is the label of the Node, or its rendered MachineConfig if there is no label. The zero value is VersionAuto, too.
	VersionAuto VersionSource = "Auto"
	// VersionLabel is the label of the Node only.
	VersionLabel VersionSource = "Label"
	// VersionConfig is the rendered MachineConfig only.
	VersionConfig VersionSource = "MachineConfig"
)

// VersionOf returns the version of a node; empty if it is not known. configOf returns the version of a rendered MachineConfig.
func VersionOf(node *corev1.Node, from VersionSource, configOf func(name string) (version string)) string {
	if label := node.Labels[LabelVersion]; from == VersionLabel || label != "" && from != VersionConfig {
		return label
	}
	if config := node.Annotations[AnnotationCurrentConfig]; config != "" {
		return configOf(config)
	}
	return ""
}

// SameVersion reports whether two versions are the same. Of semantic versions, a leading v and the build metadata are ignored.
func SameVersion(a, b string) bool {
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
