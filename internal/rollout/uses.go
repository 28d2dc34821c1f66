package rollout

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Uses are what requires labels that a roll-out takes away. They keep numbers and a few names: tenants create Pods of any number and size.
type Uses struct {
	// Err is why nothing is known; nil otherwise.
	Err error

	// changes are the label changes whose Pods and PersistentVolumes are being added. byNode has the same changes by the name of the Node.
	changes []change
	byNode  map[string]*change
	looked  sets.Set[lostLabel]
	found   map[usedLabel]*users
}

// change is a LabelChange with the keys of the labels that change.
type change struct {
	LabelChange

	keys []string
}

// lostLabel is a label that a Node loses, or that gets another value there.
type lostLabel struct {
	node, key, value  string
	removed, released bool
}

// usedLabel is a label of a group's Nodes, or, if released is set, of Nodes that have left the group.
type usedLabel struct {
	key      string
	released bool
}

// users are the Pods and PersistentVolumes that require a label: how many, and the first of their names.
type users struct {
	count int
	names []string
}

// NewUses returns the Uses of labels that change. Each Pod and each PersistentVolume is to be added once, and then End to be called.
func NewUses(changes []LabelChange) *Uses {
	u := &Uses{byNode: map[string]*change{}, looked: sets.Set[lostLabel]{}, found: map[usedLabel]*users{}}
	for i := range changes {
		u.changes = append(u.changes, change{changes[i], changes[i].keys()})
		u.looked.Insert(changes[i].lostLabels()...)
	}
	for i := range u.changes {
		u.byNode[u.changes[i].Node] = &u.changes[i]
	}
	return u
}

// AddPod adds a Pod if it requires its Node to be as it was before a change.
func (u *Uses) AddPod(pod *corev1.Pod) {
	c := u.byNode[pod.Spec.NodeName]
	if c == nil || !RequiresLabels(pod) {
		return
	}
	for _, key := range c.breaks(comparisonsOf(podRequirements(pod)), c.keys) {
		u.add(usedLabel{key, c.Released}, "Pod "+pod.Namespace+"/"+pod.Name)
	}
}

// AddVolume adds a PersistentVolume if it requires Nodes to be as they were before changes.
func (u *Uses) AddVolume(volume *corev1.PersistentVolume) {
	all, labels := comparisonsOf(volumeRequirements(volume)), sets.Set[usedLabel]{}
	for i := range u.changes {
		c := &u.changes[i]
		for _, key := range c.breaks(all, c.keys) {
			labels.Insert(usedLabel{key, c.Released})
		}
	}
	for label := range labels {
		u.add(label, "PersistentVolume "+volume.Name)
	}
}

func (u *Uses) add(label usedLabel, name string) {
	by := u.found[label]
	if by == nil {
		by = &users{}
		u.found[label] = by
	}
	by.count++
	at, _ := slices.BinarySearch(by.names, name)
	if at < maxNamed {
		by.names = slices.Insert(by.names, at, name)
		by.names = by.names[:min(len(by.names), maxNamed)]
	}
}

// End ends the adding. err is why not all could be added; nil otherwise.
func (u *Uses) End(err error) { u.Err, u.changes, u.byNode = err, nil, nil }

// Cover reports whether all that is lost with changes was looked for.
func (u *Uses) Cover(changes []LabelChange) bool {
	for i := range changes {
		if !u.looked.HasAll(changes[i].lostLabels()...) {
			return false
		}
	}
	return true
}

// lostLabels returns the labels that go, or get another value.
func (c *LabelChange) lostLabels() (labels []lostLabel) {
	for _, key := range c.lost() {
		value, stays := c.After[key]
		labels = append(labels, lostLabel{c.Node, key, value, !stays, c.Released})
	}
	return labels
}
