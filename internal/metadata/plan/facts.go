package plan

import (
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

// facts are what an input says before anything is decided. They do not change.
type facts struct {
	in                        Input
	machineLive, nodeLive     Entries
	machineRecord, nodeRecord ownership.Record
	customLabels              ownership.Keys
	hasCustomLabels           bool
	// firstWrite is whether neither Drover nor MNMO has written this Node yet, except for a RecordUpdate.
	firstWrite bool
}

// newFacts returns the facts of an input, and the problems of what it declares and of its records.
func newFacts(in Input) (*facts, problemList) {
	var problems problemList
	if in.Declaration != nil {
		problems = slices.Clone(in.Declaration.Problems)
	}
	spec := in.Machine.Spec
	f := &facts{
		in: in,
		machineLive: Entries{
			ownership.Label: spec.Labels, ownership.Annotation: spec.Annotations, ownership.Taint: ownership.TaintEntries(spec.Taints),
		},
		machineRecord: problems.readRecord(OnMachine, in.Machine.Annotations),
	}
	if node := in.Node; node != nil {
		f.nodeRecord = problems.readRecord(OnNode, node.Annotations)
		f.nodeLive = EntriesOf(node)
		text, ok := node.Annotations[ownership.AnnotationCustomLabels]
		f.hasCustomLabels, f.customLabels = ok, ownership.ParseCustomLabels(text)
		f.firstWrite = !ok && (node.Annotations[ownership.AnnotationRecord] == "" || isRecordUpdate(f.nodeRecord))
	}
	return f, problems
}

func (f *facts) paused() string {
	switch {
	case f.in.Declaration != nil && f.in.Declaration.Paused:
		return "the MachineSet is paused"
	case paused.Is(f.in.Machine.Annotations):
		return "the Machine is paused"
	case f.in.Node != nil && paused.Is(f.in.Node.Annotations):
		// The Machine is not written either: on OpenShift nodelink would copy its entries to the Node.
		return "the Node is paused"
	}
	return ""
}

func (f *facts) policy() ownership.Policy {
	if f.in.Declaration == nil {
		return ownership.Keep
	}
	return f.in.Declaration.Policy
}

// hasNode reports whether there is a Node that may be written.
func (f *facts) hasNode() bool {
	node := f.in.Node
	return node != nil && !f.in.NodeShared && node.DeletionTimestamp == nil
}

// machineWritable reports whether the Machine's spec may be written. When the Cluster API is authoritative, or about to be, an admission policy of
// OpenShift denies that.
func (f *facts) machineWritable() bool {
	switch f.in.Machine.Status.AuthoritativeAPI {
	case machinev1beta1.MachineAuthorityClusterAPI, machinev1beta1.MachineAuthorityMigrating:
		return false
	}
	return true
}

// nodeOwned returns the keys of the Node that Drover owns. For labels of the MachineSet, MNMO's list counts where it exists, since MNMO may have run
// after Drover and removed keys from it; where it is missing, Drover's own record counts. The keys that a RecordUpdate
// makes owned count as well; nil for none. The returned set may belong to the record and must not be changed: it is not copied, because callers ask
// for it once per key.
func (f *facts) nodeOwned(kind ownership.Kind, recorded ownership.Keys) ownership.Keys {
	owned := f.nodeRecord.Of(kind)
	if kind == ownership.Label && f.hasCustomLabels {
		owned = f.customLabels
	}
	if machine := f.nodeRecord.Machine; machine != nil {
		owned = owned.Union(machine.Of(kind))
	}
	if recorded.Len() == 0 {
		return owned
	}
	return owned.Union(recorded)
}

// cameFromMachine reports whether a Node's value is the Machine's: it was copied at creation or by nodelink, not set by another writer.
func (f *facts) cameFromMachine(kind ownership.Kind, key string) bool {
	onMachine, ok := f.machineLive[kind][key]
	live, present := f.nodeLive[kind][key]
	return ok && present && onMachine == live
}

// contended reports whether a key is left alone because another writer keeps changing it, which is a problem to report.
func (f *facts) contended(target Target, kind ownership.Kind, key string, problems *problemList) bool {
	if f.in.Contended == nil || !f.in.Contended(target, kind, key) {
		return false
	}
	problems.add(kind, key, Contended, "another writer keeps changing %s %q of the %s; Drover waits before it writes it again", kind, key, target)
	return true
}

// recordContended reports whether another writer keeps removing the record, so that writing it alone has to wait.
func (f *facts) recordContended(target Target, problems *problemList) bool {
	return f.contended(target, ownership.Annotation, ownership.AnnotationRecord, problems)
}

// isGuarded reports whether the Node gets a key from its NodeGroup.
func (f *facts) isGuarded(kind ownership.Kind, key string) bool {
	return kind == ownership.Taint && f.in.Group.Guarded.Has(key) && !f.in.Protected.Of(kind)(key)
}

// lacksGuarded reports whether the Node has not got a key yet that it gets from its NodeGroup. Until then the Machine does not get it either: on
// OpenShift nodelink would copy it to the Node.
func (f *facts) lacksGuarded(kind ownership.Kind, key string) bool {
	if !f.isGuarded(kind, key) {
		return false
	}
	value, present := f.nodeLive[kind][key]
	return !present || value != f.in.Declaration.Desired[kind][key]
}

// awaitsGuard reports whether the Node lacks any taint that it gets from its NodeGroup, and adds a problem for each. It also adds a problem for the
// taints that a Node without a NodeGroup does not get.
func (f *facts) awaitsGuard(problems *problemList) (awaits bool) {
	for key := range f.in.Group.Guarded {
		switch {
		case !f.lacksGuarded(ownership.Taint, key), f.isOnce(key) && !f.firstWrite:
		case f.in.Group.Name == "":
			problems.add(ownership.Taint, key, NoExecuteRefused, "taint %q is held back: Kubernetes would delete the Pods that do not tolerate it "+
				"without regard to their PodDisruptionBudgets, and metadata.rollout.noExecute.policy of the configuration is Refuse; create a NodeGroup "+
				"that selects the MachineSet by spec.nodes.machineSets, and Drover evicts them first", key)
		default:
			awaits = true
			problems.add(ownership.Taint, key, NoExecuteHeld, "taint %q waits for NodeGroup %s, which guards it (spec.rollout.noExecute)", key,
				f.in.Group.Name)
		}
	}
	return awaits
}

func (f *facts) isOnce(key string) bool {
	return f.in.Declaration != nil && f.in.Declaration.Once.Has(key)
}

func (f *facts) withoutOnce(kind ownership.Kind, entries map[string]string) map[string]string {
	if kind != ownership.Taint || f.in.Declaration == nil || f.in.Declaration.Once.Len() == 0 {
		return entries
	}
	kept := maps.Clone(entries)
	maps.DeleteFunc(kept, func(key, _ string) bool { return f.isOnce(key) })
	return kept
}
