package ownership

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// TaintID identifies a taint as the API server does: "key:Effect".
func TaintID(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }

// SplitTaintID reverses TaintID. A text without a colon is a key without an effect.
func SplitTaintID(id string) (key string, effect corev1.TaintEffect) {
	cut := strings.LastIndexByte(id, ':')
	if cut < 0 {
		return id, ""
	}
	return id[:cut], corev1.TaintEffect(id[cut+1:])
}

// TaintEntries returns a list of taints as entries for Merge. Of repeated taints the first counts, as everywhere in Drover.
func TaintEntries(taints []corev1.Taint) map[string]string {
	entries := make(map[string]string, len(taints))
	for _, taint := range taints {
		if id := TaintID(taint); !has(entries, id) {
			entries[id] = taint.Value
		}
	}
	return entries
}

// ApplyTaints returns the new list for a live one. All other taints keep their place and their timeAdded; changed ones keep their
// place too, and new ones come last, by name. The live list is not changed.
func ApplyTaints(live []corev1.Taint, result Result) []corev1.Taint {
	removed := NewKeys(result.Remove...)
	set := make(map[string]string, len(result.Set))
	for id, value := range result.Set {
		set[id] = value
	}
	out := make([]corev1.Taint, 0, len(live)+len(set))
	for _, taint := range live {
		id := TaintID(taint)
		if removed.Has(id) {
			continue
		}
		if value, ok := set[id]; ok {
			taint.Value = value
			delete(set, id)
		}
		out = append(out, taint)
	}
	for _, id := range KeysOf(set).Sorted() {
		key, effect := SplitTaintID(id)
		out = append(out, corev1.Taint{Key: key, Value: set[id], Effect: effect})
	}
	return slices.Clip(out)
}

// Apply returns the new entries for live ones. The live map is not changed.
func Apply(live map[string]string, result Result) map[string]string {
	out := make(map[string]string, len(live)+len(result.Set))
	for key, value := range live {
		out[key] = value
	}
	for _, key := range result.Remove {
		delete(out, key)
	}
	for key, value := range result.Set {
		out[key] = value
	}
	return out
}

func has(entries map[string]string, key string) bool { _, ok := entries[key]; return ok }
