package view

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/rollout"
)

// NodeExplanation is what `explain` shows.
type NodeExplanation struct {
	TypeMeta
	Name string `json:"name"`
	// Machine is the namespace and name of the Node's Machine, MachineSet the name of its MachineSet; empty for none.
	Machine    string `json:"machine,omitempty"`
	MachineSet string `json:"machineSet,omitempty"`
	// NodeGroup is the name of the Node's NodeGroup; empty for none.
	NodeGroup string `json:"nodeGroup,omitempty"`
	// Generation is that of the MachineSet now, RecordedGeneration the one when Drover last wrote the Node.
	Generation         int64          `json:"generation,omitempty"`
	RecordedGeneration int64          `json:"recordedGeneration,omitempty"`
	State              plan.State     `json:"state,omitempty"`
	Reason             string         `json:"reason,omitempty"`
	Entries            []Entry        `json:"entries"`
	Problems           []plan.Problem `json:"problems,omitempty"`
	Notes              []string       `json:"notes,omitempty"`
}

// Owner is who owns an entry.
type Owner string

// The owners.
const (
	// OwnerMachineSet: Drover, from the template of the MachineSet.
	OwnerMachineSet Owner = "MachineSet"
	// OwnerMachine: Drover, from the Machine itself.
	OwnerMachine Owner = "Machine"
	// OwnerNodeGroup: Drover, from the NodeGroup.
	OwnerNodeGroup Owner = "NodeGroup"
	// OwnerRecord: Drover; the annotation is an ownership record, or another one that Drover keeps for itself.
	OwnerRecord Owner = "Record"
	// OwnerLegacy: managed-node-metadata-operator, by its annotation; Drover takes it over.
	OwnerLegacy Owner = "Legacy"
	// OwnerGivenOnce: a taint that Drover set on the new Node and does not manage.
	OwnerGivenOnce Owner = "GivenOnce"
	// OwnerReleased: Drover removed it a moment ago, and another writer has added it again or may still do so.
	OwnerReleased Owner = "Released"
	// OwnerOther: another writer; Managers has its name.
	OwnerOther Owner = "Other"
	// OwnerNone: the Node does not have the entry.
	OwnerNone Owner = "None"
)

// Standing compares an entry of the Node with what is declared for it.
type Standing string

// The standings.
const (
	// InSync: as declared.
	InSync Standing = "InSync"
	// Differs: the Node has another value; Drover will change it.
	Differs Standing = "Differs"
	// Missing: Drover will add it.
	Missing Standing = "Missing"
	// Leaving: it is no longer declared; Drover will remove it.
	Leaving Standing = "Leaving"
	// InConflict: another writer has set another value, which Drover keeps.
	InConflict Standing = "Conflict"
	// ProtectedKey: it belongs to the system; Drover neither sets nor removes it.
	ProtectedKey Standing = "Protected"
	// Once: only new Nodes get it.
	Once Standing = "Once"
	// Undeclared: neither MachineSet nor Machine declares it.
	Undeclared Standing = "Undeclared"
)

// Entry is one label, annotation or taint that the Node has or is to have.
type Entry struct {
	Kind ownership.Kind `json:"kind"`
	// Key of a taint is "key:Effect".
	Key string `json:"key"`
	// Value is that of the Node, nil if it has none.
	Value *string `json:"value,omitempty"`
	Owner Owner   `json:"owner"`
	// MachineSet and Generation are, for OwnerMachineSet, what Drover wrote the entry from. NodeGroup is that for OwnerNodeGroup.
	MachineSet string    `json:"machineSet,omitempty"`
	NodeGroup  string    `json:"nodeGroup,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Managers   []Manager `json:"managers,omitempty"`
	Standing   Standing  `json:"standing"`
	// Declared is the declared value, nil for none; DeclaredBy is OwnerMachineSet, OwnerMachine or OwnerNodeGroup.
	Declared   *string `json:"declared,omitempty"`
	DeclaredBy Owner   `json:"declaredBy,omitempty"`
}

// explainer explains the entries of one Node. item is nil for a Node without a Machine, group for one without a NodeGroup.
type explainer struct {
	node *corev1.Node
	item *plan.Item
	// group is the Node's NodeGroup, and decided what the Node gets for it.
	group   *members.Group
	decided plan.GroupDecision
	// record is that of what the Node has from its MachineSet, ofGroup that of what it has from its NodeGroup.
	record    ownership.Record
	ofGroup   ownership.Record
	custom    ownership.Keys
	managers  managers
	protected ownership.Protected
	now       time.Time
}

// NewNodeExplanation returns the document of `explain`. If several Machines of the survey claim the Node, it shows the first; its state
// says that there are more. The assignment is that of the Node to its NodeGroup; nil where it is unknown.
func NewNodeExplanation(
	node *corev1.Node, assignment *members.Assignment, survey plan.Survey, protected ownership.Protected, now time.Time,
) NodeExplanation {
	record, err := ownership.ParseRecord(node.Annotations[ownership.AnnotationRecord])
	// An unreadable record owns nothing.
	ofGroup, _ := ownership.ParseGroupRecord(node.Annotations[ownership.AnnotationGroupRecord])
	e := &explainer{
		node: node, record: record, ofGroup: ofGroup, protected: protected, now: now,
		custom:   ownership.ParseCustomLabels(node.Annotations[ownership.AnnotationCustomLabels]),
		managers: managersOf(node.ManagedFields),
	}
	out := NodeExplanation{TypeMeta: TypeMeta{APIVersion, "NodeExplanation"}, Name: node.Name, RecordedGeneration: record.Generation, Entries: []Entry{}}
	e.addGroup(&out, assignment)
	at := slices.IndexFunc(survey.Items, func(item plan.Item) bool { return item.Node != nil && item.Node.Name == node.Name })
	if at < 0 {
		if e.group == nil && len(out.Notes) == 0 {
			out.Notes = append(out.Notes, "no Machine names this Node in status.nodeRef, and no NodeGroup selects it: Drover does not change it")
		}
		if err != nil {
			out.Notes = append(out.Notes, err.Error())
		}
	} else {
		item := &survey.Items[at]
		e.item, out.Machine = item, item.Machine.Namespace+"/"+item.Machine.Name
		out.State, out.Reason = item.Decision.State, reasonOf(item)
		out.Problems = append(out.Problems, item.Decision.Problems...)
		if item.Declaration != nil {
			out.MachineSet, out.Generation = item.Declaration.Key.Name, item.Declaration.Generation
		}
	}
	live := plan.EntriesOf(node)
	for _, kind := range ownership.Kinds {
		declared := e.declared(kind)
		keys := ownership.KeysOf(live[kind]).Union(ownership.KeysOf(declared)).Union(ownership.KeysOf(record.Released[kind]))
		for _, key := range keys.Sorted() {
			out.Entries = append(out.Entries, e.entry(kind, key, live[kind], declared))
		}
	}
	return out
}

// addGroup adds the Node's NodeGroup. The state is that of the Machine if there is one.
func (e *explainer) addGroup(out *NodeExplanation, assignment *members.Assignment) {
	switch {
	case assignment == nil:
		return
	case assignment.Group == nil:
		if left := assignment.Recorded; left != nil && left.DeletionTimestamp == nil {
			out.Notes = append(out.Notes, fmt.Sprintf("the Node is not in NodeGroup %s any more, which releases it when it has been out of the group for %s",
				left.Name, rollout.ReleaseDelay(left.Spec.Rollout)))
		}
		return
	}
	e.group, e.decided = assignment.Group, plan.DecideGroup(finally(assignment.Input(e.protected, e.now)))
	out.NodeGroup, out.State, out.Reason = e.group.Name, e.decided.State, e.decided.Reason
	out.Problems = append(out.Problems, e.decided.Problems...)
}

// declaration is the declared value of a key, and who declares it.
type declaration struct {
	value string
	by    Owner
}

// declared returns what the NodeGroup, before it the Machine and, before that, the MachineSet declare for the Node.
func (e *explainer) declared(kind ownership.Kind) map[string]declaration {
	all := map[string]declaration{}
	if e.group != nil {
		for key, value := range e.group.Declaration.Desired[kind] {
			all[key] = declaration{value, OwnerNodeGroup}
		}
	}
	if e.item == nil {
		return all
	}
	leaving := e.item.Decision.Machine.Results[kind].Remove
	for key, value := range machineEntries(e.item.Machine)[kind] {
		// What Drover wrote to the Machine for the MachineSet goes when the MachineSet no longer declares it.
		fromSet := e.item.Declaration != nil && e.record.Of(kind).Has(key)
		if !slices.Contains(leaving, key) && !fromSet {
			all[key] = declaration{value, OwnerMachine}
		}
	}
	if e.item.Declaration != nil {
		for key, value := range e.item.Declaration.Desired[kind] {
			all[key] = declaration{value, OwnerMachineSet}
		}
	}
	return all
}

func (e *explainer) entry(kind ownership.Kind, key string, live map[string]string, declared map[string]declaration) Entry {
	entry := Entry{Kind: kind, Key: key, Value: lookup(live, key)}
	entry.Owner = e.owner(entry)
	switch entry.Owner {
	case OwnerMachineSet:
		entry.MachineSet, entry.Generation = e.record.Source, e.record.Generation
	case OwnerNodeGroup:
		entry.NodeGroup, entry.Generation = e.ofGroup.Source, e.ofGroup.Generation
	}
	if entry.Value != nil {
		entry.Managers = e.managers.of(kind, key)
	}
	if wanted, ok := declared[key]; ok {
		entry.Declared, entry.DeclaredBy = &wanted.value, wanted.by
	}
	entry.Standing = e.standing(entry)
	return entry
}

func (e *explainer) owner(entry Entry) Owner {
	switch {
	case e.isRecord(entry):
		return OwnerRecord
	case e.released(entry):
		return OwnerReleased
	case entry.Value == nil:
		return OwnerNone
	case e.record.Of(entry.Kind).Has(entry.Key):
		return OwnerMachineSet
	case e.ofGroup.Of(entry.Kind).Has(entry.Key):
		return OwnerNodeGroup
	case e.record.Machine != nil && e.record.Machine.Of(entry.Kind).Has(entry.Key):
		return OwnerMachine
	case entry.Kind == ownership.Label && e.custom.Has(entry.Key):
		return OwnerLegacy
	case entry.Kind == ownership.Taint && e.record.Once.Has(entry.Key):
		return OwnerGivenOnce
	}
	return OwnerOther
}

// DroverManager is the field manager of what Drover writes to Nodes as declared.
const DroverManager = "drover-metadata"

func onlyDrover(managers []Manager) bool {
	return len(managers) > 0 && !slices.ContainsFunc(managers, func(m Manager) bool { return m.Name != DroverManager })
}

// LeftByDrover reports whether an entry is Drover's writing, and Drover does not own it any more. Of a taint, the writers do not say that.
func (e *Entry) LeftByDrover() bool {
	return e.Owner == OwnerOther && e.Kind != ownership.Taint && onlyDrover(e.Managers)
}

// isRecord reports whether an entry is one of the annotations that record ownership, or another one that Drover keeps for itself.
func (e *explainer) isRecord(entry Entry) bool {
	records := []string{ownership.AnnotationRecord, ownership.AnnotationGroupRecord, ownership.AnnotationCustomLabels}
	kept := strings.HasPrefix(entry.Key, "drover.dev/") && onlyDrover(e.managers.of(entry.Kind, entry.Key)) && !e.record.Of(entry.Kind).Has(entry.Key)
	return entry.Kind == ownership.Annotation && (slices.Contains(records, entry.Key) || kept && !e.ofGroup.Of(entry.Kind).Has(entry.Key))
}

// released reports whether Drover removed an entry recently. With another value than then, it is another writer's.
func (e *explainer) released(entry Entry) bool {
	release, ok := e.record.Released[entry.Kind][entry.Key]
	if !ok || entry.Value != nil && *entry.Value != release.Value {
		return false
	}
	age := e.now.Sub(time.Unix(release.At, 0))
	return age >= 0 && age < ownership.ReleaseWindow
}

// standing follows the order of plan.Decide.
func (e *explainer) standing(entry Entry) Standing {
	if entry.Declared == nil {
		if e.leaving(entry) {
			return Leaving
		}
		return Undeclared
	}
	same := entry.Value != nil && *entry.Value == *entry.Declared
	switch {
	case same:
		return InSync
	case e.protected.Of(entry.Kind)(entry.Key):
		return ProtectedKey
	case entry.Kind == ownership.Taint && e.once(entry):
		return Once
	case e.inConflict(entry):
		return InConflict
	case entry.Value == nil:
		return Missing
	}
	return Differs
}

// once reports whether a taint is declared for new Nodes only.
func (e *explainer) once(entry Entry) bool {
	if entry.DeclaredBy == OwnerNodeGroup {
		return e.group.Declaration.Once.Has(entry.Key)
	}
	return e.item.Declaration != nil && e.item.Declaration.Once.Has(entry.Key)
}

// leaving reports whether Drover removes an entry that is not declared: now, or when a pause ends.
func (e *explainer) leaving(entry Entry) bool {
	if slices.Contains(e.decided.Change.Results[entry.Kind].Remove, entry.Key) {
		return true
	}
	if e.item == nil {
		return false
	}
	if results := e.item.Decision.Node.Results; results != nil {
		return slices.Contains(results[entry.Kind].Remove, entry.Key)
	}
	return entry.Owner == OwnerMachineSet && e.item.Declaration != nil && !e.protected.Of(entry.Kind)(entry.Key)
}

func (e *explainer) inConflict(entry Entry) bool {
	problems := e.decided.Problems
	if e.item != nil {
		problems = slices.Concat(problems, e.item.Decision.Problems)
	}
	return slices.ContainsFunc(problems, func(problem plan.Problem) bool {
		return problem.Reason == plan.InConflict && problem.Kind == entry.Kind && problem.Key == entry.Key
	})
}
