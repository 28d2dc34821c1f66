package operator

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/upgrade"
)

// upgradeCapability makes the gate of node upgrades if --controllers has picked it.
func upgradeCapability(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, shared *drains,
) ([]capability, error) {
	if !config.Enabled(settings.Controllers, upgrade.Name) {
		return nil, nil
	}
	metrics, err := upgrade.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a client for the logs of Jobs: %w", err)
	}
	crew := &upgrade.Crew{
		Cache: mgr.GetCache(), Writer: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder, Metrics: metrics,
		Lease: shared.leasesOf(mgr, upgrade.Holder),
		Logs:  upgrade.PodLogs(typed.CoreV1()),
	}
	options := upgrade.Options{NodeVersion: upgrade.VersionSource(settings.Upgrade.NodeVersion), Namespaces: settings.Upgrade.Namespaces}
	return []capability{{
		name: upgrade.Name,
		needs: []schema.GroupVersionResource{
			mutex.GroupVersion.WithResource("mutexrules"), mutex.GroupVersion.WithResource("mutextargets"),
			mutex.GroupVersion.WithResource("mutexrunconfigs"), mcfgv1.GroupVersion.WithResource("machineconfigpools"),
			mcfgv1.GroupVersion.WithResource("machineconfigs"), configv1.GroupVersion.WithResource("clusterversions"),
		},
		watches: upgrade.Kinds(), own: upgrade.Own(),
		prepare: func(context.Context) error { return nil },
		run:     func(ctx context.Context) error { return upgrade.Run(ctx, mgr.GetCache(), crew, options) },
	}}, nil
}
