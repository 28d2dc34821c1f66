package plan

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// Uses are what requires labels that a roll-out takes away.
type Uses struct {
	Found []LabelUse
	// Err is why nothing is known; nil otherwise.
	Err error
}

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

// LostLabels returns what becomes of the labels of the Nodes that lose one, or get another value of one, in waves, without what
// drover.dev/confirm-label-changes names. New labels and the repair of a manual edit need no confirmation.
func (in *Input) LostLabels() (changes []LabelChange) {
	confirmed := in.confirmed()
	for i := range in.Nodes {
		if in.Nodes[i].Metadata.Drift {
			continue
		}
		change := in.Nodes[i].labelChange()
		if change != nil && slices.ContainsFunc(change.lost(), func(key string) bool { return !confirmed[key] }) {
			changes = append(changes, *change)
		}
	}
	return changes
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

// confirmed returns the keys of the labels that a user lets go.
func (in *Input) confirmed() map[string]bool {
	keys := map[string]bool{}
	for key := range strings.SplitSeq(in.Group.Annotations[v1alpha1.AnnotationConfirm], ",") {
		keys[strings.TrimSpace(key)] = true
	}
	return keys
}

// unconfirmed says which labels keep the roll-out from beginning before a user confirms that they go; empty for none.
func (in *Input) unconfirmed() string {
	if in.Uses == nil {
		return ""
	}
	confirmed, users := in.confirmed(), map[string][]string{}
	if in.Uses.Err != nil {
		for _, change := range in.LostLabels() {
			for _, key := range change.lost() {
				users[key] = nil
			}
		}
	}
	for i := range in.Uses.Found {
		use := &in.Uses.Found[i]
		for _, key := range use.Keys {
			if name := use.user(); !slices.Contains(users[key], name) {
				users[key] = append(users[key], name)
			}
		}
	}
	maps.DeleteFunc(users, func(key string, _ []string) bool { return confirmed[key] })
	if len(users) == 0 {
		return ""
	}
	return in.confirmText(users)
}

// user returns what requires the labels.
func (u *LabelUse) user() string {
	if u.Pod != nil {
		return "Pod " + u.Pod.Namespace + "/" + u.Pod.Name
	}
	return "PersistentVolume " + u.Volume.Name
}

// confirmText says what requires labels, and what a user can do.
func (in *Input) confirmText(users map[string][]string) string {
	keys := slices.Sorted(maps.Keys(users))
	var parts []string
	for _, key := range keys[:min(len(keys), maxNamed)] {
		if in.Uses.Err != nil {
			parts = append(parts, fmt.Sprintf("label %q goes or gets another value, and what requires it is unknown: %v", key, in.Uses.Err))
			continue
		}
		parts = append(parts, fmt.Sprintf("label %q goes or gets another value, and these require Nodes as they are: %s", key, Names(users[key])))
	}
	all := slices.AppendSeq(slices.Clone(keys), maps.Keys(in.confirmed()))
	all = slices.DeleteFunc(all, func(key string) bool { return key == "" })
	slices.Sort(all)
	return fmt.Sprintf("%s; if that may be, set the annotation %s to %q", strings.Join(parts, "; "), v1alpha1.AnnotationConfirm, strings.Join(all, ","))
}
