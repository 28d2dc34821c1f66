package cli

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// NodeExplanation is what `explain node` prints.
type NodeExplanation struct {
	TypeMeta
	Name string `json:"name"`
	// Machine is the namespace and name of the Node's Machine, Pool the name of its MachineSet; empty for none.
	Machine string `json:"machine,omitempty"`
	Pool    string `json:"pool,omitempty"`
	// Generation is the MachineSet's now, RecordedGeneration its generation when Drover last wrote the Node.
	Generation         int64          `json:"generation,omitempty"`
	RecordedGeneration int64          `json:"recordedGeneration,omitempty"`
	State              plan.State     `json:"state,omitempty"`
	Reason             string         `json:"reason,omitempty"`
	Entries            []Entry        `json:"entries"`
	Problems           []plan.Problem `json:"problems,omitempty"`
	Notes              []string       `json:"notes,omitempty"`
}

// Owner says whose an entry is.
type Owner string

// The owners.
const (
	// OwnerPool: Drover's, from the template of the MachineSet.
	OwnerPool Owner = "Pool"
	// OwnerMachine: Drover's, from the Machine itself.
	OwnerMachine Owner = "Machine"
	// OwnerRecord: an annotation in which Drover keeps its own record.
	OwnerRecord Owner = "Record"
	// OwnerLegacy: the managed-node-metadata-operator's by its annotation; Drover takes it over.
	OwnerLegacy Owner = "Legacy"
	// OwnerGivenOnce: a taint that Drover gave once and does not look after.
	OwnerGivenOnce Owner = "GivenOnce"
	// OwnerReleased: Drover removed it a moment ago, and somebody has put it back or may still do so.
	OwnerReleased Owner = "Released"
	// OwnerOther: somebody else's; Managers say whose.
	OwnerOther Owner = "Other"
	// OwnerNone: it is not on the Node.
	OwnerNone Owner = "None"
)

// Standing compares an entry of the Node with what is declared for it.
type Standing string

// The standings.
const (
	// InSync: as declared.
	InSync Standing = "InSync"
	// Differs: has another value; Drover will set it.
	Differs Standing = "Differs"
	// Missing: is not there; Drover will add it.
	Missing Standing = "Missing"
	// Leaving: is no longer declared; Drover will remove it.
	Leaving Standing = "Leaving"
	// InConflict: has a value that somebody else set first; Drover leaves it alone.
	InConflict Standing = "Conflict"
	// ProtectedKey: belongs to the system; Drover neither sets nor removes it.
	ProtectedKey Standing = "Protected"
	// Once: is given to new Nodes only.
	Once Standing = "Once"
	// Undeclared: nobody asks Drover for it.
	Undeclared Standing = "Undeclared"
)

// Entry is one label, annotation or taint: that stands on the Node, or is declared for it.
type Entry struct {
	Kind ownership.Kind `json:"kind"`
	// Key of a taint is "key:Effect".
	Key string `json:"key"`
	// Value is what the Node has, nil when it has none.
	Value *string `json:"value,omitempty"`
	Owner Owner   `json:"owner"`
	// Pool and Generation say, for OwnerPool, of which MachineSet and at which of its generations it was last written.
	Pool       string    `json:"pool,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	Managers   []Manager `json:"managers,omitempty"`
	Standing   Standing  `json:"standing"`
	// Declared is what is declared, nil when nothing is; DeclaredBy is Pool or Machine.
	Declared   *string `json:"declared,omitempty"`
	DeclaredBy Owner   `json:"declaredBy,omitempty"`
}

// explainer gathers the entries of one Node. item is nil for a Node without a Machine.
type explainer struct {
	node      *corev1.Node
	item      *plan.Item
	record    ownership.Record
	custom    ownership.Keys
	managers  managers
	protected ownership.Protected
	now       time.Time
}

// explainNode says for every entry of a Node whose it is and how it compares with what is declared.
func explainNode(node *corev1.Node, item *plan.Item, protected ownership.Protected, now time.Time) NodeExplanation {
	record, err := ownership.ParseRecord(node.Annotations[ownership.AnnotationRecord])
	e := &explainer{
		node: node, item: item, record: record, protected: protected, now: now,
		custom:   ownership.ParseCustomLabels(node.Annotations[ownership.AnnotationCustomLabels]),
		managers: managersOf(node.ManagedFields),
	}
	out := NodeExplanation{TypeMeta: TypeMeta{APIVersion, "NodeExplanation"}, Name: node.Name, RecordedGeneration: record.Generation, Entries: []Entry{}}
	if item == nil {
		out.Notes = append(out.Notes, "no Machine names this Node in status.nodeRef: Drover does not touch it")
		if err != nil {
			out.Notes = append(out.Notes, err.Error())
		}
	} else {
		out.Machine = item.Machine.Namespace + "/" + item.Machine.Name
		out.State, out.Reason, out.Problems = item.Decision.State, reasonOf(*item), item.Decision.Problems
		if item.Declaration != nil {
			out.Pool, out.Generation = item.Declaration.Key.Name, item.Declaration.Generation
		}
	}
	live := nodeEntries(node)
	for _, kind := range ownership.Kinds {
		declared := e.declared(kind)
		keys := ownership.KeysOf(live[kind]).Union(ownership.KeysOf(declared)).Union(ownership.KeysOf(record.Released[kind]))
		for _, key := range keys.Sorted() {
			out.Entries = append(out.Entries, e.entry(kind, key, live[kind], declared))
		}
	}
	return out
}

// declaration is what is declared for a key, and where.
type declaration struct {
	value string
	by    Owner
}

// declared is what is declared for a Node: by its Machine, and over that by the pool.
func (e *explainer) declared(kind ownership.Kind) map[string]declaration {
	all := map[string]declaration{}
	if e.item == nil {
		return all
	}
	leaving := e.item.Decision.Machine.Results[kind].Remove
	for key, value := range machineEntries(e.item.Machine)[kind] {
		// What Drover put on the Machine for the pool is the pool's word, and is gone when the pool drops it.
		if !slices.Contains(leaving, key) && !e.fromPool(kind, key) {
			all[key] = declaration{value, OwnerMachine}
		}
	}
	if e.item.Declaration != nil {
		for key, value := range e.item.Declaration.Desired[kind] {
			all[key] = declaration{value, OwnerPool}
		}
	}
	return all
}

func (e *explainer) fromPool(kind ownership.Kind, key string) bool {
	return e.item.Declaration != nil && e.record.Of(kind).Has(key)
}

func (e *explainer) entry(kind ownership.Kind, key string, live map[string]string, declared map[string]declaration) Entry {
	entry := Entry{Kind: kind, Key: key, Value: valueOf(live, key)}
	entry.Owner = e.owner(entry)
	if entry.Owner == OwnerPool {
		entry.Pool, entry.Generation = e.record.Source, e.record.Generation
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
	case entry.Kind == ownership.Annotation && isRecord(entry.Key):
		return OwnerRecord
	case e.released(entry):
		return OwnerReleased
	case entry.Value == nil:
		return OwnerNone
	case e.record.Of(entry.Kind).Has(entry.Key):
		return OwnerPool
	case e.record.Machine != nil && e.record.Machine.Of(entry.Kind).Has(entry.Key):
		return OwnerMachine
	case entry.Kind == ownership.Label && e.custom.Has(entry.Key):
		return OwnerLegacy
	case entry.Kind == ownership.Taint && e.record.Once.Has(entry.Key):
		return OwnerGivenOnce
	}
	return OwnerOther
}

// isRecord tells the annotations in which ownership is recorded.
func isRecord(key string) bool {
	return key == ownership.AnnotationRecord || key == ownership.AnnotationCustomLabels
}

// released tells whether Drover removed an entry lately. With another value than it had then it is somebody's own.
func (e *explainer) released(entry Entry) bool {
	release, ok := e.record.Released[entry.Kind][entry.Key]
	if !ok || entry.Value != nil && *entry.Value != release.Value {
		return false
	}
	age := e.now.Sub(time.Unix(release.At, 0))
	return age >= 0 && age < ownership.ReleaseWindow
}

// standing follows the order of the operator's own decision.
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
	case entry.Kind == ownership.Taint && e.item.Declaration != nil && e.item.Declaration.Once.Has(entry.Key):
		return Once
	case e.inConflict(entry):
		return InConflict
	case entry.Value == nil:
		return Missing
	}
	return Differs
}

// leaving tells whether an entry that nobody declares is going to be removed: now, or when a pause ends.
func (e *explainer) leaving(entry Entry) bool {
	if e.item == nil {
		return false
	}
	if results := e.item.Decision.Node.Results; results != nil {
		return slices.Contains(results[entry.Kind].Remove, entry.Key)
	}
	return entry.Owner == OwnerPool && e.item.Declaration != nil && !e.protected.Of(entry.Kind)(entry.Key)
}

func (e *explainer) inConflict(entry Entry) bool {
	return slices.ContainsFunc(e.item.Decision.Problems, func(problem plan.Problem) bool {
		return problem.Reason == plan.InConflict && problem.Kind == entry.Kind && problem.Key == entry.Key
	})
}
