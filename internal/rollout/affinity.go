package rollout

import (
	"maps"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// LabelChange is what becomes of a Node's labels.
type LabelChange struct {
	Node          string
	Before, After map[string]string
	// Released reports that only what a group has declared counts, which the Node has left.
	Released bool
}

// keys returns the keys of the labels that change, sorted.
func (c *LabelChange) keys() []string {
	changed := c.lost()
	for key := range c.After {
		if _, found := c.Before[key]; !found {
			changed = append(changed, key)
		}
	}
	slices.Sort(changed)
	return changed
}

// LabelUse is a Pod or a PersistentVolume that requires a Node to be as it was before a change of its labels. A Pod stays, since Kubernetes looks at
// node affinity only when it schedules a Pod, and does not return to such a Node. A volume cannot be used there any more.
type LabelUse struct {
	Node string
	// Keys are the labels that it names and that change.
	Keys []string
	// Pod and Volume are what requires them; one of them is nil.
	Pod    *corev1.Pod
	Volume *corev1.PersistentVolume
}

// LabelUses returns what requires Nodes to be as they were before changes of their labels, in the order of the changes: the Pods that run there, and
// the volumes.
func LabelUses(changes []LabelChange, pods []*corev1.Pod, volumes []*corev1.PersistentVolume) []LabelUse {
	byNode := map[string][]*corev1.Pod{}
	for _, pod := range pods {
		if RequiresLabels(pod) {
			byNode[pod.Spec.NodeName] = append(byNode[pod.Spec.NodeName], pod)
		}
	}
	ofVolumes := make([]comparisons, len(volumes))
	for i := range volumes {
		ofVolumes[i] = comparisonsOf(volumeRequirements(volumes[i]))
	}
	var uses []LabelUse
	for i := range changes {
		c := &changes[i]
		changed := c.keys()
		if len(changed) == 0 {
			continue
		}
		for _, pod := range byNode[c.Node] {
			if keys := c.breaks(comparisonsOf(podRequirements(pod)), changed); len(keys) > 0 {
				uses = append(uses, LabelUse{Node: c.Node, Keys: keys, Pod: pod})
			}
		}
		for k := range volumes {
			if keys := c.breaks(ofVolumes[k], changed); len(keys) > 0 {
				uses = append(uses, LabelUse{Node: c.Node, Keys: keys, Volume: volumes[k]})
			}
		}
	}
	return uses
}

// RequiresLabels reports whether a Pod runs on a Node and has requirements on the Node.
func RequiresLabels(pod *corev1.Pod) bool {
	finished := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	return pod.Spec.NodeName != "" && !finished && len(podRequirements(pod)) > 0
}

// requirement is met by a Node that matches one of the terms.
type requirement []corev1.NodeSelectorTerm

// podRequirements returns what a Pod requires of its Node; a Node has to meet all of it.
func podRequirements(pod *corev1.Pod) []requirement {
	var all []requirement
	if len(pod.Spec.NodeSelector) > 0 {
		var term corev1.NodeSelectorTerm
		for key, value := range pod.Spec.NodeSelector {
			term.MatchExpressions = append(term.MatchExpressions, corev1.NodeSelectorRequirement{
				Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
			})
		}
		all = append(all, requirement{term})
	}
	affinity := pod.Spec.Affinity
	if affinity != nil && affinity.NodeAffinity != nil && affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		all = append(all, affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms)
	}
	return all
}

// volumeRequirements returns what a PersistentVolume requires of the Nodes of its Pods.
func volumeRequirements(volume *corev1.PersistentVolume) []requirement {
	affinity := volume.Spec.NodeAffinity
	if affinity == nil || affinity.Required == nil {
		return nil
	}
	return []requirement{affinity.Required.NodeSelectorTerms}
}

// comparisons are requirements that are compared with many Nodes: each is parsed once, and only if that is needed.
type comparisons []comparison

type comparison struct {
	requirement
	parsed func() parsed
}

func comparisonsOf(all []requirement) comparisons {
	out := make(comparisons, len(all))
	for i, r := range all {
		out[i] = comparison{r, sync.OnceValue(r.parse)}
	}
	return out
}

// breaks returns the keys of the labels that change and that requirements name which the Node meets before the change and not after it.
func (c *LabelChange) breaks(requirements comparisons, changed []string) []string {
	named := map[string]bool{}
	for i := range requirements {
		// Most volumes and Pods name none of them, and need no look at the Node.
		keys := requirements[i].keys(changed)
		if len(keys) == 0 {
			continue
		}
		if p := requirements[i].parsed(); p.matches(c.Node, c.Before) && !p.matches(c.Node, c.After) {
			for _, key := range keys {
				named[key] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(named))
}

// keys returns which of some keys the requirement names.
func (r requirement) keys(among []string) []string {
	var named []string
	for i := range r {
		for _, expression := range r[i].MatchExpressions {
			if slices.Contains(among, expression.Key) {
				named = append(named, expression.Key)
			}
		}
	}
	return named
}

// parsed is a requirement as it is compared with Nodes. A term that no Node matches is left out.
type parsed []parsedTerm

type parsedTerm struct{ labels, fields []*labels.Requirement }

// parse parses a requirement, which takes long if it has many values.
func (r requirement) parse() (out parsed) {
	for i := range r {
		ofLabels, valid := parseExpressions(r[i].MatchExpressions)
		ofFields, validFields := parseExpressions(r[i].MatchFields)
		// A term without requirements matches no Node.
		if valid && validFields && len(ofLabels)+len(ofFields) > 0 {
			out = append(out, parsedTerm{ofLabels, ofFields})
		}
	}
	return out
}

// parseExpressions parses expressions. An invalid expression, which the API server rejects, matches nothing.
func parseExpressions(expressions []corev1.NodeSelectorRequirement) (out []*labels.Requirement, valid bool) {
	for i := range expressions {
		requirement, err := labels.NewRequirement(expressions[i].Key, operators[expressions[i].Operator], expressions[i].Values)
		if err != nil {
			return nil, false
		}
		out = append(out, requirement)
	}
	return out, true
}

// matches reports whether a Node meets the requirement.
func (p parsed) matches(node string, set labels.Set) bool {
	return slices.ContainsFunc(p, func(term parsedTerm) bool {
		return !slices.ContainsFunc(term.labels, func(r *labels.Requirement) bool { return !r.Matches(set) }) &&
			// The only field is the name.
			!slices.ContainsFunc(term.fields, func(r *labels.Requirement) bool { return !r.Matches(labels.Set{r.Key(): node}) })
	})
}

// operators maps the operators of Node selectors to the operators of label selectors:
// https://github.com/kubernetes/kubernetes/blob/v1.37.1/staging/src/k8s.io/component-helpers/scheduling/corev1/nodeaffinity/nodeaffinity.go
var operators = map[corev1.NodeSelectorOperator]selection.Operator{
	corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn, corev1.NodeSelectorOpExists: selection.Exists,
	corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist, corev1.NodeSelectorOpGt: selection.GreaterThan,
	corev1.NodeSelectorOpLt: selection.LessThan,
}
