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

// AnnotationCordon holds a CordonRecord as JSON, on a node that is cordoned by Drover.
const AnnotationCordon = "drover.dev/cordon"

// cordonTaint is what Kubernetes gives a cordoned node by itself, sooner or later.
var cordonTaint = corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}

// OutOfServiceTaint lets Kubernetes delete the pods of a node that is known to be off.
var OutOfServiceTaint = corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: "nodeshutdown", Effect: corev1.TaintEffectNoExecute}

// OutOfServiceTaintID is how that taint is named in a CordonRecord.
func OutOfServiceTaintID() string { return taintID(OutOfServiceTaint) }

// Additions are what a node gets while it is held, besides the cordon.
type Additions struct {
	// Taints have no value as a rule; one that is there with another value stays as it is.
	Taints []corev1.Taint
	Labels map[string]string
}

// CordonRecord is the record of what Drover has done to a node, and so of what there is to undo.
type CordonRecord struct {
	// By is who holds the node: a word for the kind of work and the UID of the object that asks for it.
	By string `json:"by"`
	// Object is the namespace and name of that object, as namespace/name; empty for one that is found by its UID.
	Object string `json:"object,omitempty"`
	// Since is when the node was cordoned, in seconds.
	Since time.Time `json:"since"`
	// Cordoned tells that the node was not cordoned before.
	Cordoned bool `json:"cordoned,omitempty"`
	// Taints are the taints that were not there before, as key:Effect, sorted.
	Taints []string `json:"taints,omitempty"`
	// Labels are the labels that were not there before, or had another value: then with that value.
	Labels map[string]*string `json:"labels,omitempty"`
}

// Owner is who takes a node.
type Owner struct {
	// ID is a word for the kind of work and the UID of the object that asks for it.
	ID string
	// Object is the namespace and name of that object, as namespace/name, where it is not found by its UID.
	Object string
}

// ReadCordonRecord returns the record on a node, nil when there is none. One that cannot be read is an error: somebody has edited it, and what
// to undo is not known.
func ReadCordonRecord(node *corev1.Node) (*CordonRecord, error) {
	text := node.Annotations[AnnotationCordon]
	if text == "" {
		return nil, nil
	}
	hold := &CordonRecord{}
	if err := json.Unmarshal([]byte(text), hold); err != nil {
		return nil, fmt.Errorf("annotation %s of node %s is not what Drover wrote (%w); put it right, or remove it to begin anew",
			AnnotationCordon, node.Name, err)
	}
	return hold, nil
}

// Change is one patch of a node.
type Change struct {
	// Patch is a JSON Patch; nil when there is nothing to do.
	Patch []byte
	// CordonRecord is the record after it, nil when the node is given back.
	Record *CordonRecord
	// Parts says for people what the patch does to the node, sorted.
	Parts []string
}

// Take cordons and marks a node, and records what was there before, in one patch. Before is the record that is on the node, or the one
// that it is to inherit; nil for none. On a node that has everything already there is nothing to do. The record of another owner is taken over:
// time counts from now, and only what is releasable is kept of it.
func Cordon(node *corev1.Node, before *CordonRecord, by Owner, marks Additions, now time.Time) (Change, error) {
	hold := &CordonRecord{By: by.ID, Object: by.Object, Since: now.UTC().Truncate(time.Second), Labels: map[string]*string{}}
	if before != nil {
		if before.By == by.ID {
			hold.Since = before.Since
		} else {
			before = releasable(before, marks.withMaintenance())
		}
		hold.Cordoned, hold.Taints = before.Cordoned, slices.Clone(before.Taints)
		maps.Copy(hold.Labels, before.Labels)
	}
	b, out := &patch.Builder{}, Change{Record: hold}
	if !node.Spec.Unschedulable {
		hold.Cordoned = hold.Cordoned || before == nil
		b.Test("/spec/unschedulable", nil)
		b.Set("/spec/unschedulable", true)
		out.Parts = append(out.Parts, "cordoned")
	}
	out.takeTaints(b, node, marks.Taints)
	out.takeLabels(b, node, marks.Labels)
	return out, out.record(b, node)
}

// takeTaints adds what is missing. The taint of the cordon belongs to the cordon: on a node that was cordoned before it is not ours.
func (c *Change) takeTaints(b *patch.Builder, node *corev1.Node, taints []corev1.Taint) {
	after := slices.Clone(node.Spec.Taints)
	for _, taint := range append([]corev1.Taint{cordonTaint}, taints...) {
		if slices.ContainsFunc(after, func(t corev1.Taint) bool { return t.MatchTaint(&taint) }) {
			continue
		}
		after = append(after, taint)
		id := taintID(taint)
		c.Parts = append(c.Parts, "taint "+id)
		if !slices.Contains(c.Record.Taints, id) && (c.Record.Cordoned || taint.Key != cordonTaint.Key) {
			c.Record.Taints = append(c.Record.Taints, id)
		}
	}
	slices.Sort(c.Record.Taints)
	if len(after) > len(node.Spec.Taints) {
		patch.List(b, "/spec/taints", node.Spec.Taints, after)
	}
}

func (c *Change) takeLabels(b *patch.Builder, node *corev1.Node, labels map[string]string) {
	ready := false
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
		if !ready {
			ready = true
			b.Map("/metadata/labels", node.Labels)
		}
		b.TestEntry("/metadata/labels", node.Labels, key)
		b.Set(patch.Pointer("/metadata/labels", key), value)
		c.Parts = append(c.Parts, "label "+key)
	}
}

// record writes the new record if it is another one than the node has.
func (c *Change) record(b *patch.Builder, node *corev1.Node) error {
	slices.Sort(c.Parts)
	if len(c.Record.Labels) == 0 {
		c.Record.Labels = nil
	}
	text, err := json.Marshal(c.Record)
	if err != nil {
		return fmt.Errorf("recording what is done to node %s: %w", node.Name, err)
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

// Give undoes what the record says, as far as it is releasable, and nothing else, and removes the record, in one patch. Additions are what Take has
// given: a label that somebody has changed since is theirs.
func Uncordon(node *corev1.Node, hold *CordonRecord, marks Additions) (Change, error) {
	b, out := &patch.Builder{}, Change{}
	marks = marks.withMaintenance()
	hold = releasable(hold, marks)
	if hold.Cordoned && node.Spec.Unschedulable {
		b.Test("/spec/unschedulable", true)
		b.Remove("/spec/unschedulable")
		out.Parts = append(out.Parts, "uncordoned")
	}
	kept := slices.DeleteFunc(slices.Clone(node.Spec.Taints), func(t corev1.Taint) bool { return slices.Contains(hold.Taints, taintID(t)) })
	if len(kept) < len(node.Spec.Taints) {
		patch.List(b, "/spec/taints", node.Spec.Taints, kept)
		out.Parts = append(out.Parts, fmt.Sprintf("taints %s", strings.Join(hold.Taints, ", ")))
	}
	for _, key := range slices.Sorted(maps.Keys(hold.Labels)) {
		before := hold.Labels[key]
		if value, present := node.Labels[key]; !present || value != marks.Labels[key] {
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
