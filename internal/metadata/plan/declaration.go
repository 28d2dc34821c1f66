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
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/paused"
)

// Annotations that steer a pool. Paused is read on MachineSet, Machine and Node; the others on the MachineSet.
const (
	// AnnotationPaused stops Drover at the object that carries it, as in every capability.
	AnnotationPaused = paused.Annotation
	// AnnotationConflictPolicy is one of keep (default), adopt and fail.
	AnnotationConflictPolicy = "drover.dev/conflict-policy"
	// AnnotationSetOnceTaints names taints, as key or key:Effect joined by commas, that a Node is given when Drover first sees it and
	// never again.
	AnnotationSetOnceTaints = "drover.dev/set-once-taints"
)

// Entries are keys with values by kind; taints are named "key:Effect".
type Entries map[ownership.Kind]map[string]string

// Declaration is what a MachineSet declares, checked and ready to be merged.
type Declaration struct {
	// Key is the MachineSet's namespace and name.
	Key types.NamespacedName
	// Generation is the MachineSet's metadata.generation.
	Generation int64
	// Desired holds the valid entries.
	Desired Entries
	// Once names those taints of Desired that are given once.
	Once ownership.Keys
	// Policy is applied to keys that somebody else set first.
	Policy ownership.Policy
	// Paused tells that nothing of this pool is to be written.
	Paused bool
	// Problems are the entries and annotations that were left out, sorted by kind and key.
	Problems []Problem
	// Revision is a short text that changes whenever anything above does that matters to the Machines; a new generation alone, as
	// from scaling, leaves it.
	Revision string
}

// DeclarationOf reads what a MachineSet declares. Entries that the API server would reject are left out and reported in Problems, so that
// one of them does not stop the others.
func DeclarationOf(set *machinev1beta1.MachineSet) *Declaration {
	template := set.Spec.Template.Spec
	pool := &Declaration{
		Key:        types.NamespacedName{Namespace: set.Namespace, Name: set.Name},
		Generation: set.Generation,
		Paused:     paused.Is(set.Annotations),
	}
	pool.Desired = Entries{
		ownership.Label:      pool.checked(ownership.Label, template.Labels),
		ownership.Annotation: pool.checked(ownership.Annotation, template.Annotations),
		ownership.Taint:      pool.taints(template.Taints),
	}
	pool.readPolicy(set.Annotations[AnnotationConflictPolicy])
	pool.readOnce(set.Annotations[AnnotationSetOnceTaints])
	pool.Revision = fmt.Sprintf("%s/%s/%t/%s", pool.Desired.Digest(), pool.Policy, pool.Paused, ownership.FormatCustomLabels(pool.Once))
	if problems := pool.Problems; len(problems) > 0 {
		pool.Revision += fmt.Sprintf("/%v", problems)
	}
	return pool
}

func (p *Declaration) problem(kind ownership.Kind, key string, reason Reason, format string, args ...any) {
	p.Problems = append(p.Problems, Problem{Kind: kind, Key: key, Reason: reason, Message: fmt.Sprintf(format, args...)})
}

func (p *Declaration) checked(kind ownership.Kind, entries map[string]string) map[string]string {
	valid := make(map[string]string, len(entries))
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if found := faultsOf(kind, key, entries[key]); len(found) > 0 {
			p.problem(kind, key, Invalid, "%s %q is left out: %s", kind, key, strings.Join(found, "; "))
			continue
		}
		valid[key] = entries[key]
	}
	return valid
}

// faultsOf tells why the API server would not take an entry on a Node.
func faultsOf(kind ownership.Kind, key, value string) []string {
	switch kind {
	case ownership.Label:
		return labelFaults(key, value)
	case ownership.Annotation:
		// The API server compares annotation keys in lower case.
		return validation.IsQualifiedName(strings.ToLower(key))
	}
	name, effect := ownership.SplitTaintID(key)
	faults := labelFaults(name, value)
	switch effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		faults = append(faults, fmt.Sprintf("effect %q is none of NoSchedule, PreferNoSchedule, NoExecute", effect))
	}
	return faults
}

func labelFaults(key, value string) []string {
	return append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
}

func (p *Declaration) taints(taints []corev1.Taint) map[string]string {
	valid := make(map[string]string, len(taints))
	for _, taint := range taints {
		id := ownership.TaintID(taint)
		faults := faultsOf(ownership.Taint, id, taint.Value)
		first, repeated := valid[id]
		switch {
		case len(faults) > 0:
			p.problem(ownership.Taint, id, Invalid, "taint %q is left out: %s", id, strings.Join(faults, "; "))
		case repeated:
			p.problem(ownership.Taint, id, Duplicate,
				"taint %q is declared more than once; the first value %q counts, %q is left out", id, first, taint.Value)
		default:
			valid[id] = taint.Value
		}
	}
	return valid
}

func (p *Declaration) readPolicy(text string) {
	switch policy := ownership.Policy(text); policy {
	case ownership.Keep, ownership.Adopt, ownership.Fail:
		p.Policy = policy
	case "":
		p.Policy = ownership.Keep
	default:
		p.Policy = ownership.Keep
		p.problem(ownership.Annotation, AnnotationConflictPolicy, Invalid,
			"annotation %s is %q, which is none of keep, adopt, fail; keep is used", AnnotationConflictPolicy, text)
	}
}

func (p *Declaration) readOnce(text string) {
	p.Once = ownership.Keys{}
	for name := range ownership.ParseCustomLabels(text) {
		found := false
		for id := range p.Desired[ownership.Taint] {
			if key, _ := ownership.SplitTaintID(id); id == name || key == name {
				p.Once.Add(id)
				found = true
			}
		}
		if !found {
			p.problem(ownership.Annotation, AnnotationSetOnceTaints, Invalid,
				"annotation %s names %q, which is no taint of the template; it has no effect", AnnotationSetOnceTaints, name)
		}
	}
	slices.SortStableFunc(p.Problems, compareProblems)
}

// Digest is a short text that is equal for equal entries.
func (e Entries) Digest() string {
	hash := fnv.New64a()
	for _, kind := range ownership.Kinds {
		for _, key := range slices.Sorted(maps.Keys(e[kind])) {
			// Writing to a hash never fails.
			_, _ = io.WriteString(hash, string(kind)+"\x00"+key+"\x00"+e[kind][key]+"\x00")
		}
	}
	return fmt.Sprintf("%016x", hash.Sum64())
}
