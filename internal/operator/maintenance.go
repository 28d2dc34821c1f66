package operator

import (
	"context"
	"errors"
	"os"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// namespaceVariable names the operator's own namespace, to the replaced operators and to Drover.
const namespaceVariable = "OPERATOR_NAMESPACE"

// maintenance builds the capabilities of the API groups of NodeMaintenance that --controllers enables. They share one engine.
func (b *builder) maintenance() ([]capability, error) {
	settings := b.settings
	var groups []*maintenance.Group
	for _, group := range maintenance.Groups() {
		if config.Enabled(settings.Controllers, group.Name) {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	dependencies, err := b.maintenanceDependencies()
	if err != nil {
		return nil, err
	}
	options := maintenance.Options{
		Workers: *settings.Maintenance.Workers,
		Settings: plan.Settings{
			Uncordon: plan.UncordonPolicy(settings.Maintenance.OutOfBandUncordon), LeaseLoss: settings.Maintenance.LeaseLossTimeout.Duration,
			Limits: maintenanceLimits(settings),
		},
	}
	capabilities := make([]capability, len(groups))
	for i, group := range groups {
		capabilities[i] = capability{
			name: group.Name, needs: []schema.GroupVersionResource{group.Resource}, watches: group.Kinds(), own: group.Own(),
			prepare: func(ctx context.Context) error {
				return errors.Join(b.prepareDrains(ctx), maintenance.Index(ctx, b.indexes, group))
			},
			run: func(ctx context.Context) error {
				return maintenance.Run(ctx, b.GetCache(), group, dependencies, options)
			},
		}
	}
	return capabilities, nil
}

// maintenanceLimits returns what the configuration disables for all NodeMaintenances.
func maintenanceLimits(settings *v1alpha1.DroverConfiguration) plan.Limits {
	return plan.Limits{
		NoForce: settings.Maintenance.Force == config.Off, NoOutOfService: settings.Maintenance.OutOfService == config.Off,
	}
}

func (b *builder) maintenanceDependencies() (*maintenance.Dependencies, error) {
	engine, guard, err := b.drains()
	if err != nil {
		return nil, err
	}
	metrics, err := maintenance.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	return &maintenance.Dependencies{
		Guard: guard, Budgets: b.budgets, Cache: b.GetCache(), Writer: b.GetClient(), Recorder: b.recorder, Engine: engine, Metrics: metrics,
		Registry: maintenance.NewRegistry(b.GetCache()),
		Live:     b.GetAPIReader(),
		Nodes:    expectations.NewObjects(live(b), nil),
		Lease:    b.leasesOf(maintenance.Holder),
		OwnLease: &nodelease.Leases{
			Client: b.GetClient(), Reader: b.GetAPIReader(), Namespace: ownNamespace(), Holder: maintenance.Holder, Clock: clock.RealClock{},
			NameOf: func(node string) string { return node }, KeepReleased: true,
		},
	}, nil
}

// ownNamespace returns the operator's own namespace, where node-maintenance-operator of the kubevirt group has its leases, and Drover the histories
// of NodeGroups.
func ownNamespace() string {
	if name := os.Getenv(namespaceVariable); name != "" {
		return name
	}
	if name, err := podNamespace(); err == nil {
		return name
	}
	return "node-maintenance"
}
