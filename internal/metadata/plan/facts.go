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

// scope holds what one decision gathers on its way.
type scope struct {
	in  Input
	out Decision

	machineLive, machineAfter, nodeLive Entries
	machineRecord, nodeRecord           ownership.Record
	customLabels                        ownership.Keys
	hasCustomLabels                     bool
	// firstWrite tells that neither Drover nor MNMO has written this Node yet, but for a claim.
	firstWrite    bool
	claims        map[ownership.Kind]ownership.Keys
	poolConflicts map[id]bool
	conflicts     []ownership.Conflict
	once          ownership.Keys
	fighting      bool
	problems      []Problem
	// badRecords are the objects whose record cannot be read; a write replaces it.
	badRecords []Target
}

func newScope(in Input) *scope {
	spec := in.Machine.Spec
	s := &scope{
		in: in,
		machineLive: Entries{
			ownership.Label:      spec.Labels,
			ownership.Annotation: spec.Annotations,
			ownership.Taint:      ownership.TaintEntries(spec.Taints),
		},
		machineAfter:  Entries{},
		nodeLive:      Entries{},
		poolConflicts: map[id]bool{},
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
		s.firstWrite = !ok && (in.Node.Annotations[ownership.AnnotationRecord] == "" || onlyClaimed(s.nodeRecord))
	}
	return s
}

func (s *scope) readRecord(object Target, annotations map[string]string) ownership.Record {
	record, err := ownership.ParseRecord(annotations[ownership.AnnotationRecord])
	if err != nil {
		s.problems = append(s.problems, Problem{
			Kind: ownership.Annotation, Key: ownership.AnnotationRecord, Reason: BadRecord, Message: string(object) + ": " + err.Error(),
		})
		s.badRecords = append(s.badRecords, object)
	}
	return record
}

func (s *scope) paused() string {
	switch {
	case s.in.Declaration != nil && s.in.Declaration.Paused:
		return "the MachineSet is paused"
	case paused.Is(s.in.Machine.Annotations):
		return "the Machine is paused"
	case s.in.Node != nil && paused.Is(s.in.Node.Annotations):
		// The Machine waits with it: on OpenShift nodelink would carry what is written there to the Node.
		return "the Node is paused"
	}
	return ""
}

func (s *scope) policy() ownership.Policy {
	if s.in.Declaration == nil {
		return ownership.Keep
	}
	return s.in.Declaration.Policy
}

// hasNode tells whether there is a Node that may be written.
func (s *scope) hasNode() bool {
	node := s.in.Node
	return node != nil && !s.in.NodeShared && node.DeletionTimestamp == nil
}

// machineWritable tells whether the Machine's spec is the Machine API's to change. Once the Cluster API is authoritative, or about
// to be, an admission policy of OpenShift refuses it.
func (s *scope) machineWritable() bool {
	switch s.in.Machine.Status.AuthoritativeAPI {
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		return false
	}
	return true
}

// machineOwned are the keys of the Machine's spec that came from the pool. Those that MNMO put on the Node since Drover last wrote
// it count as well: its list names only keys of the MachineSet, and it writes the Machine before the Node. The kubelet can write that list, so
// it says nothing about restricted keys.
func (s *scope) machineOwned(kind ownership.Kind) ownership.Keys {
	owned := s.machineRecord.Of(kind).Union(nil)
	if kind == ownership.Label {
		fromNode := s.customLabels.Minus(s.nodeRecord.Labels)
		owned = owned.Union(fromNode.Minus(fromNode.Restricted(kind)))
	}
	if kind == ownership.Taint && s.in.Node != nil {
		for key := range s.in.Declaration.Once {
			if value, ok := s.machineLive[kind][key]; ok && value == s.in.Declaration.Desired[kind][key] {
				// Left on the Machine, nodelink would put it back on the Node for ever.
				owned.Add(key)
			}
		}
	}
	return owned
}

// nodeOwned are the keys of the Node that are Drover's. For labels of the pool MNMO's list counts where it stands, since MNMO may
// have run after Drover and taken keys off it; where it is missing Drover's own record does. What is claimed before is owned by then.
func (s *scope) nodeOwned(kind ownership.Kind) ownership.Keys {
	owned := s.nodeRecord.Owned(kind)
	if kind == ownership.Label && s.hasCustomLabels {
		owned = s.customLabels.Union(nil)
		if s.nodeRecord.Machine != nil {
			owned = owned.Union(s.nodeRecord.Machine.Labels)
		}
	}
	if claimed := s.claims[kind]; claimed.Len() > 0 {
		owned = owned.Union(claimed)
	}
	return owned
}

func (s *scope) mergeNode(kind ownership.Kind, desired map[string]string) ownership.Result {
	return ownership.Merge(ownership.Input{
		Owned:     s.nodeOwned(kind),
		Released:  s.nodeRecord.Released[kind],
		Desired:   desired,
		Live:      s.nodeLive[kind],
		Protected: s.in.Protected.Of(kind),
		Proven:    func(key string) bool { return s.cameFromMachine(kind, key) },
		Hold:      func(key string) bool { return s.withheld(OnNode, kind, key) },
		Unconfirmed: func(key string) bool {
			return ownership.Restricted(kind, key) && !s.machineRecord.Owned(kind).Has(key)
		},
		Abandon: func(key string) bool { return kind == ownership.Taint && s.isOnce(key) },
		Policy:  s.policy(),
		Now:     s.in.Now,
	})
}

// cameFromMachine tells that a Node's value is the Machine's: it was copied at creation or by nodelink, not set by somebody else.
func (s *scope) cameFromMachine(kind ownership.Kind, key string) bool {
	onMachine, ok := s.machineLive[kind][key]
	live, present := s.nodeLive[kind][key]
	return ok && present && onMachine == live
}

func (s *scope) withheld(target Target, kind ownership.Kind, key string) bool {
	if s.in.Contended == nil || !s.in.Contended(target, kind, key) {
		return false
	}
	s.fighting = true
	s.problem(kind, key, Contended, "another writer keeps changing %s %q of the %s; Drover waits before it writes it again", kind, key, target)
	return true
}

// recordWithheld tells that somebody keeps taking the record away, so that writing it alone has to wait.
func (s *scope) recordWithheld(target Target) bool {
	return s.withheld(target, ownership.Annotation, ownership.AnnotationRecord)
}

func (s *scope) isOnce(key string) bool {
	return s.in.Declaration != nil && s.in.Declaration.Once.Has(key)
}

// waitsForNode keeps a set-once taint on a Machine until there is a Node that can be given it.
func (s *scope) waitsForNode(kind ownership.Kind, key string) bool {
	return kind == ownership.Taint && s.isOnce(key) && !s.hasNode()
}

func (s *scope) withoutOnce(kind ownership.Kind, entries map[string]string) map[string]string {
	if kind != ownership.Taint || s.in.Declaration == nil || s.in.Declaration.Once.Len() == 0 {
		return entries
	}
	kept := maps.Clone(entries)
	maps.DeleteFunc(kept, func(key, _ string) bool { return s.isOnce(key) })
	return kept
}

func (s *scope) poolKeys(kind ownership.Kind) ownership.Keys {
	if s.in.Declaration == nil {
		// A Machine whose MachineSet is gone or lets it go keeps what it has, as the pool's.
		return s.nodeRecord.Of(kind)
	}
	return ownership.KeysOf(s.in.Declaration.Desired[kind])
}

// fromPool picks the pool's keys of those that are owned. One that nobody declares any more and that had to be left for now stays
// whose it was: taken for the Machine's own, it would never go from the Node of a Machine that may not be written.
func (s *scope) fromPool(kind ownership.Kind, owned ownership.Keys, desired map[string]string) ownership.Keys {
	left := owned.Minus(ownership.KeysOf(desired))
	if own := s.nodeRecord.Machine; own != nil {
		left = left.Minus(own.Of(kind))
	}
	return owned.And(s.poolKeys(kind)).Union(left)
}

// digest tells what is declared, without what is refused: declaring such a key writes nothing, so that the digest on the Node would
// stay behind and the next hand edit would pass for a roll-out.
func (s *scope) digest(desired Entries) string {
	writable := Entries{}
	for kind, entries := range desired {
		protected := s.in.Protected.Of(kind)
		writable[kind] = maps.Clone(entries)
		maps.DeleteFunc(writable[kind], func(key, _ string) bool { return protected(key) })
	}
	return writable.Digest()
}

// outdated tells whether the records on the Node name other keys than the new one.
func (s *scope) outdated(record ownership.Record) bool {
	return !record.SameKeys(s.nodeRecord) || !record.Labels.Equal(s.customLabels) && s.customLabelsMatter(record)
}

// customLabelsMatter tells whether MNMO's list has to be written for its own sake. It is not created where the pool declares no
// labels: such a pool gets no write, ever.
func (s *scope) customLabelsMatter(record ownership.Record) bool {
	return s.hasCustomLabels || record.Labels.Len() > 0
}

func (s *scope) problem(kind ownership.Kind, key string, reason Reason, format string, args ...any) {
	s.problems = append(s.problems, Problem{Kind: kind, Key: key, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (s *scope) conflict(kind ownership.Kind, c ownership.Conflict) {
	s.problem(kind, c.Key, InConflict, "%s %q stands on the Node as %q, set by somebody else; declared is %q, policy is %s",
		kind, c.Key, c.Live, c.Desired, s.policy())
}

func (s *scope) refused(kind ownership.Kind, key string) {
	s.problem(kind, key, Refused, "%s %q belongs to the system; Drover neither sets nor removes it", kind, key)
}

func (s *scope) unconfirmed(kind ownership.Kind, key string) {
	s.problem(kind, key, Unconfirmed, "the record on the Node says that %s %q is Drover's, the record on the Machine does not: it stays; "+
		"remove it by hand if you do not want it", kind, key)
}

func (s *scope) sortedProblems() []Problem {
	problems := slices.Clone(s.problems)
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}
