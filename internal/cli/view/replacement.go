package view

import (
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/paused"
)

// Replacement is how far a NodeGroup is with the replacement of a MachineSet's outdated Machines.
type Replacement struct {
	// Group is the name of the NodeGroup.
	Group string
	// Blocked is why it waits; empty if it does not.
	Blocked string
	// Outdated is how many Machines are still to go, Missing how many are still to be created.
	Outdated, Missing int
	// Failed is the name of a Machine that was created from the current template and has failed; empty for none.
	Failed string
}

// NewReplacement counts the Machines of a MachineSet; nil if its group does not replace Machines. The group may be nil.
func NewReplacement(group *v1alpha1.NodeGroup, set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine) *Replacement {
	if group == nil || !replacementplan.Replaces(group) || set.Spec.Replicas == nil {
		return nil
	}
	r := &Replacement{Group: group.Name, Missing: int(*set.Spec.Replicas)}
	if blocked := condition(group, v1alpha1.ConditionBlocked); blocked.Status == "True" {
		r.Blocked = blocked.Message
	}
	if group.Spec.Suspend {
		r.Blocked = "it is suspended; kubectl drover rollout resume nodegroup/" + group.Name + " continues it"
	}
	template := machineapi.TemplateOf(set)
	for _, machine := range machinesOf(set, machines) {
		r.count(group, machine, template.Outdates(machine))
	}
	r.Missing = max(0, r.Missing)
	return r
}

// count counts a Machine of the MachineSet. An outdated Machine that a user has excluded stays.
func (r *Replacement) count(group *v1alpha1.NodeGroup, machine *machinev1beta1.Machine, isOutdated bool) {
	_, skipped := machine.Annotations[machineapi.SkipReplacementAnnotation]
	switch {
	case isOutdated && !skipped && paused.By(machine) == "":
		r.Outdated++
	case machine.DeletionTimestamp == nil:
		r.Missing--
		if machineapi.HasFailed(machine) && !isOutdated && !isRetried(group, machine) {
			r.Failed = machine.Name
		}
	}
}

// isRetried reports whether a user has resumed the replacement after a Machine was created: it is replaced if it has failed.
func isRetried(group *v1alpha1.NodeGroup, machine *machinev1beta1.Machine) bool {
	resumed, err := time.Parse(time.RFC3339, group.Annotations[v1alpha1.AnnotationResume])
	return err == nil && machine.CreationTimestamp.Time.Before(resumed)
}

// rollout returns where the replacement is; done if there is nothing more to wait for.
func (r *Replacement) rollout(kind, name string) (rollout Rollout, done bool) {
	switch {
	case r == nil || r.Outdated+r.Missing == 0 && r.Failed == "":
		return Rollout{}, true
	case r.Failed != "":
		return failed(kind, name, "has stopped: machine %s, which was created from its template, has failed; change the template, or try again with "+
			"kubectl drover rollout resume nodegroup/%s", r.Failed, r.Group), false
	}
	blocked := ""
	if r.Blocked != "" {
		blocked = "; " + r.Blocked
	}
	const format = "%d machines are outdated, %d are to be created, and nodegroup %s replaces them%s"
	return waiting(kind, name, format, r.Outdated, r.Missing, r.Group, blocked), false
}
