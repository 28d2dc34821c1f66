package drain

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// What marks a node in maintenance besides the cordon, in the two API groups of NodeMaintenance. The replaced operators leave no other mark.
const (
	TaintMedik8s  = "medik8s.io/drain"
	TaintKubevirt = "kubevirt.io/drain"
	// LabelExclude keeps the remediators of the medik8s family away from a node.
	LabelExclude = "remediation.medik8s.io/exclude-from-remediation"
)

// MaintenanceAdditions are the marks that a maintenance of any group has ever given, also one of a group that this process does not serve. They can
// always be taken off again.
var MaintenanceAdditions = Additions{
	Taints: []corev1.Taint{
		{Key: TaintMedik8s, Effect: corev1.TaintEffectNoSchedule}, {Key: TaintKubevirt, Effect: corev1.TaintEffectNoSchedule},
	},
	Labels: map[string]string{LabelExclude: "true"},
}

// withMaintenance returns marks and those of a maintenance.
func (m Additions) withMaintenance() Additions {
	labels := maps.Clone(MaintenanceAdditions.Labels)
	maps.Copy(labels, m.Labels)
	return Additions{Taints: slices.Concat(MaintenanceAdditions.Taints, m.Taints), Labels: labels}
}

// releasable returns the part of a cordon record that may be undone: the cordon and its taint, and what is among some marks. A kubelet writes
// the annotations of its own Node, and so the record: nothing else that the record names may be changed on its word, above all not the taints and
// labels that NodeRestriction keeps a kubelet from changing. A value that no label can have is dropped: with it the API server would refuse the
// whole patch.
func releasable(record *CordonRecord, marks Additions) *CordonRecord {
	ids := []string{taintID(cordonTaint)}
	for _, taint := range marks.Taints {
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
		if _, marked := marks.Labels[key]; !marked {
			continue
		}
		if before != nil && len(validation.IsValidLabelValue(*before)) > 0 {
			before = nil
		}
		kept.Labels[key] = before
	}
	return &kept
}
