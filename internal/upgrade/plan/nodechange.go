package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/bounded"
)

// AnnotationReleased on a Node holds its Release.
const AnnotationReleased = "upgrade.drover.dev/released"

// Release says that a run has released a node.
type Release struct {
	// Version is the desired version at that time.
	Version string `json:"version"`
	// At is the time of the release.
	At metav1.Time `json:"at"`
}

// ReleaseOf returns the release of a node; nil for none. An unreadable release counts as none: the node is gated again.
func ReleaseOf(node *corev1.Node) *Release {
	release := &Release{}
	if err := json.Unmarshal([]byte(node.Annotations[AnnotationReleased]), release); err != nil || !bounded.IsEncodable(release.At.Time) {
		return nil
	}
	return release
}

// NodeChange is what a run changes of a Node.
type NodeChange struct {
	Node *corev1.Node
	// Labels and Annotations are set; nil values are removed.
	Labels, Annotations map[string]*string
	// ReleaseLease reports whether the node lease is released before the change.
	ReleaseLease bool
}

// Empty reports whether no label and no annotation changes.
func (c *NodeChange) Empty() bool { return len(c.Labels) == 0 && len(c.Annotations) == 0 }

// Patch returns the merge patch of the change. It fails if the Node has changed since it was observed.
func (c *NodeChange) Patch() []byte {
	metadata := map[string]any{"uid": c.Node.UID, "resourceVersion": c.Node.ResourceVersion}
	if len(c.Labels) > 0 {
		metadata["labels"] = c.Labels
	}
	if len(c.Annotations) > 0 {
		metadata["annotations"] = c.Annotations
	}
	return []byte(marshal(map[string]any{"metadata": metadata}))
}

// gateNode keeps a node of a target in its paused MachineConfigPool: by the label of the run and the labels of its rules. A node that was released
// for the desired version, or that the machine-config-operator is updating, stays released. Labels of rules that the run no longer has are removed
// unless a selector still requires them; required are those keys.
func gateNode(node *corev1.Node, run types.UID, keys, required []string, desired string) NodeChange {
	c := joinRun(node, run)
	if isReleased(node, run, keys) {
		if release := ReleaseOf(node); release != nil && (release.Version == desired || isUpdating(node)) {
			return c
		}
	}
	for _, key := range keys {
		if _, found := node.Labels[key]; !found {
			c.Labels[key] = new("")
		}
	}
	for _, key := range ruleKeys(node) {
		if !slices.Contains(keys, key) && !slices.Contains(required, key) {
			c.Labels[key] = nil
		}
	}
	c.removeRelease()
	return c
}

// joinRun sets the label of the run.
func joinRun(node *corev1.Node, run types.UID) NodeChange {
	c := NodeChange{Node: node, Labels: map[string]*string{}, Annotations: map[string]*string{}}
	if node.Labels[LabelRun] != string(run) {
		c.Labels[LabelRun] = new(string(run))
	}
	return c
}

// keepInCanary keeps a node of the canary there while the selector of the canary requires the label of the run.
func keepInCanary(node *corev1.Node, run types.UID) NodeChange {
	c := joinRun(node, run)
	c.removeRuleKeys()
	return c
}

// releaseNode moves a node to the canary.
func releaseNode(node *corev1.Node, release Release) *NodeChange {
	c := &NodeChange{Node: node, Labels: map[string]*string{}, Annotations: map[string]*string{AnnotationReleased: new(marshal(release))}}
	c.removeRuleKeys()
	return c
}

// returnNode moves a released node from the canary to its target in one patch, so that it is never in both or in none. It changes neither a node that
// is in its target nor the canary's own nodes, which were never released.
func returnNode(node *corev1.Node, run types.UID, keys []string) NodeChange {
	c := NodeChange{Node: node, Labels: map[string]*string{}}
	if isReleased(node, run, keys) && ReleaseOf(node) != nil {
		for _, key := range keys {
			c.Labels[key] = new("")
		}
	}
	return c
}

// stripNode removes everything that a run has set on a node.
func stripNode(node *corev1.Node, run types.UID) NodeChange {
	c := NodeChange{Node: node, Labels: map[string]*string{}, Annotations: map[string]*string{}, ReleaseLease: true}
	if node.Labels[LabelRun] == string(run) {
		c.Labels[LabelRun] = nil
		c.removeRuleKeys()
		c.removeRelease()
	}
	return c
}

func (c *NodeChange) removeRuleKeys() {
	for _, key := range ruleKeys(c.Node) {
		c.Labels[key] = nil
	}
}

func (c *NodeChange) removeRelease() {
	if _, found := c.Node.Annotations[AnnotationReleased]; found {
		c.Annotations[AnnotationReleased] = nil
	}
}

// isReleased reports whether a node of a run has none of the rules' labels, so that it is in the canary.
func isReleased(node *corev1.Node, run types.UID, keys []string) bool {
	return node.Labels[LabelRun] == string(run) && len(keys) > 0 && !slices.ContainsFunc(keys, func(key string) bool {
		_, found := node.Labels[key]
		return found
	})
}

// ruleKeys returns the keys of the labels of rules on a node, sorted.
func ruleKeys(node *corev1.Node) []string {
	keys := slices.Sorted(maps.Keys(node.Labels))
	return slices.DeleteFunc(keys, func(key string) bool { return !strings.HasPrefix(key, LabelPrefix) })
}
