package operator

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/upgrade"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// upgrade builds the capability of gated upgrades if --controllers enables it.
func (b *builder) upgrade() ([]capability, error) {
	if !config.Enabled(b.settings.Controllers, upgrade.Name) {
		return nil, nil
	}
	metrics, err := upgrade.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	typed, err := kubernetes.NewForConfigAndClient(b.GetConfig(), b.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a client for the logs of Jobs: %w", err)
	}
	dependencies := upgrade.Dependencies{
		Cache: b.GetCache(), Writer: b.GetClient(), Live: b.GetAPIReader(), Pages: b.pages, Recorder: b.recorder,
		Metrics: metrics,
		Leases:  b.leasesOf(upgrade.Holder), Budgets: b.budgets,
		Logs: upgrade.PodLogs(typed.CoreV1()),
	}
	options := upgrade.Options{NodeVersion: plan.VersionSource(b.settings.Upgrade.NodeVersion), Namespaces: b.settings.Upgrade.Namespaces}
	return []capability{{
		name: upgrade.Name,
		needs: []schema.GroupVersionResource{
			mutex.GroupVersion.WithResource("mutexrules"), mutex.GroupVersion.WithResource("mutextargets"),
			mutex.GroupVersion.WithResource("mutexrunconfigs"), mcfgv1.GroupVersion.WithResource("machineconfigpools"),
			mcfgv1.GroupVersion.WithResource("machineconfigs"), configv1.GroupVersion.WithResource("clusterversions"),
		},
		watches: upgrade.Kinds(), own: upgrade.Own(),
		prepare: func(context.Context) error { return nil },
		run:     func(ctx context.Context) error { return upgrade.Run(ctx, b.GetCache(), dependencies, options) },
	}}, nil
}
