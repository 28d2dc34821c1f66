package operator

import (
	"context"
	"os"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/manager"
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

// maintenanceCapabilities returns the capabilities of the API groups of NodeMaintenance that --controllers enables. They share one engine.
func maintenanceCapabilities(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, drains *drains,
) ([]capability, error) {
	var groups []*maintenance.Group
	for _, group := range maintenance.Groups() {
		if config.Enabled(settings.Controllers, group.Name) {
			groups = append(groups, group)
		}
	}
	if len(groups) == 0 {
		return nil, nil
	}
	dependencies, err := newDependencies(mgr, recorder, settings, drains)
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
				if err := drains.prepare(ctx, mgr); err != nil {
					return err
				}
				return maintenance.Index(ctx, drains.indexes, group)
			},
			run: func(ctx context.Context) error {
				return maintenance.Run(ctx, mgr.GetCache(), group, dependencies, options)
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

func newDependencies(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, drains *drains,
) (*maintenance.Dependencies, error) {
	engine, guard, err := drains.get(mgr, settings)
	if err != nil {
		return nil, err
	}
	metrics, err := maintenance.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	return &maintenance.Dependencies{
		Guard: guard, Cache: mgr.GetCache(), Writer: mgr.GetClient(), Recorder: recorder, Engine: engine, Metrics: metrics,
		Registry: maintenance.NewRegistry(mgr.GetCache()),
		Live:     mgr.GetAPIReader(),
		Nodes:    expectations.NewObjects(live(mgr), nil),
		Lease:    drains.leasesOf(mgr, maintenance.Holder),
		OwnLease: &nodelease.Leases{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: ownNamespace(), Holder: maintenance.Holder, Clock: clock.RealClock{},
			NameOf: func(node string) string { return node }, KeepReleased: true,
		},
	}, nil
}

// ownNamespace returns the operator's own namespace, where node-maintenance-operator of the kubevirt group has its leases.
func ownNamespace() string {
	if name := os.Getenv(namespaceVariable); name != "" {
		return name
	}
	if text, err := os.ReadFile(podNamespaceFile); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "node-maintenance"
}
