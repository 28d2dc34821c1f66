package replacement

import (
	"cmp"
	"context"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/quorum"
)

// FieldOwner is the field manager of every write.
const FieldOwner = client.FieldOwner("drover-node-groups")

// retryBlocked is how soon a group is reconciled again if what it waits for causes no event.
const retryBlocked = 5 * time.Second

// Dependencies are what a Replacer works with.
type Dependencies struct {
	// Cache reads Nodes, MachineSets and Machines, with their providerSpecs and the indexes of machineapi/lookup.
	Cache    client.Reader
	Writer   client.Client
	Recorder record.EventRecorder
	Metrics  *Metrics
	// Budgets give permission to disrupt Nodes.
	Budgets *disruption.Budgets
	// Leases acquires the lease of a Node before its Machine is deleted, with the holder of the machine controller; nil acquires none.
	Leases *nodelease.Leases
	// Guard protects the control plane; nil protects nothing.
	Guard quorum.Checker
	// Version returns the newest resourceVersion that the cache of Machines has seen; nil where that is not known.
	Version func() string
	// Live asks the API server about own writes that the cache does not show for long; with nil they are dropped after a minute.
	Live *expectations.Live
	// Clock returns the time; nil is the real clock.
	Clock clock.PassiveClock
	// Protected are the keys of Nodes that belong to the system.
	Protected ownership.Protected
	// Creates reports whether Drover creates the Machines of MachineSets, Others whether machine-api-operator does.
	Creates, Others func() bool
}

// Replacer replaces the outdated Machines of NodeGroups.
type Replacer struct {
	Dependencies
	owned *expectations.Owned
}

// New returns a Replacer.
func New(dependencies Dependencies) *Replacer {
	return &Replacer{
		Dependencies: dependencies,
		owned: expectations.NewOwned(dependencies.Cache, func() client.Object { return &machinev1beta1.Machine{} }, expectations.OwnedOptions{
			Version: dependencies.Version, Live: dependencies.Live, Clock: dependencies.Clock,
		}),
	}
}

// State is what is known of a group between two reconciliations. It is lost with the process.
type State struct {
	// waiting is the request that the budget has no place for; nil for none.
	waiting *disruption.Request
	// denied are the Machines that the API server does not let Drover delete or mark, and when the next attempt is due.
	denied map[types.UID]time.Time
	// report is what was found last; nil for nothing yet.
	report *plan.Report
}

// NewState returns the State of a group that is reconciled for the first time.
func NewState() *State {
	return &State{denied: map[types.UID]time.Time{}}
}

// Group is a NodeGroup as a reconciliation has observed it.
type Group struct {
	*members.Group
	// All are all NodeGroups, the oldest first. Nodes are the Nodes that the group selects.
	All   []*members.Group
	Nodes []members.Assignment
	State *State
	// Now is the time of the reconciliation.
	Now time.Time
}

// reconciliation is what one reconciliation of a group works on. It does not change.
type reconciliation struct {
	*Replacer
	*observation
	Group
}

// Reconcile replaces outdated Machines of a group. The report is for the status of the group; while the Machines cannot be read it is the last one.
func (r *Replacer) Reconcile(ctx context.Context, group Group) (plan.Report, controller.Outcome) {
	observed, err := r.observe(ctx, &group)
	if err != nil || observed.pending {
		if group.State.report == nil {
			return plan.Unknown(group.NodeGroup, err), waitFor(err)
		}
		return *group.State.report, waitFor(err)
	}
	rc := &reconciliation{Replacer: r, observation: observed, Group: group}
	decision := plan.Decide(rc.input(ctx))
	requeue, err := rc.apply(ctx, &decision)
	decision.Report.LeaveOut(group.NodeGroup, observed.leftOut)
	group.State.report = &decision.Report
	out := controller.Failed(cmp.Or(err, observed.undecodable))
	out.Requeue = requeue
	return decision.Report, out
}

// ReconcileSet removes the marks from the Machines of a MachineSet that belongs to no group any more. The MachineSet then deletes its surplus
// Machines. A MachineSet that belongs to a group is left to that group.
func (r *Replacer) ReconcileSet(ctx context.Context, groups []*members.Group, key types.NamespacedName) controller.Outcome {
	observed, err := r.observeSet(ctx, groups, key)
	if err != nil || observed.pending {
		return waitFor(err)
	}
	return controller.Failed((&reconciliation{Replacer: r, observation: observed}).unmarkAll(ctx))
}

// waitFor returns the outcome where Machines cannot be read: with an error, or while the cache does not show one of Drover's own writes.
func waitFor(err error) controller.Outcome {
	if err != nil {
		return controller.Outcome{Err: err}
	}
	return controller.Waiting(controller.CatchUp)
}
