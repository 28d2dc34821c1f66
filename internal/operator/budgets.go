package operator

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	config "github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/api/drover/v1alpha1"
	settings "github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodelink"
)

// membership answers for the NodeGroups of this cluster. Until it is known whether it has any, nothing is disrupted.
type membership struct {
	members.Index

	// isServed reports whether the API server has NodeGroups, or may have them.
	isServed func() bool
}

// GroupOf implements disruption.Membership.
func (m *membership) GroupOf(ctx context.Context, node string) (string, error) {
	if !m.isServed() {
		return "", nil
	}
	return m.Index.GroupOf(ctx, node)
}

// newBudgets returns the budgets of all NodeGroups; nil if --controllers does not enable them. machines reports whether Drover serves Machines.
func newBudgets(
	mgr manager.Manager, configuration *config.DroverConfiguration, groups *membership, absent *healthcheck.Absent, machines func() bool,
) (*disruption.Budgets, error) {
	if !settings.Enabled(configuration.Controllers, nodegroup.Name) {
		return nil, nil
	}
	// The manager's own client knows the kinds of Drover alone.
	anything, err := newClient(mgr)
	if err != nil {
		return nil, err
	}
	requests := &healthcheck.Requests{Cache: mgr.GetCache(), Live: anything, Client: anything, Absent: absent}
	if settings.Enabled(configuration.Controllers, machinesName) {
		requests.Kinds = configuration.Machines.Remediation.TemplateKinds
	}
	kind := func() client.Object { return &v1alpha1.NodeGroup{} }
	return disruption.New(disruption.Options{
		Reader: mgr.GetCache(), Writer: mgr.GetClient(), Membership: groups, Windows: plan.WindowOf,
		Requests: func(ctx context.Context, namespace string) ([]disruptionplan.Requested, error) {
			if !machines() {
				// There may be no permission to look.
				return nil, nil
			}
			return requests.List(ctx, namespace)
		},
		Joining: func(ctx context.Context, node *corev1.Node) (string, error) {
			if !machines() {
				// The indexes are those of the machine controller.
				return "", nil
			}
			return nodelink.Finder{Reader: mgr.GetCache()}.Joining(ctx, node)
		},
		Pace: func(group *v1alpha1.NodeGroup) disruptionplan.Pace {
			return plan.PaceOf(group, configuration.NodeGroups.Rollout)
		},
		Written: expectations.NewOwned(mgr.GetCache(), kind, expectations.OwnedOptions{Live: live(mgr)}),
	}), nil
}
