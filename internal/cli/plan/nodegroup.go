package plan

import (
	"context"
	"maps"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/rollout"
)

// addGroups adds the plans of NodeGroups to a list. earlier is the membership before files were applied; nil without files.
func (o *options) addGroups(
	ctx context.Context, c client.Reader, list *view.PlanList, s *cmdutil.Snapshot, now, earlier *cmdutil.Membership, names []string,
) error {
	for _, name := range names {
		group := now.Named(name)
		if group == nil {
			return s.NoGroup(name)
		}
		in := o.input(ctx, s, now, group)
		if earlier != nil {
			in.Before = earlier.NodesOf(ctx, name)
		}
		list.NodeGroups = append(list.NodeGroups, view.NewNodeGroupPlan(in))
	}
	return o.addConsequences(ctx, c, list.NodeGroups)
}

// input returns a NodeGroup with its Nodes and its Machines, as the operator finds them.
func (o *options) input(ctx context.Context, s *cmdutil.Snapshot, membership *cmdutil.Membership, group *members.Group) *view.GroupInput {
	in := &view.GroupInput{Group: group, Nodes: membership.Nodes(ctx, group), Protected: o.protect.Protected(), Now: o.Now()}
	in.Machines.Sets = slices.DeleteFunc(slices.Clone(s.Sets), func(set *machinev1beta1.MachineSet) bool { return membership.OfSet(set) != group })
	if len(in.Machines.Sets) > 0 {
		in.Machines.Machines, in.Machines.Nodes = s.Machines, s.NodesByName()
	}
	return in
}

// addReplacements adds to each MachineSet of a plan the Machines that its NodeGroup would replace. If a Machine is outdated and NodeGroups may not be
// read, a warning says so.
func (o *options) addReplacements(ctx context.Context, s *cmdutil.Snapshot, membership *cmdutil.Membership, list *view.PlanList) error {
	known, plans := map[types.NamespacedName]*machinev1beta1.MachineSet{}, map[*members.Group]*view.ReplacementPlan{}
	for _, set := range s.Sets {
		known[client.ObjectKeyFromObject(set)] = set
	}
	for i := range list.Items {
		item := &list.Items[i]
		set, found := known[types.NamespacedName{Namespace: item.Namespace, Name: item.Name}]
		if !found || !view.HasOutdated(set, s.Machines) {
			continue
		}
		if s.NoGroups != nil && !cmdutil.IsNotServed(s.NoGroups) {
			return o.Warn("which Machines would be replaced is unknown: %v", s.NoGroups)
		}
		group := membership.OfSet(set)
		if group == nil {
			continue
		}
		if _, found := plans[group]; !found {
			plans[group] = view.NewReplacementPlan(o.input(ctx, s, membership, group))
		}
		list.AddReplacement(item, set, s.Machines, plans[group])
	}
	return nil
}

// addConsequences adds to each plan what requires labels that would change, and the Pods that would leave because of taints with the effect
// NoExecute. Where that may not be read, a warning says so.
func (o *options) addConsequences(ctx context.Context, c client.Reader, plans []*view.NodeGroupPlan) error {
	labeled, guarded := sets.Set[string]{}, sets.Set[string]{}
	for _, p := range plans {
		for i := range p.Consequences.Labels {
			labeled.Insert(p.Consequences.Labels[i].Node)
		}
		for i := range p.Consequences.Guarded {
			guarded.Insert(p.Consequences.Guarded[i].Node.Name)
		}
	}
	if labeled.Len()+guarded.Len() == 0 {
		return nil
	}
	pods := map[string][]*corev1.Pod{}
	err := cmdutil.Each(ctx, c, "", func(pod *corev1.Pod) {
		if node := pod.Spec.NodeName; guarded.Has(node) || labeled.Has(node) && rollout.RequiresLabels(pod) {
			pods[node] = append(pods[node], pod)
		}
	})
	if err != nil {
		return o.Warn("which Pods require labels that would change, or would be evicted before taints with the effect NoExecute, is unknown: %v", err)
	}
	if labeled.Len() > 0 {
		err = o.addLabelUses(ctx, c, plans, slices.Concat(slices.Collect(maps.Values(pods))...))
	}
	if err == nil && guarded.Len() > 0 {
		err = o.addGuards(ctx, c, plans, pods)
	}
	return err
}

// addLabelUses adds to each plan the Pods and PersistentVolumes that require labels which would change.
func (o *options) addLabelUses(ctx context.Context, c client.Reader, plans []*view.NodeGroupPlan, pods []*corev1.Pod) error {
	volumes, err := cmdutil.List[*corev1.PersistentVolume](ctx, c, "")
	if err != nil {
		err = o.Warn("which PersistentVolumes require labels that would change is unknown: %v", err)
	}
	for _, p := range plans {
		p.AddLabelUses(rollout.LabelUses(p.Consequences.Labels, pods, volumes))
	}
	return err
}

// addGuards adds to each plan the Pods that would have to leave before taints with the effect NoExecute.
func (o *options) addGuards(ctx context.Context, c client.Reader, plans []*view.NodeGroupPlan, pods map[string][]*corev1.Pod) error {
	drain := view.Drain{DaemonSets: map[types.NamespacedName]bool{}}
	var err error
	if drain.Budgets, err = cmdutil.List[*policyv1.PodDisruptionBudget](ctx, c, ""); err == nil {
		err = cmdutil.Each(ctx, c, "", func(daemon *appsv1.DaemonSet) { drain.DaemonSets[client.ObjectKeyFromObject(daemon)] = true })
	}
	if err != nil {
		return o.Warn("which Pods would be evicted before taints with the effect NoExecute is unknown: %v", err)
	}
	for _, p := range plans {
		p.AddGuards(func(node *corev1.Node) *view.Drain {
			of := drain
			of.Node, of.Pods = node, pods[node.Name]
			return &of
		}, o.Now())
	}
	return nil
}
