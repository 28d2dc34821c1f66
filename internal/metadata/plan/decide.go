package plan

import (
	"maps"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/ownership"
)

// Input is all that Decide depends on. Machine must be set; the objects are not changed.
type Input struct {
	// Declaration is what the Machine's MachineSet declares, nil for a Machine without one.
	Declaration *Declaration
	// Machine is the reconciled object.
	Machine *machinev1beta1.Machine
	// Node is the Machine's Node, nil when there is none.
	Node *corev1.Node
	// NodeShared is whether another Machine names the same Node.
	NodeShared bool
	// Protected lists the keys that belong to the system.
	Protected ownership.Protected
	// Link is whether the Node is to name its Machine, which is nodelink's task where another one runs.
	Link bool
	// Contended reports keys that another writer keeps changing and that are left alone for now; nil for none.
	Contended func(target Target, kind ownership.Kind, key string) bool
	// Now is the time of the decision.
	Now time.Time
}

// Target is one of the two objects that are written.
type Target string

// The targets.
const (
	OnMachine Target = "Machine"
	OnNode    Target = "Node"
)

// Decision is what to write to a Machine and its Node, and why not more.
type Decision struct {
	// State is the Machine's state; Pending while there is anything to write.
	State State
	// Settled is the Machine's state when the changes have been made.
	Settled State
	// Reason is why the state is Held or Pending; empty otherwise.
	Reason string
	// RecordUpdate is what is written to the Node before the Machine is changed; usually nothing.
	RecordUpdate RecordUpdate
	// Machine and Node are the changes to make, the Machine's first.
	Machine, Node Change
	// Problems are the declared entries that are not written, sorted by kind and key.
	Problems []Problem
	// Drift is whether what is declared was on the Node before and another writer changed it.
	Drift bool
	// FirstWrite is whether neither Drover nor MNMO has written the Node yet.
	FirstWrite bool
	// Digest identifies what is declared for the Node; empty without one.
	Digest string
}

// Change is what is to be written to one object in one patch.
type Change struct {
	// Results holds the merge of each kind.
	Results map[ownership.Kind]ownership.Result
	// Write is whether there is anything to write.
	Write bool
	// Record is the new text of the ownership record, empty for none. It is set only when there is anything to write.
	Record string
	// CustomLabels is the same for MNMO's annotation; Nodes only.
	CustomLabels string
	// Link is the new value of the Node's annotation AnnotationMachine; empty does not change it.
	Link string
	// owned is the record that was read.
	owned ownership.Record
}

// RecordOnly reports whether nothing but the record is to be written: all entries are as declared.
func (c Change) RecordOnly() bool { return c.Write && c.Link == "" && !c.changed() }

func (c Change) changed() bool {
	for _, result := range c.Results {
		if result.Changed() {
			return true
		}
	}
	return false
}

// Decide decides for one Machine. It never fails: Problems lists what cannot be done.
func Decide(in Input) Decision {
	s := newDecider(in)
	if reason := s.paused(); reason != "" {
		return Decision{State: Held, Settled: Held, Reason: reason, Problems: s.sortedProblems()}
	}
	s.findConflicts()
	s.decideMachine()
	s.updateRecord()
	s.decideNode()
	if len(s.conflicts) > 0 && s.policy() == ownership.Fail {
		s.out.RecordUpdate, s.out.Machine, s.out.Node, s.out.Drift = RecordUpdate{}, Change{}, Change{}, false
	}
	s.summarize()
	return s.out
}

// findConflicts finds the declared keys that another writer set on the Node first. Such a key must not be written to the Machine either: on OpenShift
// nodelink would overwrite the other value with it (MNMO does not write either).
func (s *decider) findConflicts() {
	if s.in.Declaration == nil || s.in.Node == nil {
		return
	}
	for _, kind := range ownership.Kinds {
		desired := s.withoutOnce(kind, s.in.Declaration.Desired[kind])
		if !differs(desired, s.nodeLive[kind]) {
			continue
		}
		result := s.mergeNode(kind, desired)
		for _, conflict := range result.Conflicts {
			s.nodeConflicts[id{kind, conflict.Key}] = true
		}
	}
}

// differs reports whether any declared key has another value.
func differs(desired, live map[string]string) bool {
	for key, value := range desired {
		if present, ok := live[key]; ok && present != value {
			return true
		}
	}
	return false
}

// decideMachine merges the declaration into the Machine's spec. There the MachineSet always wins; keys that it does not and did not declare stay.
func (s *decider) decideMachine() {
	for _, kind := range ownership.Kinds {
		live := s.machineLive[kind]
		if s.in.Declaration == nil || !s.machineWritable() {
			s.machineAfter[kind] = live
			continue
		}
		result := ownership.Merge(ownership.Input{
			Owned:     s.machineOwned(kind),
			Desired:   s.withoutOnce(kind, s.in.Declaration.Desired[kind]),
			Live:      live,
			Protected: s.in.Protected.Of(kind),
			Skip: func(key string) bool {
				return s.nodeConflicts[id{kind, key}] || s.waitsForNode(kind, key) || s.keepsOwnership(kind, key) ||
					s.contended(OnMachine, kind, key)
			},
			Policy: ownership.Adopt,
			Now:    s.in.Now,
		})
		s.out.Machine.set(kind, result)
		s.machineAfter[kind] = ownership.Apply(live, result)
	}
	if s.machineWritable() {
		s.finishMachine()
	}
}

// finishMachine decides the Machine's record and whether there is anything to write. A key that the record need not name any more is no reason to
// write it.
func (s *decider) finishMachine() {
	record := s.machineRecord
	if s.in.Declaration != nil {
		record = ownership.Record{Source: s.in.Declaration.Key.Name, Generation: s.in.Declaration.Generation}
		for _, kind := range ownership.Kinds {
			record.Section = record.With(kind, s.out.Machine.Results[kind].Owned)
		}
	}
	outdated := !record.Section.Equal(s.machineRecord.Section)
	confirms := ownership.Section{}
	for _, kind := range ownership.Kinds {
		keys := s.confirmed(kind).Minus(record.Of(kind))
		outdated = outdated || keys.Minus(s.machineRecord.Owned(kind)).Len() > 0
		confirms = confirms.With(kind, keys)
	}
	record.Machine = &confirms
	s.out.Machine.Write = s.out.Machine.changed() || outdated && !s.recordContended(OnMachine)
	if s.out.Machine.Write {
		s.out.Machine.Record = record.Format()
	}
}

// confirmed returns the restricted keys that the Machine's record has to name, so that they can be removed from the Node later: those that the
// Machine has, and those that the record names already and that may still be on the Node.
func (s *decider) confirmed(kind ownership.Kind) ownership.Keys {
	protected := s.in.Protected.Of(kind)
	keys := ownership.Keys{}
	for key := range s.machineAfter[kind] {
		if ownership.Restricted(kind, key) && !protected(key) && (kind != ownership.Taint || !s.isOnce(key)) && !s.nodeConflicts[id{kind, key}] {
			keys.Add(key)
		}
	}
	for key := range s.machineRecord.Owned(kind).Restricted(kind) {
		if s.mayBeOnNode(kind, key) {
			keys.Add(key)
		}
	}
	return keys
}

// mayBeOnNode reports whether the Node may have an entry of Drover's, now or restored by a writer with a stale cache.
func (s *decider) mayBeOnNode(kind ownership.Kind, key string) bool {
	_, released := s.nodeRecord.Released[kind][key]
	return s.in.Node == nil || released || s.nodeOwned(kind).Has(key) || s.cameFromMachine(kind, key)
}

// decideNode merges what the Machine has after its change, and the declaration, into the Node.
func (s *decider) decideNode() {
	if !s.hasNode() {
		return
	}
	desired := Entries{}
	for _, kind := range ownership.Kinds {
		desired[kind] = s.nodeDesired(kind)
		result := s.mergeNode(kind, desired[kind])
		for _, conflict := range result.Conflicts {
			s.conflicts = append(s.conflicts, conflict)
			s.conflict(kind, conflict)
		}
		for _, key := range result.Refused {
			s.refused(kind, key)
		}
		for _, key := range result.Unconfirmed {
			s.unconfirmed(kind, key)
		}
		if kind == ownership.Taint {
			s.addSetOnceTaints(&result)
		}
		s.out.Node.set(kind, result)
	}
	s.finishNode(desired)
}

// nodeDesired returns the desired entries of the Node: the Machine's own, overridden by those of the declaration.
func (s *decider) nodeDesired(kind ownership.Kind) map[string]string {
	desired := map[string]string{}
	if s.in.Declaration != nil {
		maps.Copy(desired, s.in.Declaration.Desired[kind])
	}
	for key, value := range s.machineAfter[kind] {
		if _, declared := desired[key]; !declared && s.appliesToNode(kind, key) && s.valid(kind, key, value) {
			desired[key] = value
		}
	}
	return s.withoutOnce(kind, desired)
}

// valid reports whether the API server accepts an entry of the Machine's own on a Node. It validates Machines less strictly: a new one is
// created from the template as it is, and one such entry would have every patch of its Node rejected.
func (s *decider) valid(kind ownership.Kind, key, value string) bool {
	invalid := validate(kind, key, value)
	if len(invalid) == 0 {
		return true
	}
	known := func(p Problem) bool { return p.Kind == kind && p.Key == key && p.Reason == Invalid }
	if !slices.ContainsFunc(s.problems, known) {
		s.problem(kind, key, Invalid, "%s %q of the Machine is left out: %s", kind, key, strings.Join(invalid, "; "))
	}
	return false
}

// appliesToNode reports whether an entry of the Machine's own applies to its Node. On a Machine that may not be written, what is no longer declared
// stays and looks like the Machine's own: there only what was recorded as such before still applies.
func (s *decider) appliesToNode(kind ownership.Kind, key string) bool {
	if s.machineWritable() || s.in.Declaration == nil {
		return true
	}
	own := s.nodeRecord.Machine
	return own != nil && own.Of(kind).Has(key)
}

// addSetOnceTaints adds the taints that are set with the first write of a Node only. Those of the system are refused like any other.
func (s *decider) addSetOnceTaints(result *ownership.Result) {
	s.once = s.nodeRecord.Once.Union(nil)
	if s.in.Declaration == nil {
		return
	}
	protected := s.in.Protected.Of(ownership.Taint)
	for key := range s.in.Declaration.Once {
		desired := s.in.Declaration.Desired[ownership.Taint][key]
		live, present := s.nodeLive[ownership.Taint][key]
		switch {
		case protected(key):
			if !present || live != desired {
				s.refused(ownership.Taint, key)
			}
		case s.firstWrite:
			if !present {
				result.Set[key] = desired
			}
			s.once.Add(key)
		}
	}
}

// finishNode decides the Node's records and whether there is anything to write.
func (s *decider) finishNode(desired Entries) {
	record := s.newRecord(desired)
	s.out.FirstWrite, s.out.Digest = s.firstWrite, record.Digest
	known := s.nodeRecord.Digest == record.Digest
	s.out.Drift = s.drifted(known)
	s.link()
	// By the digest a restarted operator knows that this conflict has been reported.
	recordChanged := s.outdated(record) || len(s.conflicts) > 0 && !known && !record.Empty()
	s.out.Node.Write = s.out.Node.changed() || s.out.Node.Link != "" || recordChanged && !s.recordContended(OnNode)
	if s.out.Node.Write {
		s.out.Node.owned = s.nodeRecord
		s.out.Node.Record, s.out.Node.CustomLabels = record.Format(), ownership.FormatCustomLabels(record.Labels)
	}
}

// drifted reports whether the Node's changes restore what Drover owned. A key that was declared before and not owned becomes owned only now: a
// conflict has ended, or the policy has changed.
func (s *decider) drifted(known bool) bool {
	for _, kind := range ownership.Kinds {
		result := s.out.Node.Results[kind]
		if len(result.Returned) > 0 {
			return true
		}
		if !known || !result.Changed() {
			continue
		}
		owned := s.nodeOwned(kind).Minus(s.recorded[kind])
		if owned.And(ownership.KeysOf(result.Set)).Len() > 0 || owned.And(ownership.NewKeys(result.Remove...)).Len() > 0 {
			return true
		}
	}
	return false
}

// AnnotationMachine on a Node names its Machine as namespace/name. It is nodelink's.
const AnnotationMachine = "machine.openshift.io/machine"

// link sets the Node's annotation that names its Machine, whatever its value is: a Node has one Machine.
func (s *decider) link() {
	if name := s.in.Machine.Namespace + "/" + s.in.Machine.Name; s.in.Link && s.in.Node.Annotations[AnnotationMachine] != name {
		s.out.Node.Link = name
	}
}

// newRecord returns the Node's record with what is owned after the change.
func (s *decider) newRecord(desired Entries) ownership.Record {
	record := ownership.Record{Once: s.once, Digest: s.digest(desired), Released: map[ownership.Kind]map[string]ownership.Release{}}
	machine := ownership.Section{}
	for _, kind := range ownership.Kinds {
		result := s.out.Node.Results[kind]
		declaredKeys := s.declaredKeys(kind, result.Owned, desired[kind])
		record.Section = record.With(kind, declaredKeys)
		machine = machine.With(kind, result.Owned.Minus(declaredKeys))
		if len(result.Released) > 0 {
			record.Released[kind] = result.Released
		}
	}
	record.Machine = &machine
	if s.in.Declaration != nil {
		record.Source, record.Generation = s.in.Declaration.Key.Name, s.in.Declaration.Generation
		if record.Empty() && !s.firstWrite {
			// Without a record this Node would look new, and would get the taints that are set once now.
			record.Once = s.in.Declaration.Once
		}
	}
	return record
}

// summarize decides the state.
func (s *decider) summarize() {
	s.out.Problems = s.sortedProblems()
	s.out.Settled, s.out.Reason = s.settled()
	s.out.State = s.out.Settled
	writes := s.out.Machine.Write || s.out.Node.Write
	if writes && (s.out.State == Synced || s.out.State == RefusedState) {
		s.out.State = Pending
	}
}

// settled returns the state when everything that may be written is.
func (s *decider) settled() (state State, reason string) {
	switch {
	case s.in.Node != nil && s.in.NodeShared:
		return Held, "two Machines name this Node in status.nodeRef; Drover writes it when one is left"
	case s.hasContention:
		return Held, "another writer keeps changing a declared key"
	case len(s.conflicts) > 0:
		return Conflicted, ""
	case s.in.Node == nil:
		return Pending, "the Machine has no Node"
	case s.in.Node.DeletionTimestamp != nil:
		return Pending, "the Node is being deleted"
	case len(s.out.Problems) > s.fixed():
		return RefusedState, ""
	}
	return Synced, ""
}

// fixed counts the problems that the writes of this decision fix: an unreadable record is replaced.
func (s *decider) fixed() int {
	count := 0
	for _, object := range s.badRecords {
		if object == OnMachine && s.out.Machine.Write || object == OnNode && s.out.Node.Write {
			count++
		}
	}
	return count
}

func (c *Change) set(kind ownership.Kind, result ownership.Result) {
	if c.Results == nil {
		c.Results = make(map[ownership.Kind]ownership.Result, len(ownership.Kinds))
	}
	c.Results[kind] = result
}
