package drain

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// The taints and the label of a node in maintenance, in the two API groups of NodeMaintenance. The replaced operators set no others.
const (
	TaintMedik8s  = "medik8s.io/drain"
	TaintKubevirt = "kubevirt.io/drain"
	// LabelExclude keeps the remediators of the medik8s family away from a node.
	LabelExclude = "remediation.medik8s.io/exclude-from-remediation"
)

// MaintenanceAdditions are the taints and labels of a NodeMaintenance of any group, also of a group that this process does not serve. They can always
// be removed again.
var MaintenanceAdditions = Additions{
	Taints: []corev1.Taint{
		{Key: TaintMedik8s, Effect: corev1.TaintEffectNoSchedule}, {Key: TaintKubevirt, Effect: corev1.TaintEffectNoSchedule},
	},
	Labels: map[string]string{LabelExclude: "true"},
}

// withMaintenance returns the additions together with MaintenanceAdditions.
func (a Additions) withMaintenance() Additions {
	labels := maps.Clone(MaintenanceAdditions.Labels)
	maps.Copy(labels, a.Labels)
	return Additions{Taints: slices.Concat(MaintenanceAdditions.Taints, a.Taints), Labels: labels}
}

// withoutForgedEntries returns the part of a cordon record that may be restored: the cordon and its taint, and what is among the additions. A
// kubelet may write the annotations of its own Node, and so the record: the record does not authorize a change of anything else, above all not of
// the taints and labels that NodeRestriction protects against the kubelet. An invalid label value is dropped, because the API server would deny
// the whole patch.
func withoutForgedEntries(record *CordonRecord, additions Additions) *CordonRecord {
	ids := []string{taintID(cordonTaint)}
	for _, taint := range additions.Taints {
		ids = append(ids, taintID(taint))
	}
	kept := *record
	kept.Taints, kept.Labels = nil, map[string]*string{}
	for _, id := range slices.Compact(slices.Sorted(slices.Values(record.Taints))) {
		if slices.Contains(ids, id) {
			kept.Taints = append(kept.Taints, id)
		}
	}
	for key, before := range record.Labels {
		if _, added := additions.Labels[key]; !added {
			continue
		}
		if before != nil && len(validation.IsValidLabelValue(*before)) > 0 {
			before = nil
		}
		kept.Labels[key] = before
	}
	return &kept
}
