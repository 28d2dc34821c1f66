package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-io/drover/internal/ownership"
)

// Reason is why an entry is not written. The values are stable: users read them in events and in the output of kubectl drover.
type Reason string

// The reasons of a Problem.
const (
	// Invalid: the API server would reject the entry.
	Invalid Reason = "Invalid"
	// Duplicate: the taint is declared more than once.
	Duplicate Reason = "Duplicate"
	// Refused: the key belongs to the system.
	Refused Reason = "Refused"
	// InConflict: another writer set the key first, to another value.
	InConflict Reason = "Conflict"
	// Contended: another writer keeps changing the key; Drover waits before it writes it again.
	Contended Reason = "Fighting"
	// Unconfirmed: the record on the Node names a restricted entry that the record on the Machine does not; it stays.
	Unconfirmed Reason = "Unconfirmed"
	// MachineDeclares: the Node's Machine or MachineSet declares a key of the NodeGroup with another value, which counts.
	MachineDeclares Reason = "MachineSetDeclares"
	// Untrusted: the label isolates workloads, and the NodeGroup selects Nodes by what their kubelets can change.
	Untrusted Reason = "UntrustedSelector"
	// Deselects: the NodeGroup does not select Nodes with the label.
	Deselects Reason = "Deselects"
	// NoExecuteHeld: the taint has the effect NoExecute, and the Pods that do not tolerate it are not evicted first.
	NoExecuteHeld Reason = "NoExecuteHeld"
	// NoExecuteRefused: the taint has the effect NoExecute, and no NodeGroup evicts the Pods first that do not tolerate it.
	NoExecuteRefused Reason = "NoExecuteRefused"
	// BadRecord: the ownership record on the object cannot be read.
	BadRecord Reason = "BadRecord"
)

// Problem is a declared entry that is not written, or an annotation that cannot be used.
type Problem struct {
	Kind    ownership.Kind `json:"kind"`
	Key     string         `json:"key"`
	Reason  Reason         `json:"reason"`
	Message string         `json:"message"`

	// record is, with BadRecord, the object whose record cannot be read.
	record Target
}

func compareProblems(a, b Problem) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Message, b.Message))
}

// problemList collects the problems of a decision.
type problemList []Problem

func (l *problemList) add(kind ownership.Kind, key string, reason Reason, format string, args ...any) {
	*l = append(*l, Problem{Kind: kind, Key: key, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

// addResult adds what a merge into the Node leaves out. confirms is what a record on the Node needs to be confirmed by.
func (l *problemList) addResult(kind ownership.Kind, result ownership.Result, policy ownership.Policy, confirms string) {
	for _, c := range result.Conflicts {
		l.add(kind, c.Key, InConflict, "%s %q has the value %q on the Node, set by another writer; declared is %q, policy is %s",
			kind, c.Key, c.Live, c.Desired, policy)
	}
	for _, key := range result.Refused {
		l.refused(kind, key)
	}
	for _, key := range result.Unconfirmed {
		l.add(kind, key, Unconfirmed, "the ownership record on the Node names %s %q, %s does not: Drover does not remove it; "+
			"remove it manually if it is not wanted", kind, key, confirms)
	}
}

func (l *problemList) refused(kind ownership.Kind, key string) {
	l.add(kind, key, Refused, "%s %q belongs to the system; Drover neither sets nor removes it", kind, key)
}

// validate reports whether the API server accepts an entry of the Machine's own on a Node. It validates Machines less strictly: a new one is
// created from the template as it is, and one such entry would have every patch of its Node rejected.
func (l *problemList) validate(kind ownership.Kind, key, value string) bool {
	invalid := validate(kind, key, value)
	if len(invalid) == 0 {
		return true
	}
	known := func(p Problem) bool { return p.Kind == kind && p.Key == key && p.Reason == Invalid }
	if !slices.ContainsFunc(*l, known) {
		l.add(kind, key, Invalid, "%s %q of the Machine is left out: %s", kind, key, strings.Join(invalid, "; "))
	}
	return false
}

// readRecord returns the ownership record of an object; an unreadable one counts as none.
func (l *problemList) readRecord(object Target, annotations map[string]string) ownership.Record {
	record, err := ownership.ParseRecord(annotations[ownership.AnnotationRecord])
	if err != nil {
		*l = append(*l, Problem{
			Kind: ownership.Annotation, Key: ownership.AnnotationRecord, Reason: BadRecord, Message: string(object) + ": " + err.Error(), record: object,
		})
	}
	return record
}

func (l problemList) has(reason Reason) bool {
	return slices.ContainsFunc(l, func(p Problem) bool { return p.Reason == reason })
}

// sorted returns the problems by kind and key, each once.
func (l problemList) sorted() []Problem {
	problems := slices.Clone(l)
	slices.SortFunc(problems, compareProblems)
	return slices.Compact(problems)
}

// State is the state of a Machine and its Node.
type State string

// The states. Each Machine is in exactly one; the first that applies counts, in this order.
const (
	// Held: paused, the Node is shared by two Machines, or a key is contended.
	Held State = "held"
	// Conflicted: another writer set at least one declared key first.
	Conflicted State = "conflict"
	// RefusedState: at least one declared entry is the system's or invalid; all others are as declared.
	RefusedState State = "refused"
	// Pending: something is still to be written, or the Machine has no Node yet.
	Pending State = "pending"
	// Synced: everything is as declared.
	Synced State = "synced"
)

// States lists all states in display order.
var States = []State{Synced, Pending, Conflicted, RefusedState, Held}
