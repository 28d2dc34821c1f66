package replacement

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/undecodable"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	// group is nil for a MachineSet that belongs to none.
	group  *members.Group
	groups []*members.Group
	sets   []machineSet
	// existing are the names of all MachineSets in the namespace of the group's, by UID.
	existing map[types.UID]string
	// machines are those of all MachineSets, by UID.
	machines map[types.UID]*machine
	// pending reports that the cache does not show one of Drover's own writes.
	pending bool
}

// machineSet is a MachineSet with its Machines.
type machineSet struct {
	*machinev1beta1.MachineSet
	machines []*machine
}

// machine is a Machine with its Node, nil for none.
type machine struct {
	*machinev1beta1.Machine
	set  *machinev1beta1.MachineSet
	node *corev1.Node
	// version is the resourceVersion after the last write of this reconciliation.
	version string
}

// observe reads a group and the Machines of its MachineSets; nil when the group is gone or has none.
func (r *Reconciler) observe(ctx context.Context, name string) (*observation, error) {
	observed := &observation{machines: map[types.UID]*machine{}, existing: map[types.UID]string{}}
	var err error
	if observed.groups, err = r.Finder.Groups(ctx); err != nil {
		return nil, err
	}
	for _, group := range observed.groups {
		if group.Name == name {
			observed.group = group
		}
	}
	if observed.group == nil || observed.group.Spec.Nodes.MachineSets == nil {
		return nil, nil
	}
	if err := undecodable.Check(observed.group.NodeGroup); err != nil {
		return nil, err
	}
	var sets machinev1beta1.MachineSetList
	if err := r.Cache.List(ctx, &sets, client.InNamespace(observed.group.Spec.Nodes.MachineSets.Namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	for i := range sets.Items {
		observed.existing[sets.Items[i].UID] = sets.Items[i].Name
		if members.OfSet(observed.groups, &sets.Items[i]) != observed.group || sets.Items[i].DeletionTimestamp != nil {
			continue
		}
		if err := r.addSet(ctx, observed, &sets.Items[i]); err != nil {
			return nil, err
		}
	}
	return observed, nil
}

// observeSet reads the Machines of a MachineSet that belongs to no group; nil for any other one.
func (r *Reconciler) observeSet(ctx context.Context, key types.NamespacedName) (*observation, error) {
	groups, err := r.Finder.Groups(ctx)
	if err != nil {
		return nil, err
	}
	set := &machinev1beta1.MachineSet{}
	switch err := r.Cache.Get(ctx, key, set); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading MachineSet %s: %w", key, err)
	case members.OfSet(groups, set) != nil:
		return nil, nil
	}
	observed := &observation{machines: map[types.UID]*machine{}}
	return observed, r.addSet(ctx, observed, set)
}

// addSet reads the Machines of a MachineSet, and their Nodes.
func (r *Reconciler) addSet(ctx context.Context, observed *observation, set *machinev1beta1.MachineSet) error {
	if err := undecodable.Check(set); err != nil {
		return err
	}
	if pending, err := r.owned.Pending(ctx, string(set.UID)); err != nil || pending {
		observed.pending = true
		return err
	}
	membership, err := machineapi.MembershipOf(set)
	if err != nil || set.Spec.Replicas == nil {
		// Its status says what is wrong; it has no Machines until then.
		return nil //nolint:nilerr // see above
	}
	machines, err := lookup.MachinesOfSet(ctx, r.Cache, set.Namespace, set.UID)
	if err != nil {
		return err
	}
	found := machineSet{MachineSet: set}
	for i := range machines {
		if relation := membership.Relation(&machines[i]); relation != machineapi.Owned && relation != machineapi.Deleting {
			continue
		}
		if err := undecodable.Check(&machines[i]); err != nil {
			return err
		}
		m := &machine{Machine: &machines[i], set: set, version: machines[i].ResourceVersion}
		if m.node, err = r.nodeOf(ctx, m.Machine); err != nil {
			return err
		}
		found.machines = append(found.machines, m)
		observed.machines[m.UID] = m
	}
	observed.sets = append(observed.sets, found)
	return nil
}

// nodeOf returns the Node of a Machine; nil for none.
func (r *Reconciler) nodeOf(ctx context.Context, machine *machinev1beta1.Machine) (*corev1.Node, error) {
	name := machineapi.NodeName(machine)
	if name == "" {
		return nil, nil
	}
	node := &corev1.Node{}
	switch err := r.Cache.Get(ctx, types.NamespacedName{Name: name}, node); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", name, err)
	}
	return node, nil
}

// input returns what is decided on.
func (rc *reconciliation) input(ctx context.Context) (*plan.Input, error) {
	in := &plan.Input{Group: rc.group.NodeGroup, Creates: rc.options.Creates(), Others: rc.options.Others(), Now: rc.now}
	if rc.Budgets != nil && rc.Budgets.Windows != nil {
		in.Window = rc.Budgets.Windows(rc.group.NodeGroup, rc.now)
	}
	outdated := false
	for i := range rc.sets {
		in.Sets = append(in.Sets, rc.planSet(&rc.sets[i], &outdated))
	}
	if !outdated || !plan.Replaces(rc.group.NodeGroup) {
		return in, nil
	}
	// Whether a Node has its metadata matters only now.
	for i := range in.Sets {
		for k := range in.Sets[i].Machines {
			m := &in.Sets[i].Machines[k]
			if m.Outdated || !m.Ready {
				continue
			}
			var err error
			if m.Synced, err = rc.hasMetadata(ctx, rc.machines[m.UID].node); err != nil {
				return nil, err
			}
		}
	}
	return in, nil
}

// planSet returns a MachineSet as package plan knows it, and sets outdated if one of its Machines is.
func (rc *reconciliation) planSet(set *machineSet, outdated *bool) plan.Set {
	out := plan.NewSet(set.MachineSet)
	template := machineapi.TemplateOf(set.MachineSet)
	selects := func(node *corev1.Node) bool { return rc.group.Selects(node, set.MachineSet) }
	for _, m := range set.machines {
		next := plan.NewMachine(template, m.Machine, m.node, selects)
		next.Denied = rc.isDenied(m.UID)
		*outdated = *outdated || next.Outdated || next.Failed // a failed one may be replaced, when a user resumes
		out.Machines = append(out.Machines, next)
	}
	return out
}

// hasMetadata reports whether a Node carries what its group declares, or waits for that as the Nodes of old Machines do: its wave has not come, or
// another writer has changed what it had. Only a Node that has no wave, because it is newer than the roll-out, gets its metadata at once.
func (rc *reconciliation) hasMetadata(ctx context.Context, node *corev1.Node) (bool, error) {
	if disruptionplan.IsJoining(node) {
		return false, nil
	}
	assignment, err := rc.Finder.Assign(ctx, rc.groups, node)
	if err != nil || assignment.Group == nil || assignment.Group.Spec.DryRun {
		return err == nil, err
	}
	decision := metadataplan.DecideGroup(assignment.Input(rc.options.Protected, rc.now))
	hasNoWave := rollout.IsNewer(node.CreationTimestamp.Time, assignment.Group.Status.Rollout)
	return !decision.Change.Write || !decision.FirstWrite || !hasNoWave, nil
}
