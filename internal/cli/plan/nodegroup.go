package plan

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// plannedUID is the UID of a NodeGroup that only a file has.
const plannedUID types.UID = "planned"

// groupNames returns the names of the NodeGroups if the arguments name any.
func groupNames(args []string) ([]string, error) {
	if len(args) > 1 && slices.Contains(cmdutil.NodeGroupKind, args[0]) {
		return args[1:], nil
	}
	var names []string
	for _, arg := range args {
		if name, found := cmdutil.CutKind(arg, cmdutil.NodeGroupKind); found {
			names = append(names, name)
		}
	}
	if len(names) > 0 && len(names) < len(args) {
		return nil, cmdutil.UsageError("plan MachineSets and NodeGroups with two commands")
	}
	return names, nil
}

// planGroups returns what would change for NodeGroups.
func (o *options) planGroups(ctx context.Context, c client.Client, names []string, infos []*resource.Info) (*view.NodeGroupPlanList, error) {
	list := view.NewNodeGroupPlanList()
	before, err := cmdutil.NewSnapshot(ctx, c, append(namespacesOf(infos), o.Namespace())...)
	if err != nil {
		return list, err
	}
	after := *before
	if len(infos) > 0 {
		if names, err = o.applyGroups(ctx, c, &after, names, infos); err != nil {
			return list, err
		}
	}
	plans := make([]groupPlan, len(names))
	for i, name := range names {
		if plans[i], err = o.planGroup(ctx, before, &after, name); err != nil {
			return list, err
		}
		list.Items = append(list.Items, plans[i].NodeGroupPlan)
	}
	if err := o.addLabelUses(ctx, c, plans); err != nil {
		return list, err
	}
	return list, o.addGuards(ctx, c, plans)
}

// namespacesOf returns the namespaces of which NodeGroups in files select MachineSets.
func namespacesOf(infos []*resource.Info) (namespaces []string) {
	for _, info := range infos {
		object, ok := info.Object.(*unstructured.Unstructured)
		if !ok {
			continue
		}
		if namespace, found, err := unstructured.NestedString(object.Object, "spec", "nodes", "machineSets", "namespace"); found && err == nil {
			namespaces = append(namespaces, namespace)
		}
	}
	return namespaces
}

// applyGroups changes the NodeGroups as applying the files would, and returns the names of those to plan.
func (o *options) applyGroups(
	ctx context.Context, c client.Client, s *cmdutil.Snapshot, names []string, infos []*resource.Info,
) ([]string, error) {
	manifests, err := nodeGroups.manifests(o.Options, infos)
	if err != nil {
		return nil, err
	}
	s.Groups = slices.Clone(s.Groups)
	all := len(names) == 0
	for _, manifest := range manifests {
		if err := o.check(ctx, c, manifest); err != nil {
			return nil, err
		}
		warnings, err := manifest.applyGroup(s, metav1.NewTime(o.Now()))
		for _, warning := range warnings {
			if err := o.Warn("%s", warning); err != nil {
				return nil, err
			}
		}
		if err != nil {
			return nil, err
		}
		if all {
			names = append(names, manifest.content.GetName())
		}
	}
	return names, nil
}

// applyGroup replaces the NodeGroup of the snapshot by what kubectl apply would make of it, or adds a new one, which is the youngest.
func (m manifest) applyGroup(s *cmdutil.Snapshot, now metav1.Time) (warnings []string, err error) {
	declared := &v1alpha1.NodeGroup{}
	if warnings, err = m.convert(declared); err != nil {
		return nil, err
	}
	at := slices.IndexFunc(s.Groups, func(group *v1alpha1.NodeGroup) bool { return group.Name == declared.Name })
	if at < 0 {
		declared.Status = v1alpha1.NodeGroupStatus{}
		declared.Generation, declared.UID, declared.CreationTimestamp = 1, plannedUID+types.UID(declared.Name), now
		s.Groups = append(s.Groups, declared)
		return warnings, nil
	}
	next, more, err := merge(s.Groups[at], m)
	if err != nil {
		return nil, err
	}
	// The API server ignores what a file says of these.
	live := s.Groups[at]
	next.Status, next.UID, next.CreationTimestamp, next.Generation = live.Status, live.UID, live.CreationTimestamp, live.Generation
	if !equality.Semantic.DeepEqual(live.Spec, next.Spec) {
		next.Generation++
	}
	s.Groups[at] = next
	return append(warnings, more...), nil
}

// planGroup returns what would change for a NodeGroup.
func (o *options) planGroup(ctx context.Context, before, after *cmdutil.Snapshot, name string) (groupPlan, error) {
	in, err := o.find(ctx, after, name)
	if err != nil {
		return groupPlan{}, err
	}
	if o.preview.given() {
		in.Before = []string{}
		if earlier, err := o.find(ctx, before, name); err == nil {
			for i := range earlier.Nodes {
				if found := &earlier.Nodes[i]; found.Group != nil && found.Group.UID == earlier.Group.UID {
					in.Before = append(in.Before, found.Node.Name)
				}
			}
		}
	}
	item, consequences := view.NewNodeGroupPlan(in)
	return groupPlan{item, consequences}, nil
}

// find returns a NodeGroup with its Nodes and its Machines, as the operator finds them.
func (o *options) find(ctx context.Context, s *cmdutil.Snapshot, name string) (*view.GroupInput, error) {
	finder := s.Finder()
	groups, err := finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	known := make([]string, len(groups))
	for i, group := range groups {
		if group.Name == name {
			in := &view.GroupInput{Group: group, Machines: machinesOf(s, groups, group), Protected: o.protect.Protected(), Now: o.Now()}
			in.Nodes, err = finder.Nodes(ctx, groups, group.UID)
			return in, err
		}
		known[i] = group.Name
	}
	if s.GroupsNotServed != nil {
		return nil, s.GroupsNotServed
	}
	return nil, cmdutil.NotFound("NodeGroup", name, cmdutil.TheCluster, known)
}
