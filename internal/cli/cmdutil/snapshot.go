package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/members"
)

// Snapshot is what decides which Nodes belong to which NodeGroup, as it was read.
type Snapshot struct {
	Groups []*drover.NodeGroup
	Nodes  []*corev1.Node
	// Sets and Machines are those of some namespaces. Served reports whether the cluster has the Machine API.
	Sets     []*machinev1beta1.MachineSet
	Machines []*machinev1beta1.Machine
	Served   bool
	// GroupsNotServed says that the cluster does not serve NodeGroups; nil where it does.
	GroupsNotServed error
}

// NewSnapshot reads a cluster: MachineSets and Machines of some namespaces, and of those of which a NodeGroup selects MachineSets. An empty namespace
// is all. A cluster without the CRD of NodeGroups has none.
func NewSnapshot(ctx context.Context, c client.Reader, namespaces ...string) (*Snapshot, error) {
	s := &Snapshot{Served: true}
	var err error
	if s.Groups, err = List[*drover.NodeGroup](ctx, c, ""); err != nil && !IsNotServed(err) {
		return nil, err
	}
	s.GroupsNotServed = err
	if s.Nodes, err = List[*corev1.Node](ctx, c, ""); err != nil {
		return nil, err
	}
	for _, group := range s.Groups {
		if selection := group.Spec.Nodes.MachineSets; selection != nil {
			namespaces = append(namespaces, selection.Namespace)
		}
	}
	if slices.Contains(namespaces, "") {
		namespaces = []string{""}
	}
	slices.Sort(namespaces)
	for _, namespace := range slices.Compact(namespaces) {
		sets, machines, err := Declaring(ctx, c, namespace)
		if IsNotServed(err) {
			s.Served = false
			return s, nil
		}
		if err != nil {
			return nil, err
		}
		s.Sets, s.Machines = append(s.Sets, sets...), append(s.Machines, machines...)
	}
	return s, nil
}

// Finder returns the operator's own finder, which reads the snapshot in place of the operator's cache.
func (s *Snapshot) Finder() *members.Finder {
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
	return members.NewFinder(r, func() bool { return s.Served }).WithRollout(s.defaultRollout())
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
	// machines are those of each Node.
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

// List reads NodeGroups, Nodes, the MachineSets of a namespace, or Machines.
func (s *snapshotReader) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	var of client.ListOptions
	of.ApplyOptions(options)
	switch list := list.(type) {
	case *drover.NodeGroupList:
		for _, group := range s.Groups {
			list.Items = append(list.Items, *group)
		}
	case *corev1.NodeList:
		for _, node := range s.Nodes {
			list.Items = append(list.Items, *node)
		}
	case *machinev1beta1.MachineSetList:
		for _, set := range s.Sets {
			if set.Namespace == of.Namespace {
				list.Items = append(list.Items, *set)
			}
		}
	case *machinev1beta1.MachineList:
		return s.listMachines(list, &of)
	default:
		return fmt.Errorf("%T has not been read", list)
	}
	return nil
}

// listMachines reads Machines: all, or those that a field selector, which is that for the name of a Node, selects.
func (s *snapshotReader) listMachines(list *machinev1beta1.MachineList, of *client.ListOptions) error {
	machines := s.Machines
	if of.FieldSelector != nil {
		if len(of.FieldSelector.Requirements()) != 1 {
			return errors.New("only the name of their Node finds Machines here")
		}
		machines = s.machines[of.FieldSelector.Requirements()[0].Value]
	}
	for _, machine := range machines {
		list.Items = append(list.Items, *machine)
	}
	return nil
}
