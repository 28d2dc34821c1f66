package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// Guard says what is done about the guarded taints of a Node, which are those with the effect NoExecute that it lacks: Kubernetes deletes the Pods
// that do not tolerate one without regard to their PodDisruptionBudgets.
type Guard string

// The guards.
const (
	// GuardHeld sets none of them. GroupInput.Held says why.
	GuardHeld Guard = ""
	// GuardAnnounced sets a taint with the same key and value and the effect NoSchedule in place of each, so that no further Pods come.
	GuardAnnounced Guard = "Announced"
	// GuardClear sets them, and removes what announced them.
	GuardClear Guard = "Clear"
)

// Kept is a taint that is held back.
type Kept struct {
	// Value is what it is to have later, and Why says why not now; empty where that has been said.
	Value, Why string
	// IsAnnouncement reports that it announces a taint that is held back.
	IsAnnouncement bool
}

// announced marks the digest in a record while taints are announced: what the Node lacks then has not been removed by another writer.
const announced = "~"

// noExecutePolicy returns what a group does about taints with the effect NoExecute.
func noExecutePolicy(group *v1alpha1.NodeGroup) v1alpha1.NoExecutePolicy {
	if rollout := group.Spec.Rollout; rollout != nil && rollout.NoExecute != nil && rollout.NoExecute.Policy != "" {
		return rollout.NoExecute.Policy
	}
	return v1alpha1.NoExecuteGuard
}

// guardNoExecute finds out which taints are guarded. Unless the group allows them at once, it holds back taints that are set once, and taints that
// could not be announced.
func (d *Declaration) guardNoExecute(policy v1alpha1.NoExecutePolicy) {
	if policy == v1alpha1.NoExecuteAllow {
		return
	}
	d.Guarded = ownership.Keys{}
	taints := d.Desired[ownership.Taint]
	for _, id := range ownership.KeysOf(taints).Sorted() {
		if _, effect := ownership.SplitTaintID(id); effect != corev1.TaintEffectNoExecute {
			continue
		}
		isAnnouncedOnce := d.Once.Has(announcementOf(id))
		if policy == v1alpha1.NoExecuteGuard && !d.Once.Has(id) && !isAnnouncedOnce {
			d.Guarded.Add(id)
			continue
		}
		d.keep(id, Kept{Value: taints[id]})
		isOnce := d.Once.Has(id)
		delete(d.Once, id)
		if policy == v1alpha1.NoExecuteGuard && isAnnouncedOnce && !isOnce {
			d.problem(ownership.Taint, id, NoExecuteHeld, "taint %q is held back: %s", id, announcedOnce(id))
			continue
		}
		d.problem(ownership.Taint, id, NoExecuteHeld, "taint %q is held back: Kubernetes would delete the Pods that do not tolerate it without "+
			"regard to their PodDisruptionBudgets; set spec.rollout.noExecute.policy to Allow if it may", id)
	}
}

// announcedOnce says why a taint cannot be guarded: its announcement is a taint that is set once. What is set once is not removed, so the
// announcement would stay.
func announcedOnce(id string) string {
	const text = "it is announced with taint %q, which is set once; declare that one among the taints that Nodes keep, or not at all"
	return fmt.Sprintf(text, announcementOf(id))
}

// keep holds a taint back.
func (d *Declaration) keep(id string, kept Kept) {
	if d.Kept == nil {
		d.Kept = map[string]Kept{}
	}
	d.Kept[id] = kept
	delete(d.Desired[ownership.Taint], id)
	delete(d.Guarded, id)
}

// HasNoExecute reports whether any taint is declared with the effect NoExecute.
func (d *Declaration) HasNoExecute() bool { return hasNoExecute(d.Desired[ownership.Taint]) }

func hasNoExecute(taints map[string]string) bool {
	for id := range taints {
		if _, effect := ownership.SplitTaintID(id); effect == corev1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

// LackedNoExecute returns the taints with the effect NoExecute that a Node lacks.
func (d *Declaration) LackedNoExecute(node *corev1.Node) ownership.Keys {
	lacked, live := ownership.Keys{}, ownership.TaintEntries(node.Spec.Taints)
	for id, value := range d.Desired[ownership.Taint] {
		_, effect := ownership.SplitTaintID(id)
		if current, present := live[id]; effect == corev1.TaintEffectNoExecute && (!present || current != value) {
			lacked.Add(id)
		}
	}
	return lacked
}

// GuardedOf returns the taints of a MachineSet that its Nodes get from their NodeGroup, after its guard; empty for a group that guards none. Those
// that are set once are for new Nodes.
func (d *Declaration) GuardedOf(set *Declaration) ownership.Keys {
	guarded := ownership.Keys{}
	if d.TemplatePolicy != v1alpha1.NoExecuteGuard && d.TemplatePolicy != v1alpha1.NoExecuteRefuse {
		return guarded
	}
	for id := range set.Desired[ownership.Taint] {
		if _, effect := ownership.SplitTaintID(id); effect == corev1.TaintEffectNoExecute && !set.Once.Has(id) {
			guarded.Add(id)
		}
	}
	return guarded
}

// maxTemplateTaints is how many taints of one MachineSet a NodeGroup sets: its status names them, and the authors of MachineSets must not fill it.
const maxTemplateTaints = 64

// Template is what the MachineSet of a Node declares for it.
type Template struct {
	*Declaration

	// Held says why its taints may not be set now; empty where they may. Frozen reports that nothing begun is taken back for that.
	Held   string
	Frozen bool
}

// WithTaintsOf returns what a Node of a group is to carry with the guarded taints of its MachineSet, whose values count. It returns the declaration
// itself where there are none. The revision is another one where the MachineSet adds anything.
func (d *Declaration) WithTaintsOf(set Template) *Declaration {
	guarded := d.GuardedOf(set.Declaration)
	if guarded.Len() == 0 {
		return d
	}
	with := *d
	with.Desired, with.Problems, with.Guarded, with.Kept = maps.Clone(d.Desired), slices.Clone(d.Problems), d.Guarded.Clone(), maps.Clone(d.Kept)
	with.Desired[ownership.Taint] = maps.Clone(d.Desired[ownership.Taint])
	if with.Desired[ownership.Taint] == nil {
		with.Desired[ownership.Taint] = map[string]string{}
	}
	hash := fnv.New64a()
	for i, id := range guarded.Sorted() {
		if with.addTaint(set, id, i) {
			_, _ = fmt.Fprintf(hash, "%s/%s=%s\n", set.Key, id, set.Desired[ownership.Taint][id])
			with.Revision = fmt.Sprintf("%s.%016x", d.Revision, hash.Sum64())
		}
	}
	return &with
}

// addTaint adds a guarded taint of a MachineSet, after so many others, and reports whether it may be set.
func (d *Declaration) addTaint(set Template, id string, before int) bool {
	taints, value := d.Desired[ownership.Taint], set.Desired[ownership.Taint][id]
	switch {
	case set.Held != "":
		d.keep(id, Kept{Value: value, Why: fmt.Sprintf("taint %q of MachineSet %s is held back: %s", id, set.Key.Name, set.Held)})
		if _, declared := taints[announcementOf(id)]; set.Frozen && !declared {
			d.keep(announcementOf(id), Kept{IsAnnouncement: true})
		}
		return false
	case d.TemplatePolicy == v1alpha1.NoExecuteRefuse:
		const text = "taint %q of MachineSet %s is held back: spec.rollout.noExecute.policy is Refuse"
		d.keep(id, Kept{Value: value, Why: fmt.Sprintf(text, id, set.Key.Name)})
		return false
	case d.Once.Has(announcementOf(id)) || set.Once.Has(announcementOf(id)):
		d.keep(id, Kept{Value: value, Why: fmt.Sprintf("taint %q of MachineSet %s is held back: %s", id, set.Key.Name, announcedOnce(id))})
		return false
	case before >= maxTemplateTaints:
		if before == maxTemplateTaints {
			d.problem(ownership.Taint, id, NoExecuteHeld, "taint %q of MachineSet %s, and each after it, is held back: a NodeGroup sets %d at most",
				id, set.Key.Name, maxTemplateTaints)
		}
		d.keep(id, Kept{Value: value})
		return false
	}
	if own, declared := taints[id]; declared && own != value {
		d.problem(ownership.Taint, id, MachineDeclares, "MachineSet %s declares taint %q with the value %q, which counts; the NodeGroup declares %q",
			set.Key.Name, id, value, own)
	}
	delete(d.Kept, id)
	taints[id] = value
	d.Guarded.Add(id)
	return true
}

// announcementOf returns the ID of the taint that announces a guarded one.
func announcementOf(id string) string {
	key, _ := ownership.SplitTaintID(id)
	return ownership.TaintID(corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
}

// Section returns the declared keys, and the keys of the taints that announce guarded taints.
func (d *Declaration) Section() ownership.Section {
	section := d.Desired.Section()
	taints := section.Of(ownership.Taint)
	for id := range d.Guarded {
		taints = taints.Union(ownership.NewKeys(announcementOf(id)))
	}
	return section.With(ownership.Taint, taints)
}

// KeptEntries returns what is declared and kept on Nodes: taints that are set only once are not.
func (d *Declaration) KeptEntries() Entries {
	kept := maps.Clone(d.Desired)
	kept[ownership.Taint] = maps.Clone(kept[ownership.Taint])
	maps.DeleteFunc(kept[ownership.Taint], func(id, _ string) bool { return d.Once.Has(id) })
	return kept
}

// keep has a Node keep what it has of the taints that are held back.
func (f *groupFacts) keep(desired map[string]string, record *ownership.Record, problems *problemList) {
	for id, kept := range f.Declaration.Kept {
		value, present := f.live[ownership.Taint][id]
		if present && f.record.Of(ownership.Taint).Has(id) {
			desired[id] = value
			if kept.IsAnnouncement && strings.HasSuffix(f.record.Digest, announced) {
				record.Timeout, record.Digest = f.record.Timeout, strings.TrimSuffix(record.Digest, announced)+announced
			}
		}
		if kept.Why != "" && (!present || value != kept.Value) {
			problems.add(ownership.Taint, id, NoExecuteHeld, "%s", kept.Why)
		}
	}
}

// guard changes what is desired while guarded taints may not be set. A value that the Node has stays until then.
func (f *groupFacts) guard(desired map[string]string, out *GroupDecision, problems *problemList) {
	live := f.live[ownership.Taint]
	for _, id := range f.Declaration.Guarded.Sorted() {
		value, current := desired[id], live[id]
		if !f.lacks(id, desired) {
			continue
		}
		out.Guarded = append(out.Guarded, id)
		if f.Guard == GuardClear {
			continue
		}
		delete(desired, id)
		if _, present := live[id]; present {
			desired[id] = current
		}
		if f.announces() {
			f.announce(desired, announcementOf(id), value)
		}
		if f.Guard == GuardHeld || f.timeout != nil {
			problems.add(ownership.Taint, id, NoExecuteHeld, "taint %q is held back: %s", id, cmp.Or(f.Held, timeoutText(f.timeout), heldForTurn))
		}
	}
}

// lacks reports whether a Node is to get a guarded taint that it does not have, and may get it.
func (f *groupFacts) lacks(id string, desired map[string]string) bool {
	value, declared := desired[id]
	current, present := f.live[ownership.Taint][id]
	isForeign := present && !f.record.Of(ownership.Taint).Has(id) && !f.inherits(ownership.Taint, id) && f.Declaration.Policy != ownership.Adopt
	return declared && (!present || current != value) && !isForeign && !f.Protected.Of(ownership.Taint)(id)
}

// heldForTurn is why taints are held back where nothing else is known.
const heldForTurn = "it waits for the budget of the group, or for the Node's lease"

// announces reports whether guarded taints are announced. After a timeout they stay so: the Pods that have left must not come back before the next
// attempt.
func (f *groupFacts) announces() bool {
	return f.Guard == GuardAnnounced || f.Guard == GuardHeld && f.timeout != nil
}

// announce desires a taint that keeps further Pods away. If the group declares this taint, or another writer has set it, it keeps them away already.
func (f *groupFacts) announce(desired map[string]string, id, value string) {
	_, declared := desired[id]
	_, present := f.live[ownership.Taint][id]
	if !declared && (!present || f.record.Of(ownership.Taint).Has(id)) {
		desired[id] = value
	}
}

// IsAnnounced reports whether a Node has the taints that announce guarded ones.
func IsAnnounced(node *corev1.Node, guarded []string) bool {
	live := ownership.TaintEntries(node.Spec.Taints)
	for _, id := range guarded {
		if _, present := live[announcementOf(id)]; !present {
			return false
		}
	}
	return true
}

// Announcements returns the taints of a Node that announce guarded ones of the group that its record names. They are temporary: a Node that leaves
// the group does not keep them. What the group declares is none of them, whatever the record says, which a kubelet can write.
func Announcements(node *corev1.Node, group *v1alpha1.NodeGroup) ownership.Keys {
	text := node.Annotations[ownership.AnnotationGroupRecord]
	if !strings.Contains(text, announced) {
		return nil // most Nodes, whose records need not be parsed for this
	}
	record, err := ownership.ParseGroupRecord(text)
	if err != nil || !strings.HasSuffix(record.Digest, announced) {
		return nil
	}
	declared := ownership.Keys{}
	if metadata := group.Spec.Metadata; metadata != nil {
		declared = ownership.KeysOf(ownership.TaintEntries(slices.Concat(asTaints(metadata.Taints), asTaints(metadata.SetOnceTaints))))
	}
	found := ownership.Keys{}
	for id := range record.Of(ownership.Taint) {
		if _, effect := ownership.SplitTaintID(id); effect == corev1.TaintEffectNoSchedule && !declared.Has(id) {
			found.Add(id)
		}
	}
	return found
}

// GuardedTaints returns the guarded taints as a Node will have them.
func (d *Declaration) GuardedTaints(ids []string) []corev1.Taint {
	taints := make([]corev1.Taint, len(ids))
	for i, id := range ids {
		key, effect := ownership.SplitTaintID(id)
		taints[i] = corev1.Taint{Key: key, Value: d.Desired[ownership.Taint][id], Effect: effect}
	}
	return taints
}
