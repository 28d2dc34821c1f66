package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// DecideMachineSet is Decide for a MachineSet that belongs to no NodeGroup. Nothing is kept of such a MachineSet while no roll-out is under way: then
// Rollout is nil.
func DecideMachineSet(in *Input) Decision {
	in.texts, in.Before = machineSetTexts, WithPossibleTimes(in.Before, in.Now)
	remains := slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.toWrite() })
	if in.Before == nil && !remains {
		return Decision{Admitted: sets.Set[string]{}}
	}
	if in.Before != nil && in.Before.EndTime != nil && in.Pending() > 0 {
		// Only Nodes that could not be written remained of it: this is another one.
		in.Before = nil
	}
	d := Decide(in)
	if len(in.Nodes) == 0 || d.Rollout.EndTime != nil && !remains {
		return Decision{Admitted: sets.Set[string]{}}
	}
	return d
}

// texts are how a message names the setting that has stopped a roll-out, and what continues it.
type texts struct{ notReady, goesOn string }

var (
	groupTexts = texts{
		notReady: "spec.rollout.stopWhen.notReady",
		goesOn: "it continues when spec.metadata changes, at any other change of the spec outside of a suspension if there are fewer by then, " +
			"or when a user resumes it with the annotation " + v1alpha1.AnnotationResume,
	}
	machineSetTexts = texts{
		notReady: "metadata.rollout.stopWhen.notReady of the configuration",
		goesOn: "it continues when the labels, annotations or taints of the template change, or when a user sets the annotation " +
			v1alpha1.AnnotationResume + " of the MachineSet to the current time",
	}
)

// textsOf returns the texts of the input. If the input has none, it returns the texts of a NodeGroup.
func (in *Input) textsOf() texts {
	if in.texts == (texts{}) {
		return groupTexts
	}
	return in.texts
}
