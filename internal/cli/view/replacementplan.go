package view

import (
	"cmp"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	groupplan "github.com/drover-io/drover/internal/nodegroup/plan"
	replacementplan "github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/paused"
)

// ReplacementPlan is which outdated Machines a NodeGroup would replace.
type ReplacementPlan struct {
	NodeGroup string `json:"nodeGroup"`
	// Machines are the names of those that would be replaced, in their order.
	Machines []string `json:"machines"`
	// MaxSurge is how many new Machines there may be beyond spec.replicas, MaxInFlight how many Machines are replaced at once.
	MaxSurge    int `json:"maxSurge"`
	MaxInFlight int `json:"maxInFlight"`
	// Deleting is how many outdated Machines are being deleted already, Excluded how many stay: a user has paused or excluded
	// them, or their Nodes are not in the group.
	Deleting int `json:"deleting,omitempty"`
	Excluded int `json:"excluded,omitempty"`
	// Suspended reports that nothing is replaced before a user does something, Held why the next Machine is not replaced now; empty if it is.
	Suspended bool   `json:"suspended,omitempty"`
	Held      string `json:"held,omitempty"`
}

// GroupMachines are the MachineSets of a NodeGroup and all that decides about the replacement of their Machines. The Machines may be those of other
// MachineSets as well, the Nodes are those of the cluster by name.
type GroupMachines struct {
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	Nodes    map[string]*corev1.Node
}

// HasOutdated reports whether one of the Machines of a MachineSet does not match its template.
func HasOutdated(set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine) bool {
	return slices.ContainsFunc(machinesOf(set, machines), machineapi.TemplateOf(set).Outdates)
}

// machinesOf returns those of some Machines that a MachineSet has; none for one whose selector is invalid, and which so creates none.
func machinesOf(set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine) (found []*machinev1beta1.Machine) {
	membership, err := machineapi.MembershipOf(set)
	if err != nil || set.Spec.Replicas == nil {
		return nil
	}
	for _, machine := range machines {
		if relation := membership.Relation(machine); relation == machineapi.Owned || relation == machineapi.Deleting {
			found = append(found, machine)
		}
	}
	return found
}

// NewReplacementPlan returns which Machines a NodeGroup would replace, as the operator decides it; nil if there is nothing to say.
func NewReplacementPlan(in *GroupInput) *ReplacementPlan {
	if !replacementplan.Replaces(in.Group.NodeGroup) {
		return nil
	}
	decided := &replacementplan.Input{
		Group: in.Group.NodeGroup, Window: groupplan.WindowOf(in.Group.NodeGroup, in.Now), Creates: true, Now: in.Now,
	}
	nodes := map[string]*corev1.Node{}
	for _, set := range in.Machines.Sets {
		if set.Spec.Replicas == nil || set.DeletionTimestamp != nil {
			continue
		}
		template, next := machineapi.TemplateOf(set), replacementplan.NewSet(set)
		for _, machine := range machinesOf(set, in.Machines.Machines) {
			node := in.Machines.Nodes[machineapi.NodeName(machine)]
			m := replacementplan.NewMachine(template, machine, node, func(node *corev1.Node) bool { return in.Group.Selects(node, set) })
			// What a Node lacks of its metadata is another part of the plan.
			m.Synced = node != nil && !disruptionplan.IsJoining(node)
			nodes[m.Name], next.Machines = node, append(next.Machines, m)
		}
		decided.Sets = append(decided.Sets, next)
	}
	forecast := replacementplan.NewForecast(decided)
	if len(forecast.Machines)+forecast.Deleting+forecast.Excluded == 0 {
		return nil
	}
	out := &ReplacementPlan{
		NodeGroup: in.Group.Name, Machines: []string{}, MaxSurge: forecast.MaxSurge, MaxInFlight: forecast.MaxInFlight,
		Deleting: forecast.Deleting, Excluded: forecast.Excluded,
	}
	for i := range forecast.Machines {
		out.Machines = append(out.Machines, forecast.Machines[i].Name)
	}
	if len(out.Machines) > 0 {
		out.setHeld(in, &forecast.Report, nodes[out.Machines[0]])
	}
	return out
}

// setHeld sets what keeps the next Machine, which has this Node, from being replaced; nil for none.
func (r *ReplacementPlan) setHeld(in *GroupInput, report *replacementplan.Report, node *corev1.Node) {
	group := in.Group.NodeGroup
	switch by := paused.By(group); {
	case group.Spec.Suspend:
		r.Suspended, r.Held = true, "the NodeGroup is suspended"
		return
	case by != "":
		r.Suspended, r.Held = true, "the NodeGroup has the annotation "+by
		return
	}
	r.Held = report.Message
	if blocked := condition(group, v1alpha1.ConditionBlocked); blocked.Status == metav1.ConditionTrue &&
		blocked.Reason == replacementplan.ReasonSurgeUnavailable {
		// Only the operator knows who creates the Machines.
		r.Held = cmp.Or(r.Held, blocked.Message)
	}
	if node == nil || r.Held != "" {
		return
	}
	r.Held = disruptionplan.Admit(in.disruption(), &disruptionplan.Request{
		Node: node.Name, UID: node.UID, Capability: v1alpha1.CapabilityReplacement,
	}).Message
}

// count returns how many Machines would be replaced.
func (r *ReplacementPlan) count() int {
	if r == nil || r.Suspended {
		return 0
	}
	return len(r.Machines)
}

// of returns the part of the plan about the Machines of one MachineSet; nil if there is none.
func (r *ReplacementPlan) of(set *machinev1beta1.MachineSet, machines []*machinev1beta1.Machine) *ReplacementPlan {
	if r == nil {
		return nil
	}
	names := map[string]bool{}
	for _, machine := range machinesOf(set, machines) {
		names[machine.Name] = true
	}
	part := *r
	part.Machines, part.Deleting, part.Excluded = nil, 0, 0
	for _, name := range r.Machines {
		if names[name] {
			part.Machines = append(part.Machines, name)
		}
	}
	if len(part.Machines) == 0 {
		return nil
	}
	return &part
}
