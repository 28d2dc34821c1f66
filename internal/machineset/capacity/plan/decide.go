// Package plan decides which annotations with the capacity of its Nodes a MachineSet gets, and which of them are a user's.
package plan

import (
	"encoding/json"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/provider"
)

// Protected says which labels and taints of a template Drover does not apply to Nodes. The zero value is none.
type Protected struct {
	Label func(key string) bool
	Taint func(taint corev1.Taint) bool
}

// withoutProtected returns the labels and taints of a template that Drover applies to Nodes.
func withoutProtected(spec *machinev1beta1.MachineSpec, protected Protected) (labels map[string]string, taints []corev1.Taint) {
	labels, taints = maps.Clone(spec.Labels), slices.Clone(spec.Taints)
	if protected.Label != nil {
		maps.DeleteFunc(labels, func(key, _ string) bool { return protected.Label(key) })
	}
	if protected.Taint != nil {
		taints = slices.DeleteFunc(taints, protected.Taint)
	}
	return labels, taints
}

// Annotations returns the annotations that a MachineSet gets, and whether they differ from its current annotations. If the provider reports no
// capacity, capacity is nil, and Annotations removes what Drover has written before.
//
// A value that differs from Drover's record is a user's and stays. A value that was there before Drover wrote anything stays as well, with two
// exceptions: it equals the provider's value, or it says that no size is known. Then another operator has written it, such as machine-api-operator,
// and Drover takes it over.
//
// Protected keys of the template are left out: Drover does not apply them to Nodes.
func Annotations(
	set *machinev1beta1.MachineSet, capacity *provider.Capacity, protected Protected,
) (after map[string]string, changed bool) {
	before := set.Annotations
	record, recorded := RecordOf(before, machineapi.CapacityAnnotation)
	copies, _ := RecordOf(before, machineapi.CapacityCopyAnnotation)
	if capacity == nil && !recorded {
		return before, false
	}
	isOwn := func(key string, value string) bool {
		written, own := record[key]
		copied, isCopy := copies[key]
		return own && written == value || isCopy && copied == value
	}
	values := map[string]string{}
	if capacity != nil {
		values = valuesOf(set, capacity, protected)
		if !recorded {
			isOwn = adopting(isOwn, before, values)
		}
		values = valuesOf(set, withUserValues(capacity, before, isOwn), protected)
	}
	after = map[string]string{}
	maps.Copy(after, before)
	setRecord(after, machineapi.CapacityAnnotation, merge(after, copies, values, isOwn), capacity != nil)
	setRecord(after, machineapi.CapacityCopyAnnotation, copies, false)
	return after, !maps.Equal(before, after)
}

// merge writes values to annotations, except where a user has set the annotation, and returns what is recorded. A copy that is overwritten or removed
// does not count as a copy any more.
func merge(annotations, copies, values map[string]string, isOwn func(key, value string) bool) (record map[string]string) {
	record = map[string]string{}
	for _, key := range machineapi.CapacityAnnotations() {
		has, found := annotations[key]
		if found && !isOwn(key, has) {
			continue
		}
		delete(copies, key)
		if value, wanted := values[key]; wanted {
			annotations[key], record[key] = value, value
		} else {
			delete(annotations, key)
		}
	}
	return record
}

// adopting also treats values of other operators as Drover's own: values that equal the provider's, and values that say that no size is known.
func adopting(isOwn func(key, value string) bool, before, values map[string]string) func(key, value string) bool {
	return func(key, value string) bool {
		wanted, found := values[key]
		return isOwn(key, value) || found && isEqual(wanted, value) || value == unknownSize && isUnknown(before, key)
	}
}

// isEqual reports whether two values are the same or equal quantities: cluster-autoscaler-operator writes memory in bytes.
func isEqual(a, b string) bool {
	if a == b {
		return true
	}
	first, ok1 := machineapi.ParseQuantity(a)
	second, ok2 := machineapi.ParseQuantity(b)
	return ok1 && ok2 && first.Cmp(second) == 0
}

// unknownSize is what machine-api-operator writes for vSphere where a providerSpec has no size.
const unknownSize = "0"

// isUnknown reports whether the annotation of machine-api-operator for the resource of a key has no size. cluster-autoscaler-operator copies it to
// the other family.
func isUnknown(annotations map[string]string, key string) bool {
	for _, o := range overrides {
		if slices.Contains(o.keys, key) {
			return annotations[o.old] == unknownSize
		}
	}
	return false
}

// RecordOf reads a record. An unreadable record counts as empty: what it has recorded is a user's from then on.
func RecordOf(annotations map[string]string, key string) (record map[string]string, found bool) {
	text, found := annotations[key]
	if json.Unmarshal([]byte(text), &record) != nil || record == nil {
		record = map[string]string{}
	}
	return record, found
}

// setRecord writes a record. It removes an empty record unless keep is set.
func setRecord(annotations map[string]string, key string, record map[string]string, keep bool) {
	if len(record) == 0 && !keep {
		delete(annotations, key)
		return
	}
	if text, err := json.Marshal(record); err == nil {
		annotations[key] = string(text)
	}
}
