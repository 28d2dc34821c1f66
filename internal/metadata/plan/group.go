package plan

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

// TaintUninitialized is a taint with the effect NoSchedule that a kubelet may register its Node with (--register-with-taints), so that no Pod comes
// before the Node carries what its NodeGroup declares. The first write of the Node's metadata removes it.
const TaintUninitialized = "drover.dev/uninitialized"

// uninitializedID is the taint as a key of Entries.
var uninitializedID = ownership.TaintID(corev1.Taint{Key: TaintUninitialized, Effect: corev1.TaintEffectNoSchedule})

// GroupDeclarationOf returns what a NodeGroup declares. A NodeGroup that is being deleted declares nothing.
func GroupDeclarationOf(group *v1alpha1.NodeGroup) *Declaration {
	declaration := &Declaration{
		Key: types.NamespacedName{Name: group.Name}, Generation: group.Generation, Policy: ownership.Keep,
		Desired: Entries{}, Once: ownership.Keys{},
	}
	if metadata := group.Spec.Metadata; metadata != nil && group.DeletionTimestamp == nil {
		declaration.Policy = policyOf(metadata.ConflictPolicy)
		declaration.Desired = Entries{
			ownership.Label:      declaration.validated(ownership.Label, asStrings(metadata.Labels)),
			ownership.Annotation: declaration.validated(ownership.Annotation, asStrings(metadata.Annotations)),
			ownership.Taint:      declaration.taints(slices.Concat(asTaints(metadata.Taints), asTaints(metadata.SetOnceTaints))),
		}
		for _, taint := range asTaints(metadata.SetOnceTaints) {
			declaration.Once.Add(ownership.TaintID(taint))
		}
		declaration.dropUntrusted(&group.Spec.Nodes)
		declaration.dropDeselecting(&group.Spec.Nodes)
		declaration.guardNoExecute(noExecutePolicy(group))
	}
	if group.DeletionTimestamp == nil && trustsSelection(&group.Spec.Nodes) {
		declaration.TemplatePolicy = noExecutePolicy(group)
	}
	declaration.setRevision()
	// The status shows it, which has a bound.
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(declaration.Revision))
	declaration.Revision = fmt.Sprintf("%016x", hash.Sum64())
	// The roll-out of a group that is suspended goes on from where it was.
	declaration.Paused = group.Spec.Suspend && group.DeletionTimestamp == nil
	return declaration
}

func policyOf(policy v1alpha1.ConflictPolicy) ownership.Policy {
	switch policy {
	case v1alpha1.ConflictAdopt:
		return ownership.Adopt
	case v1alpha1.ConflictFail:
		return ownership.Fail
	}
	return ownership.Keep
}

func asStrings[V ~string](values map[string]V) map[string]string {
	out := make(map[string]string, len(values))
	for key, value := range values {
		out[key] = string(value)
	}
	return out
}

func asTaints(taints []v1alpha1.Taint) []corev1.Taint {
	out := make([]corev1.Taint, len(taints))
	for i, taint := range taints {
		out[i] = corev1.Taint{Key: taint.Key, Value: taint.Value, Effect: taint.Effect}
	}
	return out
}

// GroupInput is all that DecideGroup depends on. Node must be set; the objects are not changed.
type GroupInput struct {
	Node *corev1.Node
	// Declaration is what the Node's NodeGroup declares, nil for a Node in no group.
	Declaration *Declaration
	// Machine holds what the Node's Machine and its MachineSet declare. It overrides what the group declares. MachineOwned are the keys that the Node
	// has from them. A key that the Node has from the group stays the group's until it is among MachineOwned.
	Machine      Entries
	MachineOwned ownership.Section
	// NodeShared is whether several Machines could be the Node's: then it is not known what its Machine declares.
	NodeShared bool
	// Confirmed holds the keys that the NodeGroup named in the Node's record is known to have declared. A kubelet can write the record, so a key that
	// only the record names is neither removed nor overwritten.
	Confirmed ownership.Section
	// Inherited are the taints of the Node that it has from its MachineSet, set by the metadata of MachineSets. A group that guards them owns them.
	Inherited ownership.Keys
	// Remove reports whether keys are removed that the record names and that are not declared; otherwise Drover only ends to own them.
	Remove bool
	// Announcements are taints that are removed whatever Remove says; see Announcements.
	Announcements ownership.Keys
	// Guard says what is done about guarded taints, and Held why they are held back.
	Guard Guard
	Held  string
	// TimedOut is about Pods that did not leave in time; nil for what the Node's record says.
	TimedOut *ownership.Timeout
	// Protected, Contended and Now are as in Input.
	Protected ownership.Protected
	Contended func(kind ownership.Kind, key string) bool
	Now       time.Time
	// WithoutRecord leaves the text of the record out of the decision: nothing is written by it.
	WithoutRecord bool
}

// GroupDecision is what to write to a Node for its NodeGroup, and why not more.
type GroupDecision struct {
	// State is the Node's state; Pending while there is anything to write. Settled is that after the write.
	State, Settled State
	// Reason is why the state is Held; empty otherwise.
	Reason string
	// Change is what is written.
	Change Change
	// Problems are the declared entries that are not written, sorted by kind and key.
	Problems []Problem
	// Drift reports whether another writer has changed what the Node had already: nothing else is written.
	Drift bool
	// Handover reports that the Machine declares keys which the Node has had from its group, and that nothing else is written.
	Handover bool
	// Guarded are the taints that the Guard concerns: the guarded taints that the Node lacks. TimedOut reports that they wait for Pods that did not
	// leave in time.
	Guarded  []string
	TimedOut bool
	// Reached reports whether the Node has been written with what is declared.
	Reached bool
	// FirstWrite reports whether the Node has nothing yet of any NodeGroup.
	FirstWrite bool
	// Digest identifies what is declared for the Node.
	Digest string
}

// groupFacts are what a GroupInput says before anything is decided.
type groupFacts struct {
	GroupInput
	live   Entries
	record ownership.Record
	// timeout is about Pods that did not leave in time; nil for none.
	timeout *ownership.Timeout
}

// DecideGroup decides what one Node gets from its NodeGroup, or is given back when it has left one. It never fails.
func DecideGroup(in GroupInput) GroupDecision {
	var problems problemList
	if in.Declaration != nil {
		problems = slices.Clone(in.Declaration.Problems)
	} else {
		in.Declaration = &Declaration{Policy: ownership.Keep}
	}
	f := &groupFacts{GroupInput: in, live: EntriesOf(in.Node)}
	f.record = problems.readGroupRecord(in.Node.Annotations)
	f.Machine = f.takenOver()
	f.timeout = cmp.Or(in.TimedOut, in.Declaration.timeoutIn(&f.record, in.Protected, in.Now))
	out := GroupDecision{FirstWrite: in.Node.Annotations[ownership.AnnotationGroupRecord] == ""}
	if out.Reason = f.untouched(); out.Reason != "" {
		out.State, out.Settled, out.Problems = Held, Held, problems.sorted()
		return out
	}
	record := f.merge(&out, &problems)
	out.Digest = record.Digest
	f.finish(&out, record, &problems)
	out.Problems = problems.sorted()
	out.Settled, out.Reason = f.settled(&out)
	out.State = out.Settled
	switch {
	case out.Change.Write && f.Node.DeletionTimestamp != nil:
		out.hold("the Node is being deleted")
		out.State, out.Settled = Pending, Pending
	case out.Change.Write && f.Declaration.Paused:
		out.hold("the NodeGroup is suspended")
	case out.Change.Write && (out.State == Synced || out.State == RefusedState):
		out.State = Pending
	}
	return out
}

// untouched returns why nothing about the Node is decided; empty if it is.
func (f *groupFacts) untouched() string {
	switch {
	case paused.Is(f.Node.Annotations):
		return "the Node is paused"
	case f.NodeShared:
		return nodeShared
	}
	return ""
}

// hold has nothing written. What the Node carries counts for the state.
func (d *GroupDecision) hold(reason string) {
	d.State, d.Settled, d.Reason = Held, Held, reason
	d.Change, d.Guarded, d.TimedOut, d.Drift, d.Handover = Change{}, nil, false, false, false
}

// isMember reports whether the Node is in a group.
func (f *groupFacts) isMember() bool { return f.Declaration.Key.Name != "" }

// merge decides every kind and returns the record of the Node after the change. Unlike the record of a MachineSet's Node it does not name what was
// removed recently: no other controller copies what groups declare, and so none restores it from a stale cache.
func (f *groupFacts) merge(out *GroupDecision, problems *problemList) ownership.Record {
	record := ownership.Record{
		Source: f.Declaration.Key.Name, Generation: f.Declaration.Generation, Once: ownership.Keys{}, Digest: f.Declaration.digest(f.Protected),
	}
	if f.isMember() {
		record.Once = f.record.Once.Clone()
	}
	for _, kind := range ownership.Kinds {
		desired := f.desired(kind, problems)
		f.contended(kind, desired, problems)
		if kind == ownership.Taint {
			f.keep(desired, &record, problems)
			f.guard(desired, out, problems)
		}
		result := ownership.Merge(f.mergeInput(kind, desired))
		if kind == ownership.Taint {
			f.setOnce(&result, &record, out.FirstWrite, problems)
		}
		problems.addResult(kind, result, f.Declaration.Policy, "status.ownedKeys of the NodeGroup")
		out.Change.set(kind, result)
		record.Section = record.With(kind, f.ownedByGroup(kind, result.Owned))
	}
	if len(out.Guarded) > 0 && f.Guard != GuardClear {
		// Also while they are not announced: the roll-out has not reached a Node that has only the rest.
		record.Digest = strings.TrimSuffix(record.Digest, announced) + announced
	}
	if len(out.Guarded) > 0 && f.announces() {
		record.Timeout, out.TimedOut = f.timeout, f.timeout != nil
	}
	if record.Empty() && !out.FirstWrite {
		// Without a record this Node would look new, and would get the taints that are set once now.
		record.Once = f.Declaration.Once
	}
	return record
}

// takenOver returns what the Machine declares, without the keys that the group keeps for now: the metadata of MachineSets, which may be paused, and
// has waves and a policy for conflicts of its own, has not set them yet.
func (f *groupFacts) takenOver() Entries {
	if len(f.Machine) == 0 || f.record.Source != f.Declaration.Key.Name {
		return f.Machine
	}
	entries := maps.Clone(f.Machine)
	for kind, declared := range f.Machine {
		kept := func(key, _ string) bool { return f.keepsOwn(kind, key) }
		if len(declared) > 0 && f.record.Of(kind).Len() > 0 {
			entries[kind] = maps.Clone(declared)
			maps.DeleteFunc(entries[kind], kept)
		}
	}
	return entries
}

// keepsOwn reports whether a key that the Machine declares, too, is still the group's: no record says that the Node has it from the Machine, and the
// Node has not got the Machine's value by other means, as from nodelink.
func (f *groupFacts) keepsOwn(kind ownership.Kind, key string) bool {
	own, isDeclared := f.Declaration.Desired[kind][key]
	if !isDeclared || !f.record.Of(kind).Has(key) || !f.confirmed(kind, key) || f.MachineOwned.Of(kind).Has(key) {
		return false
	}
	live, present := f.live[kind][key]
	return !present || live == own || live != f.Machine[kind][key]
}

// ownedByGroup returns owned without the keys that the Machine declares.
func (f *groupFacts) ownedByGroup(kind ownership.Kind, owned ownership.Keys) ownership.Keys {
	if len(f.Machine[kind]) == 0 {
		return owned
	}
	return owned.Minus(ownership.KeysOf(f.Machine[kind]))
}

// desired returns what the group declares of a kind. Where the Machine declares a key that is handed over with another value, that is what the key
// gets, so that it changes hands without a gap. The caller may change the map for taints alone.
func (f *groupFacts) desired(kind ownership.Kind, problems *problemList) map[string]string {
	if kind != ownership.Taint && len(f.Machine[kind]) == 0 {
		return f.Declaration.Desired[kind]
	}
	desired := make(map[string]string, len(f.Declaration.Desired[kind]))
	maps.Copy(desired, f.Declaration.Desired[kind])
	maps.DeleteFunc(desired, func(key, _ string) bool { return kind == ownership.Taint && f.Declaration.Once.Has(key) })
	for key, value := range f.Machine[kind] {
		if own, declared := desired[key]; declared && own != value {
			problems.add(kind, key, MachineDeclares, "the Machine declares %s %q with the value %q, which counts; the NodeGroup declares %q",
				kind, key, value, own)
		}
		delete(desired, key)
		if f.handsOver(kind, key) {
			desired[key] = value
		}
	}
	return desired
}

// handsOver reports whether a key that the Machine declares gets its value from the group. A key that the Node lacks does not: the Machine may be
// about to lose it. Nor does a key that the Node has from the Machine already.
func (f *groupFacts) handsOver(kind ownership.Kind, key string) bool {
	_, present := f.live[kind][key]
	return present && f.record.Of(kind).Has(key) && f.confirmed(kind, key) && !f.MachineOwned.Of(kind).Has(key)
}

// contended reports the keys that are left alone because another writer keeps changing them.
func (f *groupFacts) contended(kind ownership.Kind, desired map[string]string, problems *problemList) {
	if f.Contended == nil {
		return
	}
	for key := range ownership.KeysOf(desired).Union(f.record.Of(kind)) {
		if f.Contended(kind, key) {
			problems.add(kind, key, Contended, "another writer keeps changing %s %q; Drover waits before it writes it again", kind, key)
		}
	}
}

func (f *groupFacts) mergeInput(kind ownership.Kind, desired map[string]string) ownership.Input {
	return ownership.Input{
		Owned: f.record.Of(kind), Desired: desired, Live: f.live[kind],
		Protected:         f.Protected.Of(kind),
		Inherited:         func(key string) bool { return f.inherits(kind, key) },
		Skip:              func(key string) bool { return f.Contended != nil && f.Contended(kind, key) },
		NeedsConfirmation: func(key string) bool { return !f.confirmed(kind, key) },
		Disown: func(key string) bool {
			_, machine := f.Machine[kind][key]
			isTaint := kind == ownership.Taint
			return machine || !f.Remove && (!isTaint || !f.Announcements.Has(key)) || isTaint && f.Declaration.Once.Has(key)
		},
		Policy: f.Declaration.Policy, Now: f.Now,
	}
}

func (f *groupFacts) confirmed(kind ownership.Kind, key string) bool {
	return f.Confirmed.Of(kind).Has(key)
}

// inherits reports whether the group takes a taint over from the metadata of a MachineSet: it guards it now.
func (f *groupFacts) inherits(kind ownership.Kind, key string) bool {
	return kind == ownership.Taint && f.Inherited.Has(key) && f.Declaration.Guarded.Has(key)
}

// setOnce adds the taints that are set only with the first write of a Node, and removes the taint that the Node registered with. It does so even
// while guarded taints are held back: that may take forever, and Pods that come meanwhile leave within their budgets.
func (f *groupFacts) setOnce(result *ownership.Result, record *ownership.Record, first bool, problems *problemList) {
	protected := f.Protected.Of(ownership.Taint)
	for key := range f.Declaration.Once {
		_, present := f.live[ownership.Taint][key]
		switch {
		case protected(key):
			problems.refused(ownership.Taint, key)
		case first:
			if !present {
				result.Put(key, f.Declaration.Desired[ownership.Taint][key])
			}
			record.Once.Add(key)
		}
	}
	if _, registered := f.live[ownership.Taint][uninitializedID]; registered && f.isMember() {
		result.Remove = append(result.Remove, uninitializedID)
		slices.Sort(result.Remove)
	}
}

// finish decides whether there is anything to write, and whether it is only drift.
func (f *groupFacts) finish(out *GroupDecision, record ownership.Record, problems *problemList) {
	if problems.has(InConflict) && f.Declaration.Policy == ownership.Fail {
		out.Change = Change{}
		return
	}
	out.Reached = !out.FirstWrite && f.record.Digest == record.Digest && f.record.Source == record.Source
	outdated := !record.SameKeys(f.record) || f.record.Source != record.Source && !record.Empty() || !record.Timeout.Equal(f.record.Timeout)
	out.Change.Write = out.Change.Changed() || outdated || problems.has(BadRecord)
	if !out.Change.Write {
		return
	}
	out.Change.Record = f.format(&record)
	f.attribute(out)
}

// attribute decides whether a write undoes what another writer has changed. A key that the Machine declares now goes over to the Machine: Drover
// follows its MachineSet there, and undoes nothing.
func (f *groupFacts) attribute(out *GroupDecision) {
	handed, others := ownership.Section{}, false
	out.Change.owned = f.record
	for _, kind := range ownership.Kinds {
		declared, result := ownership.KeysOf(f.Machine[kind]), out.Change.Results[kind]
		handed = handed.With(kind, f.record.Of(kind).And(declared))
		out.Change.owned.Section = out.Change.owned.With(kind, f.record.Of(kind).Minus(declared))
		others = others || ownership.KeysOf(result.Set).Union(ownership.NewKeys(result.Remove...)).Minus(declared).Len() > 0
	}
	out.Drift = out.Reached && others
	out.Handover = out.Reached && !others && !handed.Empty()
}

// format returns the text of a record that is written.
func (f *groupFacts) format(record *ownership.Record) string {
	if f.WithoutRecord {
		return ""
	}
	return record.Format()
}

func (f *groupFacts) settled(out *GroupDecision) (state State, reason string) {
	problems := problemList(out.Problems)
	switch {
	case problems.has(Contended):
		return Held, "another writer keeps changing a declared key"
	case problems.has(InConflict):
		return Conflicted, ""
	case slices.ContainsFunc(problems, func(p Problem) bool { return p.Reason != BadRecord && p.Reason != MachineDeclares }):
		return RefusedState, ""
	}
	return Synced, ""
}

// digest identifies what is declared, without what is refused.
func (d *Declaration) digest(protected ownership.Protected) string {
	return d.Desired.digestWithout(protected)
}

// GroupOf returns the name of the NodeGroup that a Node's record names, and the digest of what it declared at the last write; empty for none.
func GroupOf(node *corev1.Node) (name, digest string) {
	record, err := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	if err != nil {
		return "", ""
	}
	return record.Source, record.Digest
}

// readGroupRecord returns the record of what a Node has from its NodeGroup; an unreadable one counts as none.
func (l *problemList) readGroupRecord(annotations map[string]string) ownership.Record {
	record, err := ownership.ParseGroupRecord(annotations[ownership.AnnotationGroupRecord])
	if err != nil {
		l.add(ownership.Annotation, ownership.AnnotationGroupRecord, BadRecord, "Node: %v", err)
	}
	return record
}

// OwnedKeys returns the keys of a section as NodeGroup's status.ownedKeys lists them, sorted.
func OwnedKeys(section ownership.Section) []string {
	var keys []string
	for _, kind := range ownership.Kinds {
		for _, key := range section.Of(kind).Sorted() {
			keys = append(keys, string(kind)+"/"+key)
		}
	}
	slices.Sort(keys)
	return keys
}

// ParseOwnedKeys returns what status.ownedKeys lists. Unknown kinds are ignored.
func ParseOwnedKeys(keys []string) ownership.Section {
	byKind := map[ownership.Kind]ownership.Keys{}
	for _, text := range keys {
		kind, key, _ := strings.Cut(text, "/")
		if byKind[ownership.Kind(kind)] == nil {
			byKind[ownership.Kind(kind)] = ownership.Keys{}
		}
		byKind[ownership.Kind(kind)].Add(key)
	}
	section := ownership.Section{}
	for _, kind := range ownership.Kinds {
		section = section.With(kind, byKind[kind])
	}
	return section
}

// Section returns the keys of the entries.
func (e Entries) Section() ownership.Section {
	section := ownership.Section{}
	for _, kind := range ownership.Kinds {
		section = section.With(kind, ownership.KeysOf(e[kind]))
	}
	return section
}
