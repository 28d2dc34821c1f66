package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationReleased on a Node says for which version a run has let it go, and when.
const AnnotationReleased = "upgrade.drover.dev/released"

// Annotations and states of the machine-config-operator:
// https://github.com/openshift/machine-config-operator/blob/master/pkg/daemon/constants/constants.go
const (
	annotationState  = "machineconfiguration.openshift.io/state"
	annotationReason = "machineconfiguration.openshift.io/reason"
	// annotationDesired names the rendered MachineConfig that the node is to have.
	annotationDesired = "machineconfiguration.openshift.io/desiredConfig"
	stateWorking      = "Working"
)

// Release is what AnnotationReleased holds.
type Release struct {
	// Version is the one that was aimed at when the node was let go.
	Version string `json:"version"`
	// At is when that was.
	At metav1.Time `json:"at"`
}

// ReleaseOf reads a node's annotation; nil for none, or for one that cannot be read, which counts as none: the node is gated again.
func ReleaseOf(node *corev1.Node) *Release {
	release := &Release{}
	if err := json.Unmarshal([]byte(node.Annotations[AnnotationReleased]), release); err != nil {
		return nil
	}
	return release
}

// Marks are labels and annotations of a Node. Nil values are to be taken away.
type Marks struct {
	Labels, Annotations map[string]*string
}

// Empty tells that there is nothing to change.
func (m Marks) Empty() bool { return len(m.Labels) == 0 && len(m.Annotations) == 0 }

// Patch is the merge patch that makes the marks, on the node as it was seen and on no other.
func (m Marks) Patch(node *corev1.Node) ([]byte, error) {
	meta := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	if len(m.Labels) > 0 {
		meta["labels"] = m.Labels
	}
	if len(m.Annotations) > 0 {
		meta["annotations"] = m.Annotations
	}
	patch, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, fmt.Errorf("rendering the marks of node %s: %w", node.Name, err)
	}
	return patch, nil
}

// Gate are the marks that keep a node of a target in its paused pool: the run's label, and one for each rule. A node that was let go for the
// version that is aimed at keeps its freedom, and so does one that the machine-config-operator is at work on. Labels of rules that are not the
// run's any more go when no pool asks for them: asked are the keys that pools do ask for.
func Gate(node *corev1.Node, run types.UID, keys, asked []string, desired string) Marks {
	m := Marks{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if node.Labels[LabelRun] != string(run) {
		m.Labels[LabelRun] = new(string(run))
	}
	if free(node, run, keys) {
		if release := ReleaseOf(node); release != nil && (release.Version == desired || atWork(node)) {
			return m
		}
	}
	for _, key := range keys {
		if _, there := node.Labels[key]; !there {
			m.Labels[key] = new("")
		}
	}
	for _, key := range ruleKeys(node) {
		if !slices.Contains(keys, key) && !slices.Contains(asked, key) {
			m.Labels[key] = nil
		}
	}
	if _, there := node.Annotations[AnnotationReleased]; there {
		m.Annotations[AnnotationReleased] = nil
	}
	return m
}

// atWork tells whether the machine-config-operator is at work on a node, or about to be.
func atWork(node *corev1.Node) bool {
	desired := node.Annotations[annotationDesired]
	return node.Annotations[annotationState] == stateWorking || desired != "" && desired != node.Annotations[AnnotationCurrentConfig]
}

// Join is the mark of a node that is the canary pool's own: it is to stay there while the pool's selector asks for the run's label.
func Join(node *corev1.Node, run types.UID) Marks {
	m := Marks{Labels: map[string]*string{}}
	if node.Labels[LabelRun] != string(run) {
		m.Labels[LabelRun] = new(string(run))
	}
	for _, key := range ruleKeys(node) {
		m.Labels[key] = nil
	}
	return m
}

// LetGo are the marks that move a node to the canary pool.
func LetGo(node *corev1.Node, release Release) (Marks, error) {
	text, err := json.Marshal(release)
	if err != nil {
		return Marks{}, fmt.Errorf("rendering the release of node %s: %w", node.Name, err)
	}
	m := Marks{Labels: map[string]*string{}, Annotations: map[string]*string{AnnotationReleased: new(string(text))}}
	for _, key := range ruleKeys(node) {
		m.Labels[key] = nil
	}
	return m, nil
}

// TakeBack are the marks that move a node from the canary pool back to its own, in one step, so that no moment finds it in two pools or in
// none. One that is in its own has them, and one that was never let go is the canary pool's own.
func TakeBack(node *corev1.Node, run types.UID, keys []string) Marks {
	m := Marks{Labels: map[string]*string{}}
	if !free(node, run, keys) || ReleaseOf(node) == nil {
		return m
	}
	for _, key := range keys {
		m.Labels[key] = new("")
	}
	return m
}

// Strip takes all marks of a run away.
func Strip(node *corev1.Node, run types.UID) Marks {
	m := Marks{Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if node.Labels[LabelRun] != string(run) {
		return m
	}
	m.Labels[LabelRun] = nil
	for _, key := range ruleKeys(node) {
		m.Labels[key] = nil
	}
	if _, there := node.Annotations[AnnotationReleased]; there {
		m.Annotations[AnnotationReleased] = nil
	}
	return m
}

// free tells that a node of a run has none of the rules' labels, so that it is in the canary pool.
func free(node *corev1.Node, run types.UID, keys []string) bool {
	if node.Labels[LabelRun] != string(run) || len(keys) == 0 {
		return false
	}
	return !slices.ContainsFunc(keys, func(key string) bool {
		_, there := node.Labels[key]
		return there
	})
}

// ruleKeys are the keys of rules' labels on a node, sorted.
func ruleKeys(node *corev1.Node) []string {
	keys := slices.Collect(maps.Keys(node.Labels))
	keys = slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, LabelPrefix) })
	slices.Sort(keys)
	return keys
}
