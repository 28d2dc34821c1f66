package plan

import (
	"fmt"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

type id struct {
	kind ownership.Kind
	key  string
}

// decider holds what is read from an input, and what is decided so far.
type decider struct {
	in  Input
	out Decision

	machineLive, machineAfter, nodeLive Entries
	machineRecord, nodeRecord           ownership.Record
	customLabels                        ownership.Keys
	hasCustomLabels                     bool
	// firstWrite is whether neither Drover nor MNMO has written this Node yet, except for a RecordUpdate.
	firstWrite    bool
	recorded      map[ownership.Kind]ownership.Keys
	nodeConflicts map[id]bool
	conflicts     []ownership.Conflict
	once          ownership.Keys
	hasContention bool
	problems      []Problem
	// badRecords are the objects whose record cannot be read; a write replaces it.
	badRecords []Target
}

func newDecider(in Input) *decider {
	spec := in.Machine.Spec
	s := &decider{
		in: in,
		machineLive: Entries{
			ownership.Label:      spec.Labels,
			ownership.Annotation: spec.Annotations,
			ownership.Taint:      ownership.TaintEntries(spec.Taints),
		},
		machineAfter:  Entries{},
		nodeLive:      Entries{},
		nodeConflicts: map[id]bool{},
	}
	if in.Declaration != nil {
		s.problems = slices.Clone(in.Declaration.Problems)
	}
	s.machineRecord = s.readRecord(OnMachine, in.Machine.Annotations)
	if in.Node != nil {
		s.nodeRecord = s.readRecord(OnNode, in.Node.Annotations)
		s.nodeLive = Entries{
			ownership.Label:      in.Node.Labels,
			ownership.Annotation: in.Node.Annotations,
			ownership.Taint:      ownership.TaintEntries(in.Node.Spec.Taints),
		}
		text, ok := in.Node.Annotations[ownership.AnnotationCustomLabels]
		s.hasCustomLabels, s.customLabels = ok, ownership.ParseCustomLabels(text)
		s.firstWrite = !ok && (in.Node.Annotations[ownership.AnnotationRecord] == "" || isRecordUpdate(s.nodeRecord))
	}
	return s
}

func (s *decider) readRecord(object Target, annotations map[string]string) ownership.Record {
	record, err := ownership.ParseRecord(annotations[ownership.AnnotationRecord])
	if err != nil {
		s.problems = append(s.problems, Problem{
			Kind: ownership.Annotation, Key: ownership.AnnotationRecord, Reason: BadRecord, Message: string(object) + ": " + err.Error(),
		})
		s.badRecords = append(s.badRecords, object)
	}
	return record
}

func (s *decider) paused() string {
	switch {
	case s.in.Declaration != nil && s.in.Declaration.Paused:
		return "the MachineSet is paused"
	case paused.Is(s.in.Machine.Annotations):
		return "the Machine is paused"
	case s.in.Node != nil && paused.Is(s.in.Node.Annotations):
		// The Machine is not written either: on OpenShift nodelink would copy its entries to the Node.
		return "the Node is paused"
	}
	return ""
}

func (s *decider) policy() ownership.Policy {
	if s.in.Declaration == nil {
		return ownership.Keep
	}
	return s.in.Declaration.Policy
}

// hasNode reports whether there is a Node that may be written.
func (s *decider) hasNode() bool {
	node := s.in.Node
	return node != nil && !s.in.NodeShared && node.DeletionTimestamp == nil
}

// machineWritable reports whether the Machine's spec may be written. When the Cluster API is authoritative, or about to be, an admission policy of
// OpenShift denies that.
func (s *decider) machineWritable() bool {
	switch s.in.Machine.Status.AuthoritativeAPI {
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		return false
	}
	return true
}

// machineOwned returns the keys of the Machine's spec that came from the MachineSet. Those that MNMO has set on the Node since Drover last wrote it
// count as well: its list names only keys of the MachineSet, and it writes the Machine before the Node. The kubelet can write that list, so
// restricted keys in it do not count.
func (s *decider) machineOwned(kind ownership.Kind) ownership.Keys {
	owned := s.machineRecord.Of(kind).Union(nil)
	if kind == ownership.Label {
		fromNode := s.customLabels.Minus(s.nodeRecord.Labels)
		owned = owned.Union(fromNode.Minus(fromNode.Restricted(kind)))
	}
	if kind == ownership.Taint && s.in.Node != nil {
		for key := range s.in.Declaration.Once {
			if value, ok := s.machineLive[kind][key]; ok && value == s.in.Declaration.Desired[kind][key] {
				// If it stayed on the Machine, nodelink would restore it on the Node for ever.
				owned.Add(key)
			}
		}
	}
	return owned
}

// nodeOwned returns the keys of the Node that Drover owns. For labels of the MachineSet, MNMO's list counts where it exists, since MNMO may have run
// after Drover and removed keys from it; where it is missing, Drover's own record counts. The keys of a RecordUpdate are owned by then.
func (s *decider) nodeOwned(kind ownership.Kind) ownership.Keys {
	owned := s.nodeRecord.Owned(kind)
	if kind == ownership.Label && s.hasCustomLabels {
		owned = s.customLabels.Union(nil)
		if s.nodeRecord.Machine != nil {
			owned = owned.Union(s.nodeRecord.Machine.Labels)
		}
	}
	if recorded := s.recorded[kind]; recorded.Len() > 0 {
		owned = owned.Union(recorded)
	}
	return owned
}

func (s *decider) mergeNode(kind ownership.Kind, desired map[string]string) ownership.Result {
	return ownership.Merge(ownership.Input{
		Owned:     s.nodeOwned(kind),
		Released:  s.nodeRecord.Released[kind],
		Desired:   desired,
		Live:      s.nodeLive[kind],
		Protected: s.in.Protected.Of(kind),
		Inherited: func(key string) bool { return s.cameFromMachine(kind, key) },
		Skip:      func(key string) bool { return s.contended(OnNode, kind, key) },
		Unconfirmed: func(key string) bool {
			if _, declared := desired[key]; declared && s.confirmsDeclared(kind, key) {
				return false
			}
			return ownership.Restricted(kind, key) && !s.machineRecord.Owned(kind).Has(key)
		},
		Disown: func(key string) bool { return kind == ownership.Taint && s.isOnce(key) },
		Policy: s.policy(),
		Now:    s.in.Now,
	})
}

// confirmsDeclared reports whether the Machine confirms a declared key that its record does not name. An entry of the Machine's own is named from
// this reconciliation on. A Machine that must not be written has no record that could name it.
func (s *decider) confirmsDeclared(kind ownership.Kind, key string) bool {
	if !s.machineWritable() {
		return true
	}
	if s.in.Declaration != nil {
		if _, byMachineSet := s.in.Declaration.Desired[kind][key]; byMachineSet {
			return false
		}
	}
	_, own := s.machineAfter[kind][key]
	return own
}

// cameFromMachine reports whether a Node's value is the Machine's: it was copied at creation or by nodelink, not set by another writer.
func (s *decider) cameFromMachine(kind ownership.Kind, key string) bool {
	onMachine, ok := s.machineLive[kind][key]
	live, present := s.nodeLive[kind][key]
	return ok && present && onMachine == live
}

func (s *decider) contended(target Target, kind ownership.Kind, key string) bool {
	if s.in.Contended == nil || !s.in.Contended(target, kind, key) {
		return false
	}
	s.hasContention = true
	s.problem(kind, key, Contended, "another writer keeps changing %s %q of the %s; Drover waits before it writes it again", kind, key, target)
	return true
}

// recordContended reports whether another writer keeps removing the record, so that writing it alone has to wait.
func (s *decider) recordContended(target Target) bool {
	return s.contended(target, ownership.Annotation, ownership.AnnotationRecord)
}

func (s *decider) isOnce(key string) bool {
	return s.in.Declaration != nil && s.in.Declaration.Once.Has(key)
}

// waitsForNode reports whether a set-once taint stays on a Machine because there is no Node yet that can get it.
func (s *decider) waitsForNode(kind ownership.Kind, key string) bool {
	return kind == ownership.Taint && s.isOnce(key) && !s.hasNode()
}

func (s *decider) withoutOnce(kind ownership.Kind, entries map[string]string) map[string]string {
	if kind != ownership.Taint || s.in.Declaration == nil || s.in.Declaration.Once.Len() == 0 {
		return entries
	}
	kept := maps.Clone(entries)
	maps.DeleteFunc(kept, func(key, _ string) bool { return s.isOnce(key) })
	return kept
}

func (s *decider) declarationKeys(kind ownership.Kind) ownership.Keys {
	if s.in.Declaration == nil {
		// A Machine whose MachineSet is gone or has released it keeps what it has, as the MachineSet's.
		return s.nodeRecord.Of(kind)
	}
	return ownership.KeysOf(s.in.Declaration.Desired[kind])
}

// declaredKeys returns those of the owned keys that came from the MachineSet. A key that is no longer declared and could not be removed yet stays the
// MachineSet's: as the Machine's own, it would never be removed from the Node of a Machine that may not be written.
func (s *decider) declaredKeys(kind ownership.Kind, owned ownership.Keys, desired map[string]string) ownership.Keys {
	left := owned.Minus(ownership.KeysOf(desired))
	if own := s.nodeRecord.Machine; own != nil {
		left = left.Minus(own.Of(kind))
	}
	return owned.And(s.declarationKeys(kind)).Union(left)
}

// digest identifies what is declared, without what is refused: declaring such a key writes nothing, so that the digest on the Node would be outdated
// and the next manual edit would be mistaken for a rollout.
func (s *decider) digest(desired Entries) string {
	writable := Entries{}
	for kind, entries := range desired {
		protected := s.in.Protected.Of(kind)
		writable[kind] = maps.Clone(entries)
		maps.DeleteFunc(writable[kind], func(key, _ string) bool { return protected(key) })
	}
	return writable.Digest()
}

// outdated reports whether the records on the Node name other keys than the new one.
func (s *decider) outdated(record ownership.Record) bool {
	return !record.SameKeys(s.nodeRecord) || !record.Labels.Equal(s.customLabels) && s.customLabelsMatter(record)
}

// customLabelsMatter reports whether MNMO's list alone is a reason to write. It is not created where no labels are declared: nothing is ever written
// then.
func (s *decider) customLabelsMatter(record ownership.Record) bool {
	return s.hasCustomLabels || record.Labels.Len() > 0
}

func (s *decider) problem(kind ownership.Kind, key string, reason Reason, format string, args ...any) {
	s.problems = append(s.problems, Problem{Kind: kind, Key: key, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (s *decider) conflict(kind ownership.Kind, c ownership.Conflict) {
	s.problem(kind, c.Key, InConflict, "%s %q has the value %q on the Node, set by another writer; declared is %q, policy is %s",
		kind, c.Key, c.Live, c.Desired, s.policy())
}

func (s *decider) refused(kind ownership.Kind, key string) {
	s.problem(kind, key, Refused, "%s %q belongs to the system; Drover neither sets nor removes it", kind, key)
}

func (s *decider) unconfirmed(kind ownership.Kind, key string) {
	s.problem(kind, key, Unconfirmed, "the ownership record on the Node names %s %q, the record on the Machine does not: Drover does not remove it; "+
		"remove it manually if it is not wanted", kind, key)
}

func (s *decider) sortedProblems() []Problem {
	problems := slices.Clone(s.problems)
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}
