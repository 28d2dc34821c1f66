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
	"github.com/drover-io/drover/internal/nodelease"
)

// namespaceVariable names the operator's own namespace, to the replaced operators and to Drover.
const namespaceVariable = "OPERATOR_NAMESPACE"

// maintenanceCapabilities lists those of the two groups of NodeMaintenance that --controllers has picked. They share one engine.
func maintenanceCapabilities(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, drains *drains,
) ([]capability, error) {
	var flavours []*maintenance.Flavour
	for _, flavour := range maintenance.Flavours() {
		if config.Enabled(settings.Controllers, flavour.Name) {
			flavours = append(flavours, flavour)
		}
	}
	if len(flavours) == 0 {
		return nil, nil
	}
	dependencies, err := newDependencies(mgr, recorder, settings, drains)
	if err != nil {
		return nil, err
	}
	options := maintenance.Options{
		Workers: *settings.Maintenance.Workers, Uncordon: maintenance.UncordonPolicy(settings.Maintenance.OutOfBandUncordon),
		LeaseLoss: settings.Maintenance.LeaseLossTimeout.Duration, Limits: switchedOff(settings),
	}
	capabilities := make([]capability, len(flavours))
	for i, flavour := range flavours {
		capabilities[i] = capability{
			name: flavour.Name, needs: []schema.GroupVersionResource{flavour.Resource}, watches: flavour.Kinds(), own: flavour.Own(),
			prepare: func(ctx context.Context) error {
				if err := drains.prepare(ctx, mgr); err != nil {
					return err
				}
				return maintenance.Index(ctx, drains.indexes, flavour)
			},
			run: func(ctx context.Context) error {
				return maintenance.Run(ctx, mgr.GetCache(), flavour, dependencies, options)
			},
		}
	}
	return capabilities, nil
}

// switchedOff returns what the configuration has switched off for all NodeMaintenances.
func switchedOff(settings *v1alpha1.DroverConfiguration) maintenance.Limits {
	return maintenance.Limits{
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
		Registry:  maintenance.NewRegistry(mgr.GetCache()),
		Live:      live(mgr),
		APIReader: mgr.GetAPIReader(),
		Nodes:     expectations.NewObjects(live(mgr), nil),
		Lease:     drains.leasesOf(mgr, maintenance.Holder),
		OwnLease: &nodelease.Leases{
			Client: mgr.GetClient(), Reader: mgr.GetAPIReader(), Namespace: ownNamespace(), Holder: maintenance.Holder, Clock: clock.RealClock{},
			NameOf: func(node string) string { return node }, KeepReleased: true,
		},
	}, nil
}

// ownNamespace is where the older node-maintenance-operator keeps its leases.
func ownNamespace() string {
	if name := os.Getenv(namespaceVariable); name != "" {
		return name
	}
	if text, err := os.ReadFile(podNamespaceFile); err == nil {
		return strings.TrimSpace(string(text))
	}
	return "node-maintenance"
}
