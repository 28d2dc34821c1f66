package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// operation is one step of a JSON Patch (RFC 6902). Value is always written: a test for null is how absence is tested.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// NodePatch renders a change as one JSON Patch of the Node as it was seen. Everything that is not Drover's yet is guarded by a
// `test`: a key that is set for the first time must still be absent, the taint list must be the one that was merged, and the
// record must be the one that was read. So a write of somebody else in the same millisecond fails the patch instead of being
// lost, while the status writes of kubelet, which also move resourceVersion, do not.
func NodePatch(node *corev1.Node, change Change) ([]byte, error) {
	b := &patchBuilder{}
	b.guardRecord(node.Annotations)
	b.entries("/metadata/labels", node.Labels, change.Results[ownership.Label], change.owned.Owned(ownership.Label))
	annotations := change.Results[ownership.Annotation]
	b.entries("/metadata/annotations", node.Annotations, annotations, change.owned.Owned(ownership.Annotation))
	b.text(node.Annotations, ownership.AnnotationRecord, change.Record)
	b.text(node.Annotations, ownership.AnnotationCustomLabels, change.CustomLabels)
	if taints := change.Results[ownership.Taint]; taints.Changed() {
		b.taints(node.Spec.Taints, ownership.ApplyTaints(node.Spec.Taints, taints))
	}
	return json.Marshal(b.operations)
}

// Foreseen tells whether a Node as the API server answered a NodePatch is what the change was to make of it. If it is not, another
// writer came in between, and what it wrote has still to be looked at. The answer holds no taints, so nothing is said of them.
func Foreseen(node *corev1.Node, change Change, answer *metav1.PartialObjectMetadata) bool {
	annotations := ownership.Apply(node.Annotations, change.Results[ownership.Annotation])
	for key, text := range map[string]string{
		ownership.AnnotationRecord: change.Record, ownership.AnnotationCustomLabels: change.CustomLabels,
	} {
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
	operations  []operation
	annotations bool
}

func (b *patchBuilder) add(op, path string, value any) {
	b.operations = append(b.operations, operation{Op: op, Path: path, Value: value})
}

func (b *patchBuilder) test(path string, present bool, value string) {
	if present {
		b.add("test", path, value)
		return
	}
	b.add("test", path, nil)
}

// guardRecord makes two operators that both think they lead take turns.
func (b *patchBuilder) guardRecord(annotations map[string]string) {
	if b.container("/metadata/annotations", annotations) {
		text, present := annotations[ownership.AnnotationRecord]
		b.test(pointer("/metadata/annotations", ownership.AnnotationRecord), present, text)
	}
	b.annotations = true
}

// container makes sure that a map is there to add to; it tells whether it was.
func (b *patchBuilder) container(path string, live map[string]string) bool {
	if len(live) > 0 {
		return true
	}
	b.add("test", path, nil)
	b.add("add", path, map[string]string{})
	return false
}

func (b *patchBuilder) entries(path string, live map[string]string, result ownership.Result, owned ownership.Keys) {
	if !result.Changed() {
		return
	}
	if path != "/metadata/annotations" || !b.annotations {
		b.container(path, live)
	}
	for _, key := range result.Remove {
		b.test(pointer(path, key), true, live[key])
		b.add("remove", pointer(path, key), nil)
	}
	for _, key := range ownership.KeysOf(result.Set).Sorted() {
		if value, present := live[key]; !owned.Has(key) || !present {
			b.test(pointer(path, key), present, value)
		}
		b.add("add", pointer(path, key), result.Set[key])
	}
}

// text sets or removes one of Drover's own annotations.
func (b *patchBuilder) text(live map[string]string, key, value string) {
	old, present := live[key]
	path := pointer("/metadata/annotations", key)
	switch {
	case value == "" && present:
		b.add("remove", path, nil)
	case value != "" && value != old:
		b.add("add", path, value)
	}
}

func (b *patchBuilder) taints(live, after []corev1.Taint) {
	if len(live) == 0 {
		b.add("test", "/spec/taints", nil)
	} else {
		b.add("test", "/spec/taints", live)
	}
	if len(after) == 0 {
		b.add("remove", "/spec/taints", nil)
		return
	}
	b.add("add", "/spec/taints", after)
}

// pointer joins a path and a key as RFC 6901 asks.
func pointer(path, key string) string {
	return path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key)
}

// MachinePatch renders a change as one merge patch of the Machine. It carries resourceVersion, since the taint list is atomic and
// a merge patch cannot test it; Machines, unlike Nodes, have no heartbeat that would make this conflict for nothing.
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
	patch := map[string]any{"metadata": metadata}
	if len(spec) > 0 {
		patch["spec"] = spec
	}
	text, err := json.Marshal(patch)
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
