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

// Input is everything that Decide looks at. Machine must be set; the objects are not changed.
type Input struct {
	// Declaration is what the Machine's MachineSet declares, nil for a Machine without one.
	Declaration *Declaration
	// Machine is the work item.
	Machine *machinev1beta1.Machine
	// Node is the Machine's Node, nil when there is none.
	Node *corev1.Node
	// NodeShared tells that another Machine names the same Node.
	NodeShared bool
	// Protected lists the keys that belong to the system.
	Protected ownership.Protected
	// Link tells that the Node is to name its Machine, as nodelink does where no other one does.
	Link bool
	// Contended tells keys that another writer fights over and that are to be left alone for now; nil for none.
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

// Decision is what is to be done about one Machine and its Node.
type Decision struct {
	// State is where the Machine stands; Pending while there is anything to write.
	State State
	// Settled is where the Machine stands once the changes are made.
	Settled State
	// Reason says in a few words why the state is Held or Pending; empty else.
	Reason string
	// RecordUpdate is what has to be written to the Node before the Machine is changed; mostly nothing.
	RecordUpdate RecordUpdate
	// Machine and Node are the changes to make, the Machine's first.
	Machine, Node Change
	// Problems are the declared entries that are not written, sorted by kind and key.
	Problems []Problem
	// Drift tells that what is declared was on the Node before and somebody changed it by hand.
	Drift bool
	// FirstWrite tells that neither Drover nor MNMO has written the Node yet.
	FirstWrite bool
	// Digest tells what is declared for the Node; empty without one.
	Digest string
}

// Change is what is to be written to one object in one patch.
type Change struct {
	// Results holds the merge of each kind.
	Results map[ownership.Kind]ownership.Result
	// Write tells that there is anything to write at all.
	Write bool
	// Record is the new text of the ownership record, empty for none. It is set only when there is anything to write.
	Record string
	// CustomLabels is the same for MNMO's annotation; Nodes only.
	CustomLabels string
	// Link is what the annotation AnnotationMachine of the Node is to be; empty leaves it.
	Link string
	// owned is the record that was read.
	owned ownership.Record
}

// RecordOnly tells that nothing but the record is to be written: what it tells of stands there as declared.
func (c Change) RecordOnly() bool { return c.Write && c.Link == "" && !c.changed() }

func (c Change) changed() bool {
	for _, result := range c.Results {
		if result.Changed() {
			return true
		}
	}
	return false
}

// Decide makes the decision for one Machine. It never fails: what cannot be done is reported in Problems.
func Decide(in Input) Decision {
	s := newScope(in)
	if reason := s.paused(); reason != "" {
		return Decision{State: Held, Settled: Held, Reason: reason, Problems: s.sortedProblems()}
	}
	s.findConflicts()
	s.decideMachine()
	s.claim()
	s.decideNode()
	if len(s.conflicts) > 0 && s.policy() == ownership.Fail {
		s.out.RecordUpdate, s.out.Machine, s.out.Node, s.out.Drift = RecordUpdate{}, Change{}, Change{}, false
	}
	s.summarise()
	return s.out
}

// findConflicts asks before the Machine is touched which keys of the pool somebody else holds on the Node. Such a key must not
// reach the Machine either: on OpenShift nodelink would carry it over the other's value (MNMO leaves both alone, too).
func (s *scope) findConflicts() {
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
			s.poolConflicts[id{kind, conflict.Key}] = true
		}
	}
}

// differs tells whether any declared key is live with another value.
func differs(desired, live map[string]string) bool {
	for key, value := range desired {
		if present, ok := live[key]; ok && present != value {
			return true
		}
	}
	return false
}

// decideMachine merges what the pool declares into the Machine's spec. There the MachineSet always wins; keys that it does not
// name and never named stay.
func (s *scope) decideMachine() {
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
			Hold: func(key string) bool {
				return s.poolConflicts[id{kind, key}] || s.waitsForNode(kind, key) || s.wouldLoseProof(kind, key) ||
					s.withheld(OnMachine, kind, key)
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

// finishMachine decides the Machine's record and whether there is anything to write. What the record needs not name any more is no reason to
// write it.
func (s *scope) finishMachine() {
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
	s.out.Machine.Write = s.out.Machine.changed() || outdated && !s.recordWithheld(OnMachine)
	if s.out.Machine.Write {
		s.out.Machine.Record = record.Format()
	}
}

// confirmed are the restricted keys that the Machine's record has to name, so that they can be removed from the Node one day: those that stand
// on the Machine, and those that it names already and that may still be on the Node.
func (s *scope) confirmed(kind ownership.Kind) ownership.Keys {
	protected := s.in.Protected.Of(kind)
	keys := ownership.Keys{}
	for key := range s.machineAfter[kind] {
		if ownership.Restricted(kind, key) && !protected(key) && (kind != ownership.Taint || !s.isOnce(key)) {
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

// mayBeOnNode reports whether the Node may have an entry of Drover's, now or put back by a writer with an old cache.
func (s *scope) mayBeOnNode(kind ownership.Kind, key string) bool {
	_, released := s.nodeRecord.Released[kind][key]
	return s.in.Node == nil || released || s.nodeOwned(kind).Has(key) || s.cameFromMachine(kind, key)
}

// decideNode merges what now stands on the Machine, and what the pool declares, into the Node.
func (s *scope) decideNode() {
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
			s.giveOnce(&result)
		}
		s.out.Node.set(kind, result)
	}
	s.finishNode(desired)
}

// nodeDesired is what the Node is to carry: the Machine's own entries, and over them the pool's.
func (s *scope) nodeDesired(kind ownership.Kind) map[string]string {
	desired := map[string]string{}
	if s.in.Declaration != nil {
		maps.Copy(desired, s.in.Declaration.Desired[kind])
	}
	for key, value := range s.machineAfter[kind] {
		if _, declared := desired[key]; !declared && s.flows(kind, key) && s.valid(kind, key, value) {
			desired[key] = value
		}
	}
	return s.withoutOnce(kind, desired)
}

// valid tells whether the API server takes an entry of the Machine's own on a Node. It does not look at Machines as closely: a new one is
// made from the template as it stands, and one such entry would have every patch of its Node refused.
func (s *scope) valid(kind ownership.Kind, key, value string) bool {
	faults := faultsOf(kind, key, value)
	if len(faults) == 0 {
		return true
	}
	known := func(p Problem) bool { return p.Kind == kind && p.Key == key && p.Reason == Invalid }
	if !slices.ContainsFunc(s.problems, known) {
		s.problem(kind, key, Invalid, "%s %q of the Machine is left out: %s", kind, key, strings.Join(faults, "; "))
	}
	return false
}

// flows tells whether an entry of the Machine's own goes to its Node. On a Machine that may not be written, what the pool no longer
// declares stands for ever and looks like the Machine's own: there only what was known as such before still flows.
func (s *scope) flows(kind ownership.Kind, key string) bool {
	if s.machineWritable() || s.in.Declaration == nil {
		return true
	}
	own := s.nodeRecord.Machine
	return own != nil && own.Of(kind).Has(key)
}

// giveOnce adds the taints that a Node gets at first sight only. Those of the system are refused like any other.
func (s *scope) giveOnce(result *ownership.Result) {
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
func (s *scope) finishNode(desired Entries) {
	record := s.newRecord(desired)
	s.out.FirstWrite, s.out.Digest = s.firstWrite, record.Digest
	known := s.nodeRecord.Digest == record.Digest
	s.out.Drift = s.drifted(known)
	s.link()
	// The digest is what tells a restarted operator that this conflict has been reported.
	note := s.outdated(record) || len(s.conflicts) > 0 && !known && !record.Empty()
	s.out.Node.Write = s.out.Node.changed() || s.out.Node.Link != "" || note && !s.recordWithheld(OnNode)
	if s.out.Node.Write {
		s.out.Node.owned = s.nodeRecord
		s.out.Node.Record, s.out.Node.CustomLabels = record.Format(), ownership.FormatCustomLabels(record.Labels)
	}
}

// drifted tells whether the Node's changes put back what was Drover's. Where the same was declared before, a key that was not Drover's is one
// that has only now become so: a conflict has ended, or the policy is another one.
func (s *scope) drifted(known bool) bool {
	for _, kind := range ownership.Kinds {
		result := s.out.Node.Results[kind]
		if len(result.Returned) > 0 {
			return true
		}
		if !known || !result.Changed() {
			continue
		}
		owned := s.nodeOwned(kind).Minus(s.claims[kind])
		if owned.And(ownership.KeysOf(result.Set)).Len() > 0 || owned.And(ownership.NewKeys(result.Remove...)).Len() > 0 {
			return true
		}
	}
	return false
}

// AnnotationMachine on a Node names its Machine as namespace/name. It is nodelink's.
const AnnotationMachine = "machine.openshift.io/machine"

// link has the Node name its Machine, over whatever stands there: a Node has one Machine.
func (s *scope) link() {
	if name := s.in.Machine.Namespace + "/" + s.in.Machine.Name; s.in.Link && s.in.Node.Annotations[AnnotationMachine] != name {
		s.out.Node.Link = name
	}
}

// newRecord is the Node's record with what the results say is owned now.
func (s *scope) newRecord(desired Entries) ownership.Record {
	record := ownership.Record{Once: s.once, Digest: s.digest(desired), Released: map[ownership.Kind]map[string]ownership.Release{}}
	machine := ownership.Section{}
	for _, kind := range ownership.Kinds {
		result := s.out.Node.Results[kind]
		fromPool := s.fromPool(kind, result.Owned, desired[kind])
		record.Section = record.With(kind, fromPool)
		machine = machine.With(kind, result.Owned.Minus(fromPool))
		if len(result.Released) > 0 {
			record.Released[kind] = result.Released
		}
	}
	record.Machine = &machine
	if s.in.Declaration != nil {
		record.Source, record.Generation = s.in.Declaration.Key.Name, s.in.Declaration.Generation
		if record.Empty() && !s.firstWrite {
			// Without a record this Node would look new, and would be given now what is given once.
			record.Once = s.in.Declaration.Once
		}
	}
	return record
}

// summarise decides the state.
func (s *scope) summarise() {
	s.out.Problems = s.sortedProblems()
	s.out.Settled, s.out.Reason = s.settled()
	s.out.State = s.out.Settled
	writes := s.out.Machine.Write || s.out.Node.Write
	if writes && (s.out.State == Synced || s.out.State == RefusedState) {
		s.out.State = Pending
	}
}

// settled is the state once everything that may be written is.
func (s *scope) settled() (state State, reason string) {
	switch {
	case s.in.Node != nil && s.in.NodeShared:
		return Held, "two Machines name this Node in status.nodeRef; Drover writes it when one is left"
	case s.fighting:
		return Held, "another writer keeps changing a declared key"
	case len(s.conflicts) > 0:
		return Conflicted, ""
	case s.in.Node == nil:
		return Pending, "the Machine has no Node"
	case s.in.Node.DeletionTimestamp != nil:
		return Pending, "the Node is being deleted"
	case len(s.out.Problems) > s.mended():
		return RefusedState, ""
	}
	return Synced, ""
}

// mended counts the problems that end with the writes of this decision: an unreadable record is replaced.
func (s *scope) mended() int {
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
