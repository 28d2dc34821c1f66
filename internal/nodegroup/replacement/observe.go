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
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/rollout"
	"github.com/drover-io/drover/internal/undecodable"
)

// observation is what a reconciliation has read from the cache. The objects are the cache's own and must not be changed.
type observation struct {
	sets []machineSet
	// machines are the Machines of all MachineSets, by UID.
	machines map[types.UID]*machine
	// leftOut are the names of MachineSets that are not among the sets, because they or Machines of them cannot be decoded. undecodable is one of the
	// errors.
	leftOut     []string
	undecodable error
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

// observe reads the Machines of a group's MachineSets.
func (r *Replacer) observe(ctx context.Context, group *Group) (*observation, error) {
	observed := &observation{machines: map[types.UID]*machine{}}
	var sets machinev1beta1.MachineSetList
	if err := r.Cache.List(ctx, &sets, client.InNamespace(group.Spec.Nodes.MachineSets.Namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineSets: %w", err)
	}
	for i := range sets.Items {
		if members.OfSet(group.All, &sets.Items[i]) != group.Group || sets.Items[i].DeletionTimestamp != nil {
			continue
		}
		err := r.addSet(ctx, observed, &sets.Items[i])
		switch {
		case undecodable.Is(err):
			// Only a user can correct that: the Machines of other MachineSets do not wait for it.
			observed.leftOut, observed.undecodable = append(observed.leftOut, sets.Items[i].Name), err
		case err != nil:
			return nil, err
		}
	}
	return observed, nil
}

// observeSet reads the Machines of a MachineSet that belongs to no group; none for any other one.
func (r *Replacer) observeSet(ctx context.Context, groups []*members.Group, key types.NamespacedName) (*observation, error) {
	observed, set := &observation{machines: map[types.UID]*machine{}}, &machinev1beta1.MachineSet{}
	switch err := r.Cache.Get(ctx, key, set); {
	case apierrors.IsNotFound(err):
		return observed, nil
	case err != nil:
		return nil, fmt.Errorf("reading MachineSet %s: %w", key, err)
	case members.OfSet(groups, set) != nil:
		return observed, nil
	}
	return observed, r.addSet(ctx, observed, set)
}

// addSet reads the Machines of a MachineSet, and their Nodes.
func (r *Replacer) addSet(ctx context.Context, observed *observation, set *machinev1beta1.MachineSet) error {
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
func (r *Replacer) nodeOf(ctx context.Context, machine *machinev1beta1.Machine) (*corev1.Node, error) {
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
func (rc *reconciliation) input(ctx context.Context) *plan.Input {
	in := &plan.Input{Group: rc.NodeGroup, Creates: rc.Creates(), Others: rc.Others(), Now: rc.Now}
	if rc.Budgets != nil && rc.Budgets.Windows != nil {
		in.Window = rc.Budgets.Windows(rc.NodeGroup, rc.Now)
	}
	outdated := false
	for i := range rc.sets {
		in.Sets = append(in.Sets, rc.planSet(ctx, &rc.sets[i], &outdated))
	}
	if !outdated || !plan.Replaces(rc.NodeGroup) {
		return in
	}
	// Whether a Node has its metadata matters only now.
	assignments := make(map[string]*members.Assignment, len(rc.Nodes))
	for i := range rc.Nodes {
		assignments[rc.Nodes[i].Node.Name] = &rc.Nodes[i]
	}
	for i := range in.Sets {
		for k := range in.Sets[i].Machines {
			if m := &in.Sets[i].Machines[k]; !m.Outdated && m.Ready {
				node := rc.machines[m.UID].node
				m.Synced = rc.hasMetadata(node, assignments[node.Name])
			}
		}
	}
	return in
}

// planSet returns a MachineSet as package plan knows it, and sets outdated if one of its Machines is.
func (rc *reconciliation) planSet(ctx context.Context, set *machineSet, outdated *bool) plan.Set {
	out := plan.NewSet(set.MachineSet)
	template := machineapi.TemplateOf(set.MachineSet)
	selects := func(node *corev1.Node) bool { return rc.Selects(node, set.MachineSet) }
	for _, m := range set.machines {
		next := plan.NewMachine(template, m.Machine, m.node, selects)
		next.Denied, next.Leased = rc.isDenied(m.UID), next.Outdated && rc.isLeased(ctx, m)
		*outdated = *outdated || next.Outdated || next.Failed // a failed one may be replaced, when a user resumes
		out.Machines = append(out.Machines, next)
	}
	return out
}

// isLeased reports whether another holder has the lease of the Node of a Machine that is to be replaced. To ask for permission shows an error.
func (rc *reconciliation) isLeased(ctx context.Context, m *machine) bool {
	if rc.Leases == nil || m.node == nil || !plan.Replaces(rc.NodeGroup) {
		return false
	}
	held, err := rc.Leases.HeldByOther(ctx, m.node.Name)
	return err == nil && held != nil
}

// hasMetadata reports whether a Node carries what its group declares, or waits for that as the Nodes of old Machines do: its wave has not come, or
// another writer has changed what it had. Only a Node that has no wave, because it is newer than the roll-out, gets its metadata at once. A Node that
// the group selects and that was not observed with it has just joined.
func (rc *reconciliation) hasMetadata(node *corev1.Node, assignment *members.Assignment) bool {
	switch {
	case disruptionplan.IsJoining(node), assignment == nil:
		return false
	case assignment.Group == nil, assignment.Group.Spec.DryRun:
		return true
	}
	decision := metadataplan.DecideGroup(assignment.Input(rc.Protected, rc.Now))
	hasNoWave := rollout.IsNewer(node.CreationTimestamp.Time, assignment.Group.Status.Rollout)
	return !decision.Change.Write || !decision.FirstWrite || !hasNoWave
}
