package plan

import (
	"encoding/json"
	"fmt"
	"maps"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/patch"
)

// NodePatch renders a change as one JSON Patch of the Node as it was observed. A `test` guards all that Drover does not own yet: a key that is set
// for the first time must still be absent, the list of taints must be the one that was merged, and the record must be the one that was read. A
// concurrent write of another writer then fails the patch instead of being lost, while the kubelet's writes of the status, which change the
// resourceVersion as well, do not.
func NodePatch(node *corev1.Node, change Change) ([]byte, error) {
	b := newPatchBuilder(node, change, ownership.AnnotationRecord)
	b.text(node.Annotations, ownership.AnnotationCustomLabels, change.CustomLabels)
	if change.Link != "" {
		b.text(node.Annotations, AnnotationMachine, change.Link)
	}
	return b.Bytes()
}

// newPatchBuilder returns the patch of a Node's entries and of the record in an annotation.
func newPatchBuilder(node *corev1.Node, change Change, record string) *patchBuilder {
	b := &patchBuilder{}
	b.guardRecord(node.Annotations, record)
	b.entries("/metadata/labels", node.Labels, change.Results[ownership.Label], change.owned.Owned(ownership.Label))
	annotations := change.Results[ownership.Annotation]
	b.entries("/metadata/annotations", node.Annotations, annotations, change.owned.Owned(ownership.Annotation))
	b.text(node.Annotations, record, change.Record)
	if taints := change.Results[ownership.Taint]; taints.Changed() {
		patch.List(&b.Builder, "/spec/taints", node.Spec.Taints, ownership.ApplyTaints(node.Spec.Taints, taints))
	}
	return b
}

// AsPlanned reports whether the API server's answer to a NodePatch is the Node that the change describes. If not, another writer has changed the Node
// as well, and it has to be reconciled again. The answer contains no taints, so they are not compared.
func AsPlanned(node *corev1.Node, change Change, answer *metav1.PartialObjectMetadata) bool {
	own := map[string]string{ownership.AnnotationRecord: change.Record, ownership.AnnotationCustomLabels: change.CustomLabels}
	if change.Link != "" {
		own[AnnotationMachine] = change.Link
	}
	return asPlanned(node, change, own, answer)
}

// asPlanned is AsPlanned for Drover's own annotations; an empty text is none.
func asPlanned(node *corev1.Node, change Change, own map[string]string, answer *metav1.PartialObjectMetadata) bool {
	annotations := ownership.Apply(node.Annotations, change.Results[ownership.Annotation])
	for key, text := range own {
		if text == "" {
			delete(annotations, key)
		} else {
			annotations[key] = text
		}
	}
	return answer.UID == node.UID && answer.DeletionTimestamp.IsZero() && maps.Equal(annotations, answer.Annotations) &&
		maps.Equal(ownership.Apply(node.Labels, change.Results[ownership.Label]), answer.Labels)
}

type patchBuilder struct {
	patch.Builder
	annotations bool
}

// guardRecord makes the patch fail when another process that believes it leads has written the record.
func (b *patchBuilder) guardRecord(annotations map[string]string, record string) {
	if b.Map("/metadata/annotations", annotations) {
		b.TestEntry("/metadata/annotations", annotations, record)
	}
	b.annotations = true
}

func (b *patchBuilder) entries(path string, live map[string]string, result ownership.Result, owned ownership.Keys) {
	if !result.Changed() {
		return
	}
	if path != "/metadata/annotations" || !b.annotations {
		b.Map(path, live)
	}
	for _, key := range result.Remove {
		b.Test(patch.Pointer(path, key), live[key])
		b.Remove(patch.Pointer(path, key))
	}
	for _, key := range ownership.KeysOf(result.Set).Sorted() {
		if _, present := live[key]; !owned.Has(key) || !present {
			b.TestEntry(path, live, key)
		}
		b.Set(patch.Pointer(path, key), result.Set[key])
	}
}

// text sets or removes one of Drover's own annotations.
func (b *patchBuilder) text(live map[string]string, key, value string) {
	old, present := live[key]
	path := patch.Pointer("/metadata/annotations", key)
	switch {
	case value == "" && present:
		b.Remove(path)
	case value != "" && value != old:
		b.Set(path, value)
	}
}

// MachinePatch renders a change as one merge patch of the Machine. It names the resourceVersion, since the list of taints is atomic and a merge patch
// cannot test it; Machines, unlike Nodes, have no heartbeat that would make this conflict needlessly.
func MachinePatch(machine *machinev1beta1.Machine, change Change) ([]byte, error) {
	annotations := map[string]any{}
	setOrRemove(annotations, machine.Annotations, ownership.AnnotationRecord, change.Record)
	metadata := map[string]any{"resourceVersion": machine.ResourceVersion}
	if len(annotations) > 0 {
		metadata["annotations"] = annotations
	}
	specMetadata := map[string]any{}
	for name, kind := range map[string]ownership.Kind{"labels": ownership.Label, "annotations": ownership.Annotation} {
		if result := change.Results[kind]; result.Changed() {
			specMetadata[name] = mergeEntries(result)
		}
	}
	spec := map[string]any{}
	if len(specMetadata) > 0 {
		spec["metadata"] = specMetadata
	}
	if taints := change.Results[ownership.Taint]; taints.Changed() {
		spec["taints"] = ownership.ApplyTaints(machine.Spec.Taints, taints)
	}
	changes := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		changes["spec"] = spec
	}
	text, err := json.Marshal(changes)
	if err != nil {
		return nil, fmt.Errorf("rendering the patch of Machine %s/%s: %w", machine.Namespace, machine.Name, err)
	}
	return text, nil
}

func setOrRemove(into map[string]any, live map[string]string, key, value string) {
	old, present := live[key]
	switch {
	case value == "" && present:
		into[key] = nil
	case value != "" && value != old:
		into[key] = value
	}
}

func mergeEntries(result ownership.Result) map[string]any {
	entries := make(map[string]any, len(result.Set)+len(result.Remove))
	for key, value := range result.Set {
		entries[key] = value
	}
	for _, key := range result.Remove {
		entries[key] = nil
	}
	return entries
}
