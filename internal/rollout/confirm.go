package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// LabelChanges returns what becomes of the labels of the Nodes that are to be written, those among them that the group has left.
func (in *Input) LabelChanges() (changes []LabelChange) {
	for _, nodes := range [][]Node{in.Nodes, in.Released} {
		for i := range nodes {
			if change := nodes[i].labelChange(); change != nil {
				changes = append(changes, *change)
			}
		}
	}
	return changes
}

// labelChange returns what becomes of the labels of a Node; nil for nothing.
func (n *Node) labelChange() *LabelChange {
	result := n.Metadata.Change.Results[ownership.Label]
	if !n.Metadata.Change.Write || !result.Changed() {
		return nil
	}
	return &LabelChange{Node: n.Name, Before: n.Labels, After: ownership.Apply(n.Labels, result)}
}

// LostLabels returns what becomes of the labels of the Nodes that lose one, or get another value of one, in waves or because they have left the
// group, without what drover.dev/confirm-label-changes names. New labels and the repair of a manual edit need no confirmation.
func (in *Input) LostLabels() (changes []LabelChange) {
	confirmed := in.confirmed()
	add := func(change *LabelChange) {
		if change != nil && slices.ContainsFunc(change.lost(), func(key string) bool { return !confirmed[key] }) {
			changes = append(changes, *change)
		}
	}
	for i := range in.Nodes {
		if !in.Nodes[i].Metadata.Drift {
			add(in.Nodes[i].labelChange())
		}
	}
	for i := range in.Released {
		if node := &in.Released[i]; !in.delayEnd(node).After(in.Now) {
			add(node.released())
		}
	}
	return changes
}

// released returns what becomes of the labels that the group has declared, of a Node that has left it; nil for nothing. What another group declares
// is for that one to confirm.
func (n *Node) released() *LabelChange {
	change := n.labelChange()
	if change == nil {
		return nil
	}
	change.Released = true
	owned := n.Owned.Of(ownership.Label)
	maps.DeleteFunc(change.After, func(key, _ string) bool { return !owned.Has(key) })
	for key, value := range change.Before {
		if !owned.Has(key) {
			change.After[key] = value
		}
	}
	return change
}

// UnconfirmedLabels returns, by Node, the keys of the labels that go or get another value. The roll-out waits for a confirmation if anything requires
// these labels as they are.
func (in *Input) UnconfirmedLabels() map[string][]string {
	confirmed, keys := in.confirmed(), map[string][]string{}
	for _, change := range in.LostLabels() {
		keys[change.Node] = slices.DeleteFunc(change.lost(), func(key string) bool { return confirmed[key] })
	}
	return keys
}

// lost returns the keys of the labels that go, or get another value, sorted.
func (c *LabelChange) lost() (keys []string) {
	for key, value := range c.Before {
		if after, found := c.After[key]; !found || after != value {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// Confirmation returns the value of drover.dev/confirm-label-changes that confirms changes of labels to the roll-outs that have begun at a time.
func Confirmation(keys []string, at time.Time) string {
	return strings.Join(keys, ",") + "@" + at.UTC().Format(time.RFC3339)
}

// confirmed returns the keys of the labels that a user lets go in this roll-out. A time in the future would also confirm later ones: it counts then.
func (in *Input) confirmed() map[string]bool {
	keys := map[string]bool{}
	at := in.confirmTime()
	if at.Before(in.startTime()) || at.After(in.Now) {
		return keys
	}
	names, _, _ := strings.Cut(in.Confirm, "@")
	for key := range strings.SplitSeq(names, ",") {
		keys[strings.TrimSpace(key)] = true
	}
	return keys
}

// confirmTime returns when a user has confirmed changes of labels; zero for never.
func (in *Input) confirmTime() time.Time {
	_, text, _ := strings.Cut(in.Confirm, "@")
	at, err := time.Parse(time.RFC3339, strings.TrimSpace(text))
	if err != nil {
		return time.Time{}
	}
	return at
}

// startTime returns when the roll-out of the declaration began; now if it begins.
func (in *Input) startTime() time.Time { return in.rollout().StartTime.Time }

// unconfirmed says which labels keep the roll-out from beginning, or Nodes that have left the group from being released, before a user confirms that
// they go; empty for none.
func (in *Input) unconfirmed(released bool) string {
	if in.Uses == nil {
		return ""
	}
	confirmed, by := in.confirmed(), map[string]users{}
	if in.Uses.Err != nil {
		for _, change := range in.LostLabels() {
			if change.Released == released {
				for _, key := range change.lost() {
					by[key] = users{}
				}
			}
		}
	}
	for label, found := range in.Uses.found {
		if label.released == released {
			by[label.key] = *found
		}
	}
	maps.DeleteFunc(by, func(key string, _ users) bool { return confirmed[key] })
	if len(by) == 0 {
		return ""
	}
	return in.confirmText(by)
}

// confirmText says what requires labels, and what a user can do.
func (in *Input) confirmText(by map[string]users) string {
	keys := slices.Sorted(maps.Keys(by))
	var parts []string
	for _, key := range keys[:min(len(keys), maxNamed)] {
		if in.Uses.Err != nil {
			parts = append(parts, fmt.Sprintf("label %q goes or gets another value, and what requires it is unknown: %v", key, in.Uses.Err))
			continue
		}
		parts = append(parts, fmt.Sprintf("label %q goes or gets another value, and these require Nodes as they are: %s",
			key, status.NamesOf(by[key].names, by[key].count)))
	}
	all := slices.AppendSeq(slices.Clone(keys), maps.Keys(in.confirmed()))
	all = slices.DeleteFunc(all, func(key string) bool { return key == "" })
	slices.Sort(all)
	return fmt.Sprintf("%s; if that may be, set the annotation %s to %q", strings.Join(parts, "; "), v1alpha1.AnnotationConfirm,
		Confirmation(all, in.startTime()))
}
