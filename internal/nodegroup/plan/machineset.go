package plan

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
)

// MachineSetInput is all that DecideMachineSet depends on.
type MachineSetInput struct {
	// Settings is metadata.rollout of the configuration.
	Settings *v1alpha1.Rollout
	// Rollout is where the roll-out is; nil for none that is under way.
	Rollout *v1alpha1.RolloutStatus
	// Revision identifies what the MachineSet declares.
	Revision string
	// Nodes are those of the MachineSet.
	Nodes []Node
	// Resume is the annotation AnnotationResume of the MachineSet.
	Resume string
	// Now is the time of the decision.
	Now time.Time
}

// DecideMachineSet decides which Nodes get what a MachineSet declares, in waves like those of a NodeGroup. It sets Admitted, Wave, Waves, Wake and
// Rollout of the decision; Rollout is nil when no roll-out is under way.
func DecideMachineSet(in *MachineSetInput) Decision {
	group := &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{v1alpha1.AnnotationResume: in.Resume}},
		Spec:       v1alpha1.NodeGroupSpec{Rollout: in.Settings}, Status: v1alpha1.NodeGroupStatus{Rollout: in.Rollout},
	}
	input := &Input{
		Group: withPossibleTimes(group, in.Now), Declaration: &metadataplan.Declaration{Revision: in.Revision}, Nodes: sorted(in.Nodes), Now: in.Now,
		texts: machineSetTexts,
	}
	d := Decision{Admitted: sets.Set[string]{}}
	remains := slices.ContainsFunc(in.Nodes, func(n Node) bool { return n.toWrite() })
	if in.Rollout == nil && !remains {
		return d
	}
	if in.Rollout != nil && in.Rollout.EndTime != nil && input.unfinished() {
		// Only Nodes that could not be written remained of it: this is another one.
		input.Group.Status.Rollout = nil
	}
	input.decideWaves(&d)
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

// textsOf returns the texts of the input; those of a NodeGroup where it has none.
func (in *Input) textsOf() texts {
	if in.texts == (texts{}) {
		return groupTexts
	}
	return in.texts
}
