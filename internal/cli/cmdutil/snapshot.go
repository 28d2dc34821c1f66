package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata/plan"
)

// Snapshot is what decides about Machines, Nodes and NodeGroups, as it was read.
type Snapshot struct {
	Groups []*drover.NodeGroup
	Nodes  []*corev1.Node
	// Sets and Machines are of some namespaces only.
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	// NoGroups and NoSets are why NodeGroups, and MachineSets or Machines, could not be read; nil where they were.
	NoGroups, NoSets error
}

// Read reads the Machines of the namespace of the flags and of some others, and all Nodes and NodeGroups. With ofGroups it also reads the namespaces
// of which NodeGroups select MachineSets.
func (o *Options) Read(ctx context.Context, c client.Reader, ofGroups bool, namespaces ...string) (*Snapshot, error) {
	defer o.sayReading()()
	s := &Snapshot{}
	s.ReadGroups(ctx, c)
	namespaces = append(namespaces, o.Namespace())
	for _, group := range s.Groups {
		if selection := group.Spec.Nodes.MachineSets; selection != nil && ofGroups {
			namespaces = append(namespaces, selection.Namespace)
		}
	}
	var nodes errgroup.Group
	nodes.Go(func() (err error) {
		s.Nodes, err = List[*corev1.Node](ctx, c, "")
		return err
	})
	s.ReadSets(ctx, c, namespaces...)
	if err := nodes.Wait(); err != nil {
		if s.NoSets != nil && !IsNotServed(s.NoSets) {
			err = s.NoSets
		}
		return nil, err
	}
	return s, nil
}

// ReadGroups reads all NodeGroups.
func (s *Snapshot) ReadGroups(ctx context.Context, c client.Reader) {
	s.Groups, s.NoGroups = List[*drover.NodeGroup](ctx, c, "")
}

// ReadSets reads the MachineSets and Machines of some namespaces. An empty namespace is all.
func (s *Snapshot) ReadSets(ctx context.Context, c client.Reader, namespaces ...string) {
	if slices.Contains(namespaces, "") {
		namespaces = []string{""}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		var sets []*machinev1beta1.MachineSet
		var machines []*machinev1beta1.Machine
		reads, ctx := errgroup.WithContext(ctx)
		reads.Go(func() (err error) {
			sets, err = List[*machinev1beta1.MachineSet](ctx, c, namespace)
			return err
		})
		reads.Go(func() (err error) {
			machines, err = List[*machinev1beta1.Machine](ctx, c, namespace)
			return err
		})
		if s.NoSets = reads.Wait(); s.NoSets != nil {
			return
		}
		s.Sets, s.Machines = append(s.Sets, sets...), append(s.Machines, machines...)
	}
}

// Missing returns the error for what a command needs and could not read. A command needs the MachineSets and NodeGroups that are named. Without names
// it needs one of both kinds, and MachineSets where the cluster serves them.
func (s *Snapshot) Missing(sets, groups []string) error {
	switch {
	case s.NoSets != nil && (len(sets) > 0 || !IsNotServed(s.NoSets)):
		return s.NoSets
	case s.NoGroups == nil:
		return nil
	case len(groups) > 0 && !IsNotServed(s.NoGroups):
		return s.NoGroups
	case len(groups) > 0 || s.NoSets == nil:
		return nil
	case IsNotServed(s.NoGroups):
		return s.NoSets
	}
	return s.NoGroups
}

// NoGroup returns the error for a NodeGroup that the snapshot does not have.
func (s *Snapshot) NoGroup(name string) error {
	if s.NoGroups != nil {
		return s.NoGroups
	}
	known := make([]string, len(s.Groups))
	for i, group := range s.Groups {
		known[i] = group.Name
	}
	return NotFound("NodeGroup", name, TheCluster, known)
}

// NodesByName returns the Nodes by their names.
func (s *Snapshot) NodesByName() map[string]*corev1.Node {
	byName := make(map[string]*corev1.Node, len(s.Nodes))
	for _, node := range s.Nodes {
		byName[node.Name] = node
	}
	return byName
}

// Survey decides about the named MachineSets of the namespace of the flags, or, without names, about all, with the Machines that have none.
func (o *Options) Survey(ctx context.Context, s *Snapshot, protect *ProtectFlags, chosen []string) (plan.Survey, error) {
	objects := plan.Objects{Sets: of(o.Namespace(), s.Sets), Machines: of(o.Namespace(), s.Machines), Nodes: s.NodesByName()}
	if !IsNotServed(s.NoGroups) {
		objects.GroupsUnknown = s.NoGroups
	}
	if len(s.Groups) > 0 {
		membership := s.Membership(ctx)
		objects.GroupLayerOf = func(node *corev1.Node) plan.GroupLayer {
			return membership.Of(ctx, node).GroupLayer(membership.Groups)
		}
	}
	survey := plan.SurveyOf(objects, protect.Protected(), o.Now())
	if len(chosen) == 0 {
		return survey, nil
	}
	narrowed, known, want := plan.Survey{Notes: survey.Notes}, []string{}, map[string]bool{}
	for _, set := range survey.Declarations {
		known = append(known, set.Key.Name)
	}
	for _, name := range chosen {
		if !slices.Contains(known, name) {
			return plan.Survey{}, NotFound("MachineSet", name, o.Where(), known)
		}
		want[name] = true
	}
	for _, set := range survey.Declarations {
		if want[set.Key.Name] {
			narrowed.Declarations = append(narrowed.Declarations, set)
		}
	}
	for _, item := range survey.Items {
		if item.Declaration != nil && want[item.Declaration.Key.Name] {
			narrowed.Items = append(narrowed.Items, item)
		}
	}
	return narrowed, nil
}

// Membership says which Nodes and MachineSets belong to which NodeGroup.
type Membership struct {
	Finder *members.Finder
	// Groups are all NodeGroups, the oldest first.
	Groups []*members.Group
}

// Membership returns the operator's own finder, which reads the snapshot in place of the operator's cache. That never fails.
func (s *Snapshot) Membership(ctx context.Context) *Membership {
	r := &snapshotReader{
		Snapshot: s, machines: map[string][]*machinev1beta1.Machine{}, sets: map[types.NamespacedName]*machinev1beta1.MachineSet{},
	}
	for _, set := range s.Sets {
		r.sets[client.ObjectKeyFromObject(set)] = set
	}
	for _, machine := range s.Machines {
		if node := machineapi.NodeName(machine); node != "" {
			r.machines[node] = append(r.machines[node], machine)
		}
	}
	m := &Membership{Finder: members.NewFinder(r, func() bool { return s.NoSets == nil }).WithRollout(s.defaultRollout())}
	m.Groups, _ = m.Finder.Groups(ctx)
	return m
}

// Of returns the assignment of a Node to its NodeGroup.
func (m *Membership) Of(ctx context.Context, node *corev1.Node) *members.Assignment {
	assignment, _ := m.Finder.Assign(ctx, m.Groups, node)
	return &assignment
}

// Nodes returns the Nodes of a NodeGroup, with those whose record names it.
func (m *Membership) Nodes(ctx context.Context, group *members.Group) []members.Assignment {
	nodes, _ := m.Finder.Nodes(ctx, m.Groups, group.UID)
	return nodes
}

// Named returns the NodeGroup of a name; nil for none.
func (m *Membership) Named(name string) *members.Group {
	if at := slices.IndexFunc(m.Groups, func(group *members.Group) bool { return group.Name == name }); at >= 0 {
		return m.Groups[at]
	}
	return nil
}

// NodesOf returns the names of the Nodes that belong to the NodeGroup of a name.
func (m *Membership) NodesOf(ctx context.Context, name string) []string {
	names := []string{}
	if group := m.Named(name); group != nil {
		for _, assignment := range m.Nodes(ctx, group) {
			if assignment.Group == group {
				names = append(names, assignment.Node.Name)
			}
		}
	}
	return names
}

// OfSet returns the NodeGroup of a MachineSet; nil for none.
func (m *Membership) OfSet(set *machinev1beta1.MachineSet) *members.Group {
	return members.OfSet(m.Groups, set)
}

// defaultRollout returns the spec.rollout that the operator's configuration gives groups without one, as the status of any group says; nil for none.
func (s *Snapshot) defaultRollout() *drover.Rollout {
	for _, group := range s.Groups {
		if group.Status.DefaultRollout != nil {
			return group.Status.DefaultRollout
		}
	}
	return nil
}

// snapshotReader reads a snapshot as a cache is read.
type snapshotReader struct {
	*Snapshot
	// machines has each Node's Machines.
	machines map[string][]*machinev1beta1.Machine
	sets     map[types.NamespacedName]*machinev1beta1.MachineSet
}

// Get reads a MachineSet.
func (s *snapshotReader) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	into, ok := object.(*machinev1beta1.MachineSet)
	if !ok {
		return fmt.Errorf("%T has not been read", object)
	}
	set, found := s.sets[key]
	if !found {
		return apierrors.NewNotFound(machinev1beta1.Resource("machinesets"), key.Name)
	}
	*into = *set
	return nil
}

// List reads NodeGroups, Nodes, MachineSets or Machines. A field selector is that for the name of the Machines' Node.
func (s *snapshotReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var selected client.ListOptions
	selected.ApplyOptions(options)
	switch list := list.(type) {
	case *drover.NodeGroupList:
		list.Items = values(s.Groups)
	case *corev1.NodeList:
		list.Items = values(s.Nodes)
	case *machinev1beta1.MachineSetList:
		list.Items = values(of(selected.Namespace, s.Sets))
	case *machinev1beta1.MachineList:
		if selected.FieldSelector == nil {
			list.Items = values(s.Machines)
			return nil
		}
		requirements := selected.FieldSelector.Requirements()
		if len(requirements) != 1 {
			return errors.New("only the name of their Node finds Machines here")
		}
		list.Items = values(s.machines[requirements[0].Value])
	default:
		return fmt.Errorf("%T has not been read", list)
	}
	return nil
}

// of returns the objects of a namespace; an empty one is all.
func of[T client.Object](namespace string, all []T) []T {
	if namespace == "" {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(object T) bool { return object.GetNamespace() != namespace })
}

func values[T any](pointers []*T) []T {
	items := make([]T, len(pointers))
	for i, pointer := range pointers {
		items[i] = *pointer
	}
	return items
}
