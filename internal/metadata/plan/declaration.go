package plan

import (
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"slices"
	"strings"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/status"
)

// Annotations of a declaration. Paused is read on MachineSet, Machine and Node; the others on the MachineSet.
const (
	// AnnotationPaused stops Drover at the object that carries it, as in every capability.
	AnnotationPaused = paused.Annotation
	// AnnotationConflictPolicy is one of keep (default), adopt and fail.
	AnnotationConflictPolicy = "drover.dev/conflict-policy"
	// AnnotationSetOnceTaints names taints, as key or key:Effect joined by commas, that are set when Drover first writes a Node and never again.
	AnnotationSetOnceTaints = "drover.dev/set-once-taints"
)

// Entries are keys with values by kind; taints are named "key:Effect".
type Entries map[ownership.Kind]map[string]string

// EntriesOf returns the labels, annotations and taints of a Node. The maps of labels and annotations are the Node's own.
func EntriesOf(node *corev1.Node) Entries {
	return Entries{
		ownership.Label: node.Labels, ownership.Annotation: node.Annotations, ownership.Taint: ownership.TaintEntries(node.Spec.Taints),
	}
}

// Declaration is what a MachineSet or NodeGroup declares, validated.
type Declaration struct {
	// Key is the namespace and name of the MachineSet, or the name of the NodeGroup.
	Key types.NamespacedName
	// Generation is its metadata.generation.
	Generation int64
	// Desired holds the valid entries.
	Desired Entries
	// Once names those taints of Desired that are set once.
	Once ownership.Keys
	// Guarded names those taints of Desired before which Pods are evicted; see Guard.
	Guarded ownership.Keys
	// Kept are taints that are held back: they are neither set nor removed. A Node keeps what it has of them from the NodeGroup.
	Kept map[string]Kept
	// TemplatePolicy is what a NodeGroup does about the taints with the effect NoExecute of its Nodes' MachineSets. It is empty for a MachineSet. It is
	// also empty for a group that kubelets can make their Nodes join, because a kubelet must not be able to keep such a taint away.
	TemplatePolicy v1alpha1.NoExecutePolicy
	// Policy applies to keys that another writer set first.
	Policy ownership.Policy
	// Paused is whether nothing of this is to be written.
	Paused bool
	// Problems are the entries and annotations that are ignored, sorted by kind and key.
	Problems []Problem
	// Revision identifies all of the above that matters to the Machines; a new generation alone, as from scaling, does not change it.
	Revision string
}

// DeclarationOf returns what a MachineSet declares. Entries that the API server would reject are ignored and listed in Problems, so that one of
// them does not stop the others.
func DeclarationOf(set *machinev1beta1.MachineSet) *Declaration {
	template := set.Spec.Template.Spec
	declaration := &Declaration{
		Key:        types.NamespacedName{Namespace: set.Namespace, Name: set.Name},
		Generation: set.Generation,
		Paused:     paused.Is(set.Annotations),
	}
	declaration.Desired = Entries{
		ownership.Label:      declaration.validated(ownership.Label, template.Labels),
		ownership.Annotation: declaration.validated(ownership.Annotation, template.Annotations),
		ownership.Taint:      declaration.taints(template.Taints),
	}
	declaration.readPolicy(set.Annotations[AnnotationConflictPolicy])
	declaration.readOnce(set.Annotations[AnnotationSetOnceTaints])
	declaration.setRevision()
	return declaration
}

func (d *Declaration) setRevision() {
	d.Revision = fmt.Sprintf("%s/%s/%t/%s", d.Desired.Digest(), d.Policy, d.Paused, ownership.FormatCustomLabels(d.Once))
	if len(d.Problems) > 0 {
		d.Revision += fmt.Sprintf("/%v", d.Problems)
	}
}

func (d *Declaration) problem(kind ownership.Kind, key string, reason Reason, format string, args ...any) {
	(*problemList)(&d.Problems).add(kind, key, reason, format, args...)
}

func (d *Declaration) validated(kind ownership.Kind, entries map[string]string) map[string]string {
	valid := make(map[string]string, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if found := validate(kind, key, entries[key]); len(found) > 0 {
			d.problem(kind, key, Invalid, "%s %q is left out: %s", kind, key, status.Faults(found))
			continue
		}
		valid[key] = entries[key]
	}
	return valid
}

// validate returns why the API server would reject an entry of a Node.
func validate(kind ownership.Kind, key, value string) []string {
	switch kind {
	case ownership.Label:
		return validateLabel(key, value)
	case ownership.Annotation:
		// The API server compares annotation keys in lower case.
		return validation.IsQualifiedName(strings.ToLower(key))
	}
	name, effect := ownership.SplitTaintID(key)
	invalid := validateLabel(name, value)
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		invalid = append(invalid, fmt.Sprintf("effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", effect))
	}
	return invalid
}

func validateLabel(key, value string) []string {
	return append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
}

// maxTaints is how many taints of a template count. Its author must not be able to fill the memory with them: some of them are remembered for each
// Node.
const maxTaints = 128

func (d *Declaration) taints(taints []corev1.Taint) map[string]string {
	if len(taints) > maxTaints {
		d.problem(ownership.Taint, ownership.TaintID(taints[maxTaints]), Invalid, "taint %q and the %d after it are left out: a MachineSet has %d at most",
			ownership.TaintID(taints[maxTaints]), len(taints)-maxTaints-1, maxTaints)
		taints = taints[:maxTaints]
	}
	valid := make(map[string]string, len(taints))
	for _, taint := range taints {
		id := ownership.TaintID(taint)
		invalid := validate(ownership.Taint, id, taint.Value)
		first, repeated := valid[id]
		switch {
		case len(invalid) > 0:
			d.problem(ownership.Taint, id, Invalid, "taint %q is left out: %s", id, status.Faults(invalid))
		case repeated:
			d.problem(ownership.Taint, id, Duplicate,
				"taint %q is declared more than once; the first value %q counts, %q is left out", id, first, taint.Value)
		default:
			valid[id] = taint.Value
		}
	}
	return valid
}

func (d *Declaration) readPolicy(text string) {
	switch policy := ownership.Policy(text); policy {
	case ownership.Keep, ownership.Adopt, ownership.Fail:
		d.Policy = policy
	case "":
		d.Policy = ownership.Keep
	default:
		d.Policy = ownership.Keep
		d.problem(ownership.Annotation, AnnotationConflictPolicy, Invalid,
			"annotation %s is %q, which is none of keep, adopt, fail; keep is used", AnnotationConflictPolicy, text)
	}
}

func (d *Declaration) readOnce(text string) {
	d.Once = ownership.Keys{}
	for name := range ownership.ParseCustomLabels(text) {
		found := false
		for id := range d.Desired[ownership.Taint] {
			if key, _ := ownership.SplitTaintID(id); id == name || key == name {
				d.Once.Add(id)
				found = true
			}
		}
		if !found {
			d.problem(ownership.Annotation, AnnotationSetOnceTaints, Invalid,
				"annotation %s names %q, which is no taint of the template; it has no effect", AnnotationSetOnceTaints, name)
		}
	}
	slices.SortStableFunc(d.Problems, compareProblems)
}

// Digest returns a short text that is equal for equal entries.
func (e Entries) Digest() string {
	return e.digestWithout(ownership.Protected{})
}

// digestWithout is Digest without the keys that are protected. It is computed for each reconciliation of a Node, and so copies nothing.
func (e Entries) digestWithout(protected ownership.Protected) string {
	hash := fnv.New64a()
	for _, kind := range ownership.Kinds {
		isProtected := protected.Of(kind)
		for _, key := range ownership.SortedKeys(e[kind]) {
			if !isProtected(key) {
				// Writing to a hash never fails.
				_, _ = io.WriteString(hash, string(kind)+"\x00"+key+"\x00"+e[kind][key]+"\x00")
			}
		}
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}

// IsDeclarationChanged reports whether an update of a MachineSet changes what it declares, or which Machines it declares it for.
func IsDeclarationChanged(before, after *machinev1beta1.MachineSet) bool {
	if before.UID == after.UID && before.Generation == after.Generation && maps.Equal(before.Annotations, after.Annotations) {
		return false
	}
	return DeclarationOf(before).Revision != DeclarationOf(after).Revision ||
		!apiequality.Semantic.DeepEqual(before.Spec.Selector, after.Spec.Selector)
}
