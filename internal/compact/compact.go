// Package compact makes objects that are kept by the thousand small: it drops what Drover does not read of them, and has them share what they
// have in common. The objects must not be changed afterwards.
package compact

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"
	"unique"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
)

// Text returns the one copy of a text that many objects have.
func Text[T ~string](text T) T { return unique.Make(text).Value() }

// sharedMaps are the labels and annotations that all Machines of a MachineSet have in common. They are never changed: objects of the cache are
// read-only.
var sharedMaps Maps

// Machine makes Machines with equal labels and annotations share them.
func Machine(machine *machinev1beta1.Machine) {
	for _, texts := range []*map[string]string{&machine.Labels, &machine.Annotations, &machine.Spec.Labels, &machine.Spec.Annotations} {
		*texts = sharedMaps.Share(*texts)
	}
}

// maxSharedMap is the most, in bytes, of keys and values of a map that is shared, and maxSharedEntries how many it has at most: no tenant can fill
// the memory with what no object has any longer.
const (
	maxSharedMap     = 4 << 10
	maxSharedEntries = 64
)

// Maps keeps maps that objects share, each until others take its place. The zero value is empty. It is safe for concurrent use.
type Maps struct {
	mu sync.Mutex
	// sets are of maps with the same hash, the latest used first.
	sets [256][4]map[string]string
}

var mapSeed = maphash.MakeSeed()

// Share returns a map with the same entries, which others may have, too. It must not be changed.
func (t *Maps) Share(texts map[string]string) map[string]string {
	sum, size := uint64(0), 0
	for key, value := range texts {
		// The sum does not depend on the order.
		sum += maphash.String(mapSeed, key) * (maphash.String(mapSeed, value) | 1)
		size += len(key) + len(value)
	}
	if len(texts) == 0 || len(texts) > maxSharedEntries || size > maxSharedMap {
		return texts
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	set := t.sets[sum%uint64(len(t.sets))][:]
	at := slices.IndexFunc(set, func(kept map[string]string) bool { return maps.Equal(kept, texts) })
	if at < 0 {
		at = len(set) - 1
		set[at] = texts
	}
	found := set[at]
	copy(set[1:at+1], set[:at])
	set[0] = found
	return found
}

// Node drops what no capability reads. The list of images alone is most of a Node. Labels and annotations stay: a MachineSet may declare any of
// them. Only the node's kubelet and administrators write them.
func Node(node *corev1.Node) {
	node.Status = corev1.NodeStatus{Conditions: trimConditions(node.Status.Conditions)}
}

// maxConditions is how many conditions of a Node are read, the first of them: a kubelet has four, and node-problem-detector adds some.
// maxConditionType is the longest type, in bytes. A kubelet can write thousands into the status of its own Node.
const maxConditions, maxConditionType = 64, 316

// BoundedConditions returns those conditions of a Node that are read.
func BoundedConditions(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	conditions = conditions[:min(len(conditions), maxConditions)]
	if slices.ContainsFunc(conditions, isTooLong) {
		return slices.DeleteFunc(slices.Clone(conditions), isTooLong)
	}
	return conditions
}

func isTooLong(condition corev1.NodeCondition) bool {
	return len(condition.Type)+len(condition.Status) > maxConditionType
}

// trimConditions keeps the conditions that say whether a Node is available, with the time of their last transition. Other times and texts change with
// every heartbeat.
func trimConditions(conditions []corev1.NodeCondition) []corev1.NodeCondition {
	kept := make([]corev1.NodeCondition, 0, 1)
	for _, condition := range BoundedConditions(conditions) {
		if slices.Contains(disruptionplan.Conditions, condition.Type) {
			kept = append(kept, corev1.NodeCondition{
				Type: condition.Type, Status: condition.Status, LastTransitionTime: condition.LastTransitionTime,
			})
		}
	}
	return kept
}
