package plan

import (
	"encoding/json"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/patch"
)

type patchBuilder struct {
	patch.Builder
	annotations bool
}

// guardRecords makes the patch fail when another process that believes it leads has written one of the records.
func (b *patchBuilder) guardRecords(annotations map[string]string, records ...string) {
	if b.Map("/metadata/annotations", annotations) {
		for _, record := range records {
			b.TestEntry("/metadata/annotations", annotations, record)
		}
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
