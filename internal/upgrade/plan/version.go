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
	// VersionAuto is the lower of the label of the Node and its rendered MachineConfig, or whichever of them is known. The zero value is VersionAuto,
	// too.
	VersionAuto VersionSource = "Auto"
	// VersionLabel is the label of the Node only.
	VersionLabel VersionSource = "Label"
	// VersionConfig is the rendered MachineConfig only.
	VersionConfig VersionSource = "MachineConfig"
)

// VersionOf returns the version of a node; empty if it is not known. configOf returns the version of a rendered MachineConfig. A node is done when
// both say so: neither who can write the label nor who can write the annotation has it taken for upgraded alone.
func VersionOf(node *corev1.Node, from VersionSource, configOf func(name string) (version string)) string {
	label, ofConfig := node.Labels[LabelVersion], ""
	if from == VersionLabel {
		return label
	}
	if config := node.Annotations[AnnotationCurrentConfig]; config != "" {
		ofConfig = configOf(config)
	}
	if from == VersionConfig || label == "" {
		return ofConfig
	}
	if ofConfig == "" {
		return label
	}
	return lower(label, ofConfig)
}

// lower returns the lower one of the versions that the label of a node and its MachineConfig have. Of versions that cannot be compared it is that
// of the MachineConfig.
func lower(label, ofConfig string) string {
	a, err := version.ParseSemantic(label)
	if err != nil {
		return ofConfig
	}
	b, err := version.ParseSemantic(ofConfig)
	if err != nil || !a.LessThan(b) {
		return ofConfig
	}
	return label
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
