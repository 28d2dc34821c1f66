package plan

import (
	"context"
	"fmt"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// addReplacements adds to each MachineSet of a plan the Machines that its NodeGroup would replace. NodeGroups are read only where a Machine is
// outdated. Where they may not be read, a warning says so.
func (o *options) addReplacements(ctx context.Context, c client.Reader, objects *plan.Objects, list *view.PlanList) error {
	outdated := outdatedSets(objects, list)
	if len(outdated) == 0 {
		return nil
	}
	all, err := cmdutil.List[*v1alpha1.NodeGroup](ctx, c, "")
	switch {
	case cmdutil.IsNotServed(err):
		return nil
	case err != nil:
		return o.Warn("which Machines would be replaced is unknown: %v", err)
	}
	s := &cmdutil.Snapshot{
		Groups: all, Nodes: slices.Collect(maps.Values(objects.Nodes)), Sets: objects.Sets, Machines: objects.Machines, Served: true,
	}
	groups, err := s.Finder().Groups(ctx)
	if err != nil {
		return err
	}
	plans := map[string]*view.ReplacementPlan{}
	for _, set := range outdated {
		group := members.OfSet(groups, set)
		if group == nil {
			continue
		}
		of, known := plans[group.Name]
		if !known {
			in, err := o.find(ctx, s, group.Name)
			if err != nil {
				return err
			}
			of = view.NewReplacementPlan(in)
			plans[group.Name] = of
		}
		list.AddReplacement(set, objects.Machines, of)
	}
	return nil
}

// outdatedSets returns the MachineSets of a plan with Machines that do not match their templates.
func outdatedSets(objects *plan.Objects, list *view.PlanList) (outdated []*machinev1beta1.MachineSet) {
	sets := map[types.NamespacedName]*machinev1beta1.MachineSet{}
	for _, set := range objects.Sets {
		sets[client.ObjectKeyFromObject(set)] = set
	}
	for i := range list.Items {
		set, found := sets[types.NamespacedName{Namespace: list.Items[i].Namespace, Name: list.Items[i].Name}]
		if found && view.HasOutdated(set, objects.Machines) {
			outdated = append(outdated, set)
		}
	}
	return outdated
}

// machinesOf returns what decides about the replacement of the Machines of a NodeGroup.
func machinesOf(s *cmdutil.Snapshot, groups []*members.Group, group *members.Group) view.GroupMachines {
	machines := view.GroupMachines{
		Sets: slices.DeleteFunc(slices.Clone(s.Sets), func(set *machinev1beta1.MachineSet) bool { return members.OfSet(groups, set) != group }),
	}
	if len(machines.Sets) == 0 {
		return machines
	}
	machines.Machines, machines.Nodes = s.Machines, view.NodesByName(s.Nodes)
	return machines
}

// drawReplacement says which Machines would be replaced, and what they wait for.
func drawReplacement(text *cmdutil.Text, r *view.ReplacementPlan, by string) {
	if r == nil {
		return
	}
	text.Printf("\n  Replacement%s: %s\n", by, replacementText(text, r))
	if r.Held != "" {
		text.Printf("    held: %s\n", r.Held)
	}
	if r.Deleting > 0 {
		text.Printf("    %s being deleted already\n", cmdutil.Count(r.Deleting, "outdated Machine"))
	}
	if r.Excluded > 0 {
		text.Printf("    %s would stay: paused or excluded, or with a Node that is not in the group\n", cmdutil.Count(r.Excluded, "outdated Machine"))
	}
}

func replacementText(text *cmdutil.Text, r *view.ReplacementPlan) string {
	switch count := len(r.Machines); {
	case count == 0:
		return "no Machine would be replaced"
	case r.Suspended:
		return cmdutil.Count(count, "outdated Machine") + ": " + namesText(text, r.Machines)
	case r.MaxSurge == 0:
		return fmt.Sprintf("%s would be replaced, at most %d at a time, each before its new one is created: %s",
			cmdutil.Count(count, "Machine"), r.MaxInFlight, namesText(text, r.Machines))
	default:
		return fmt.Sprintf("%s would be replaced, at most %d at a time, with up to %d new beyond spec.replicas: %s",
			cmdutil.Count(count, "Machine"), r.MaxInFlight, r.MaxSurge, namesText(text, r.Machines))
	}
}
