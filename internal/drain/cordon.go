package drain

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/patch"
)

// AnnotationCordon has the CordonRecord, as JSON, of a node that Drover has cordoned.
const AnnotationCordon = "drover.dev/cordon"

// cordonTaint is the taint that Kubernetes adds to a cordoned node.
var cordonTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// OutOfServiceTaint lets Kubernetes delete the pods of a node that is shut down.
var OutOfServiceTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// OutOfServiceTaintID returns the name of that taint in a CordonRecord.
func OutOfServiceTaintID() string { return taintID(OutOfServiceTaint) }

// Additions are the taints and labels that a node gets together with the cordon.
type Additions struct {
	// Taints of a key and effect that the node has already are not added, whatever their value.
	Taints []corev1.Taint
	Labels map[string]string
}

// CordonRecord records what was on a node before Drover cordoned it, so that Uncordon can restore it.
type CordonRecord struct {
	// By is the owner of the record: a word for the kind of work and the UID of the object that it is done for.
	By string `json:"by"`
	// Object is the namespace and name of that object, as namespace/name; empty for an object that is found by its UID.
	Object string `json:"object,omitempty"`
	// Since is when the node was cordoned, in seconds.
	Since time.Time `json:"since"`
	// CordonedByDrover reports whether Drover cordoned the node: it was not cordoned before.
	CordonedByDrover bool `json:"cordoned,omitempty"`
	// Taints are the taints that Drover added, as key:Effect, sorted.
	Taints []string `json:"taints,omitempty"`
	// Labels are the labels that Drover set, with their value before; nil for a label that was not there.
	Labels map[string]*string `json:"labels,omitempty"`
}

// Owner is the owner of a cordon record.
type Owner struct {
	// ID is a word for the kind of work and the UID of the object that it is done for.
	ID string
	// Object is the namespace and name of that object, as namespace/name; empty for an object that is found by its UID.
	Object string
}

// ReadCordonRecord returns the cordon record of a node, nil when there is none. It fails for a record that another writer has edited so that it
// cannot be parsed: what to restore is not known then.
func ReadCordonRecord(node *corev1.Node) (*CordonRecord, error) {
	text := node.Annotations[AnnotationCordon]
	if text == "" {
		return nil, nil
	}
	record := &CordonRecord{}
	if err := json.Unmarshal([]byte(text), record); err != nil {
		return nil, fmt.Errorf("annotation %s of node %s is not what Drover wrote (%w); put it right, or remove it to begin anew",
			AnnotationCordon, node.Name, err)
	}
	return record, nil
}

// Change is one patch of a node.
type Change struct {
	// Patch is a JSON Patch; nil when nothing changes.
	Patch []byte
	// Record is the cordon record after the patch; nil for a change that uncordons the node.
	Record *CordonRecord
	// Parts describe what the patch changes, sorted.
	Parts []string
}

// Cordon returns the change that cordons a node, adds taints and labels, and records what was there before, in one patch. before is the record on
// the node, or the record that the new record continues; nil for none. Cordon takes over the record of another owner: its time starts now, and only
// its restorable entries are kept.
func Cordon(node *corev1.Node, before *CordonRecord, owner Owner, additions Additions, now time.Time) (Change, error) {
	record := &CordonRecord{By: owner.ID, Object: owner.Object, Since: now.UTC().Truncate(time.Second), Labels: map[string]*string{}}
	if before != nil {
		if before.By == owner.ID {
			record.Since = before.Since
		} else {
			before = withoutForgedEntries(before, additions.withMaintenance())
		}
		record.CordonedByDrover, record.Taints = before.CordonedByDrover, slices.Clone(before.Taints)
		maps.Copy(record.Labels, before.Labels)
	}
	b, out := &patch.Builder{}, Change{Record: record}
	if !node.Spec.Unschedulable {
		record.CordonedByDrover = record.CordonedByDrover || before == nil
		b.Test("/spec/unschedulable", nil)
		b.Set("/spec/unschedulable", true)
		out.Parts = append(out.Parts, "cordoned")
	}
	out.addTaints(b, node, additions.Taints)
	out.addLabels(b, node, additions.Labels)
	return out, out.writeRecord(b, node)
}

// addTaints adds the missing taints. The taint of the cordon belongs to the cordon: on a node that was cordoned before, it is not recorded.
func (c *Change) addTaints(b *patch.Builder, node *corev1.Node, taints []corev1.Taint) {
	after := slices.Clone(node.Spec.Taints)
	for _, taint := range append([]corev1.Taint{cordonTaint}, taints...) {
		if slices.ContainsFunc(after, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			continue
		}
		after = append(after, taint)
		id := taintID(taint)
		c.Parts = append(c.Parts, "taint "+id)
		if !slices.Contains(c.Record.Taints, id) && (c.Record.CordonedByDrover || taint.Key != cordonTaint.Key) {
			c.Record.Taints = append(c.Record.Taints, id)
		}
	}
	slices.Sort(c.Record.Taints)
	if len(after) > len(node.Spec.Taints) {
		patch.List(b, "/spec/taints", node.Spec.Taints, after)
	}
}

// addLabels sets labels and records their values before.
func (c *Change) addLabels(b *patch.Builder, node *corev1.Node, labels map[string]string) {
	mapAdded := false
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		value := labels[key]
		old, present := node.Labels[key]
		if present && old == value {
			continue
		}
		if _, known := c.Record.Labels[key]; !known {
			c.Record.Labels[key] = nil
			if present {
				c.Record.Labels[key] = &old
			}
		}
		if !mapAdded {
			mapAdded = true
			b.Map("/metadata/labels", node.Labels)
		}
		b.TestEntry("/metadata/labels", node.Labels, key)
		b.Set(patch.Pointer("/metadata/labels", key), value)
		c.Parts = append(c.Parts, "label "+key)
	}
}

// writeRecord writes the record unless the node has the same one and nothing else changes.
func (c *Change) writeRecord(b *patch.Builder, node *corev1.Node) error {
	slices.Sort(c.Parts)
	if len(c.Record.Labels) == 0 {
		c.Record.Labels = nil
	}
	text, err := json.Marshal(c.Record)
	if err != nil {
		return fmt.Errorf("encoding the cordon record of node %s: %w", node.Name, err)
	}
	if b.Empty() && string(text) == node.Annotations[AnnotationCordon] {
		return nil
	}
	if b.Map("/metadata/annotations", node.Annotations) {
		b.TestEntry("/metadata/annotations", node.Annotations, AnnotationCordon)
	}
	b.Set(patch.Pointer("/metadata/annotations", AnnotationCordon), string(text))
	c.Patch, err = b.Bytes()
	return err
}

// Uncordon returns the change that restores what the record has, as far as it is restorable, and removes the record, in one patch. additions are the
// additions of Cordon: a label that another writer has changed since is kept.
func Uncordon(node *corev1.Node, record *CordonRecord, additions Additions) (Change, error) {
	b, out := &patch.Builder{}, Change{}
	additions = additions.withMaintenance()
	record = withoutForgedEntries(record, additions)
	if record.CordonedByDrover && node.Spec.Unschedulable {
		b.Test("/spec/unschedulable", true)
		b.Remove("/spec/unschedulable")
		out.Parts = append(out.Parts, "uncordoned")
	}
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return slices.Contains(record.Taints, taintID(t)) })
	if len(kept) < len(node.Spec.Taints) {
		patch.List(b, "/spec/taints", node.Spec.Taints, kept)
		out.Parts = append(out.Parts, fmt.Sprintf("taints %s", strings.Join(record.Taints, ", ")))
	}
	for _, key := range slices.Sorted(maps.Keys(record.Labels)) {
		before := record.Labels[key]
		if value, present := node.Labels[key]; !present || value != additions.Labels[key] {
			continue
		}
		b.TestEntry("/metadata/labels", node.Labels, key)
		if before == nil {
			b.Remove(patch.Pointer("/metadata/labels", key))
		} else {
			b.Set(patch.Pointer("/metadata/labels", key), *before)
		}
		out.Parts = append(out.Parts, "label "+key)
	}
	if _, present := node.Annotations[AnnotationCordon]; present {
		b.TestEntry("/metadata/annotations", node.Annotations, AnnotationCordon)
		b.Remove(patch.Pointer("/metadata/annotations", AnnotationCordon))
	}
	if b.Empty() {
		return out, nil
	}
	slices.Sort(out.Parts)
	var err error
	out.Patch, err = b.Bytes()
	return out, err
}

func taintID(taint corev1.Taint) string { return taint.Key + ":" + string(taint.Effect) }
