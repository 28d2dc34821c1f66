package plan

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/patch"
)

// NodeChange is what is written to a Node in one patch.
type NodeChange struct {
	// Set is what its MachineSet changes, and Group what its NodeGroup does; nil for nothing.
	Set, Group *Change
}

// layers returns the changes, by the annotation that holds the layer's ownership record.
func (c NodeChange) layers() map[string]*Change {
	layers := map[string]*Change{ownership.AnnotationRecord: c.Set, ownership.AnnotationGroupRecord: c.Group}
	maps.DeleteFunc(layers, func(_ string, change *Change) bool { return change == nil })
	return layers
}

// result merges what the layers set and remove, and returns the keys that their records name already. If both layers set a key, the MachineSet's
// value counts; if one sets and the other removes it, it is set.
func (c NodeChange) result(kind ownership.Kind) (result ownership.Result, owned ownership.Keys) {
	removed := ownership.Keys{}
	for _, change := range []*Change{c.Group, c.Set} {
		if change == nil {
			continue
		}
		for key, value := range change.Results[kind].Set {
			result.Put(key, value)
		}
		removed = removed.Union(ownership.NewKeys(change.Results[kind].Remove...))
		owned = owned.Union(change.owned.Owned(kind))
	}
	result.Remove = removed.Minus(ownership.KeysOf(result.Set)).Sorted()
	return result, owned
}

// ChangesTaints reports whether a taint is set or removed.
func (c NodeChange) ChangesTaints() bool {
	result, _ := c.result(ownership.Taint)
	return result.Changed()
}

// annotations returns Drover's own annotations after the change. An annotation with an empty text is removed.
func (c NodeChange) annotations() map[string]string {
	texts := map[string]string{}
	for record, change := range c.layers() {
		texts[record] = change.Record
	}
	if c.Set != nil {
		texts[ownership.AnnotationCustomLabels] = c.Set.CustomLabels
		if c.Set.Link != "" {
			texts[AnnotationMachine] = c.Set.Link
		}
	}
	return texts
}

// Patch renders the change as one JSON Patch of the Node as it was observed. A `test` guards what Drover does not own yet: a new key must still be
// absent, and the taints and the records must be unchanged. The patch then fails if another writer was faster, instead of losing that write. The
// kubelet's writes of the status do not make it fail, although they change the resourceVersion.
func (c NodeChange) Patch(node *corev1.Node) ([]byte, error) {
	b := &patchBuilder{}
	b.guardRecords(node.Annotations, slices.Sorted(maps.Keys(c.layers()))...)
	labels, owned := c.result(ownership.Label)
	b.entries("/metadata/labels", node.Labels, labels, owned)
	annotations, owned := c.result(ownership.Annotation)
	b.entries("/metadata/annotations", node.Annotations, annotations, owned)
	texts := c.annotations()
	for _, key := range slices.Sorted(maps.Keys(texts)) {
		b.text(node.Annotations, key, texts[key])
	}
	if taints, _ := c.result(ownership.Taint); taints.Changed() {
		patch.List(&b.Builder, "/spec/taints", node.Spec.Taints, ownership.ApplyTaints(node.Spec.Taints, taints))
	}
	return b.Bytes()
}

// AsPlanned reports whether the API server's answer to the patch is the Node that the change describes. If not, another writer has changed the Node
// as well, and it has to be reconciled again. The answer contains no taints, so they are not compared.
func (c NodeChange) AsPlanned(node *corev1.Node, answer *metav1.PartialObjectMetadata) bool {
	result, _ := c.result(ownership.Annotation)
	annotations := ownership.Apply(node.Annotations, result)
	for key, text := range c.annotations() {
		if text == "" {
			delete(annotations, key)
		} else {
			annotations[key] = text
		}
	}
	labels, _ := c.result(ownership.Label)
	return answer.UID == node.UID && answer.DeletionTimestamp.IsZero() && maps.Equal(annotations, answer.Annotations) &&
		maps.Equal(ownership.Apply(node.Labels, labels), answer.Labels)
}
