// Package plan decides what the declared labels, annotations and taints of a MachineSet change on one Machine and its Node.
//
// It is pure: objects and the time go in, a Decision comes out, and the patches are rendered from the Decision. The operator and
// `kubectl drover plan` call the same functions, so that what the command shows is what the operator does. docs/compatibility/mnmo.md lists what
// the managed-node-metadata-operator does differently.
package plan

import (
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
	// Group is what the Node has from its NodeGroup. It is read only if DependsOnGroup says so.
	Group GroupLayer
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
	// AwaitsGuard is whether the Node lacks taints that it gets from its NodeGroup.
	AwaitsGuard bool
	// Drift is whether what is declared was on the Node before and another writer changed it.
	Drift bool
	// Reached is whether the Node has been written with what is declared.
	Reached bool
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
func (c Change) RecordOnly() bool { return c.Write && c.Link == "" && !c.Changed() }

// Changed reports whether any entry is set or removed, and not only recorded.
func (c Change) Changed() bool {
	for _, result := range c.Results {
		if result.Changed() {
			return true
		}
	}
	return false
}

// Restores reports whether Drover has set or removed every entry of the change before.
func (c Change) Restores() bool {
	for kind, result := range c.Results {
		changed := ownership.KeysOf(result.Set).Union(ownership.NewKeys(result.Remove...))
		if changed.Minus(c.owned.Owned(kind)).Minus(ownership.NewKeys(result.Returned...)).Len() > 0 {
			return false
		}
	}
	return true
}

// Repairs returns the keys whose change undoes what another writer did: keys that are set again although the record names them, and keys that are
// removed again. What Drover itself goes on with does not count, such as the guard of a taint, or a key that another writer has let go. rewritten
// means that the same was written before, and the record may not show that any more. Then all keys are repairs, except for taints that may have been
// held back.
func (c Change) Repairs(rewritten bool) ownership.Section {
	var out ownership.Section
	for _, kind := range ownership.Kinds {
		result := c.Results[kind]
		repaired := ownership.KeysOf(result.Set).And(c.owned.Owned(kind)).Union(ownership.NewKeys(result.Returned...))
		again := ownership.Keys{}
		for key := range ownership.KeysOf(result.Set).Union(ownership.NewKeys(result.Remove...)) {
			if _, effect := ownership.SplitTaintID(key); rewritten && (kind != ownership.Taint || effect != corev1.TaintEffectNoExecute) {
				again.Add(key)
			}
		}
		out = out.With(kind, repaired.Union(again))
	}
	return out
}

// RepairText names the keys of Repairs in an event.
func (c Change) RepairText() string {
	var names []string
	repaired := c.Repairs(false)
	for _, kind := range ownership.Kinds {
		for _, key := range repaired.Of(kind).Sorted() {
			name := string(kind) + " " + key
			if _, set := c.Results[kind].Set[key]; !set {
				name += " (removed)"
			}
			names = append(names, name)
		}
	}
	return strings.Join(names, ", ")
}

// SetsNoExecute reports whether a taint is set with the effect NoExecute, which has the Pods deleted that do not tolerate it.
func (c Change) SetsNoExecute() bool { return hasNoExecute(c.Results[ownership.Taint].Set) }

// Decide decides for one Machine. It never fails: Problems lists what cannot be done.
func Decide(in Input) Decision {
	f, problems := newFacts(in)
	if reason := f.paused(); reason != "" {
		return Decision{State: Held, Settled: Held, Reason: reason, Problems: problems.sorted(), Reached: f.reached()}
	}
	machine, after := f.decideMachine(f.findConflicts(&problems), &problems)
	update := f.recordUpdate(machine)
	out := f.decideNode(after, update.Keys, &problems)
	out.Machine, out.RecordUpdate = machine, update
	if problems.has(InConflict) && f.policy() == ownership.Fail {
		out.RecordUpdate, out.Machine, out.Node, out.Drift = RecordUpdate{}, Change{}, Change{}, false
	}
	out.AwaitsGuard = f.awaitsGuard(&problems)
	out.Problems = problems.sorted()
	out.Settled, out.Reason = f.settled(&out)
	out.State = out.Settled
	if (out.Machine.Write || out.Node.Write) && (out.State == Synced || out.State == RefusedState) {
		out.State = Pending
	}
	return out
}

// reached reports whether a Node that may not be written now has been written with what is declared.
func (f *facts) reached() bool {
	ignored := &problemList{}
	machine, after := f.decideMachine(f.findConflicts(ignored), ignored)
	return f.decideNode(after, f.recordUpdate(machine).Keys, ignored).Reached
}

// nodeShared is why a Node is Held that several Machines name.
const nodeShared = "two Machines name this Node in status.nodeRef; Drover writes it when one is left"

// settled returns the state when everything that may be written is.
func (f *facts) settled(out *Decision) (state State, reason string) {
	switch {
	case f.in.Node != nil && f.in.NodeShared:
		return Held, nodeShared
	case problemList(out.Problems).has(Contended):
		return Held, "another writer keeps changing a declared key"
	case problemList(out.Problems).has(InConflict):
		return Conflicted, ""
	case f.in.Node == nil:
		return Pending, "the Machine has no Node"
	case f.in.Node.DeletionTimestamp != nil:
		return Pending, "the Node is being deleted"
	case out.AwaitsGuard:
		return Pending, "NodeGroup " + f.in.Group.Name + " guards taints that the Node lacks"
	case slices.ContainsFunc(out.Problems, func(p Problem) bool { return !out.fixes(p) }):
		return RefusedState, ""
	}
	return Synced, ""
}

// fixes reports whether the writes of a decision end a problem: a write replaces a record that cannot be read.
func (d *Decision) fixes(p Problem) bool {
	return p.Reason == BadRecord && (p.record == OnMachine && d.Machine.Write || p.record == OnNode && d.Node.Write)
}

// findConflicts returns the declared keys that another writer set on the Node first. Such a key must not be written to the Machine either: on
// OpenShift nodelink would overwrite the other value with it (MNMO does not write either).
func (f *facts) findConflicts(problems *problemList) map[id]bool {
	if f.in.Declaration == nil || f.in.Node == nil {
		return nil
	}
	conflicts := map[id]bool{}
	for _, kind := range ownership.Kinds {
		desired := f.withoutOnce(kind, f.in.Declaration.Desired[kind])
		if !differs(desired, f.nodeLive[kind]) {
			continue
		}
		for _, conflict := range f.mergeNode(kind, desired, nil, nil, problems).Conflicts {
			conflicts[id{kind, conflict.Key}] = true
		}
	}
	return conflicts
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

func (c *Change) set(kind ownership.Kind, result ownership.Result) {
	if c.Results == nil {
		c.Results = make(map[ownership.Kind]ownership.Result, len(ownership.Kinds))
	}
	c.Results[kind] = result
}
