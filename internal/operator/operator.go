// Package operator builds the process around the capabilities: client, caches and what they drop, leader election, probes, metrics,
// and the switch that starts and stops capabilities as their CRDs come and go.
package operator

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"runtime/debug"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/autoscaling"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/internal/upgrade"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/provider"
)

// shutdownGrace is how long the parts may take to stop; every write is guarded and idempotent, so none needs long.
const shutdownGrace = 15 * time.Second

// gcPercent is GOGC where the user sets none. With Go's own 100, a cluster of 20,000 nodes takes two fifths more memory; with 50, a roll-out takes a
// quarter more processor time. GOMEMLIMIT, which the Deployment sets, is the limit of the memory.
const gcPercent = 75

func setCollector() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}

// CapabilityNames lists the names that --controllers knows.
func CapabilityNames() []string {
	return []string{
		metadata.Name, maintenance.Medik8s().Name, maintenance.Kubevirt().Name, machinesName, autoscaling.Name, upgrade.Name, nodegroup.Name,
	}
}

// Run runs the operator until the context ends or it cannot go on. The configuration must be valid.
func Run(ctx context.Context, rest *rest.Config, settings *v1alpha1.DroverConfiguration, providers ...provider.Provider) error {
	tracker := undecodable.NewTracker()
	mgr, err := newManager(rest, settings, tracker)
	if err != nil {
		return err
	}
	metrics, err := NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return err
	}
	recorder, flush, err := newRecorder(ctx, mgr, metrics)
	if err != nil {
		return err
	}
	if err := addTracker(mgr, tracker, recorder); err != nil {
		return err
	}
	indexes := newIndexes(mgr.GetCache())
	b, err := newBuilder(mgr, recorder, settings, indexes, providers)
	if err != nil {
		return err
	}
	capabilities, err := b.capabilities()
	if err != nil {
		return err
	}
	client, err := newDiscovery(mgr)
	if err != nil {
		return err
	}
	cm := newCapabilityManager(capabilities, mgr.GetCache(), indexes, client, mgr.Elected(), metrics)
	setCollector()
	b.groups.isServed = func() bool { return !cm.isOff(nodegroup.Name) }
	if err := cm.addTo(mgr, settings); err != nil {
		return err
	}
	checks, err := addAdmission(mgr, cm, settings)
	if err != nil {
		return err
	}
	if err := addHealth(mgr, cm, tracker, client, *settings.Health.BindAddress, checks...); err != nil {
		return err
	}
	mgr.GetLogger().Info("starting", "version", version.Version(), "commit", version.Commit(), "controllers", settings.Controllers,
		"namespace", *settings.Namespace, "metadataWritesPerSecond", *settings.Metadata.WritesPerSecond)
	if err := mgr.Start(ctx); err != nil {
		// The lease may be lost, and workers may still run: nothing may keep the process from ending at once.
		return err
	}
	flush()
	return nil
}

// addTo has a manager run the capabilities, each of them when the caches show what the previous leader has written.
func (s *capabilityManager) addTo(mgr manager.Manager, settings *v1alpha1.DroverConfiguration) error {
	barrier, err := newBarrier(mgr, settings)
	if err != nil {
		return err
	}
	s.readVersions, s.catchUp, s.outdated = barrier.ReadVersions, barrier.Wait, barrier.Reset
	return mgr.Add(s)
}

// NewManager returns the manager that the operator runs in.
func NewManager(config *rest.Config, settings *v1alpha1.DroverConfiguration) (manager.Manager, error) {
	return newManager(config, settings, undecodable.NewTracker())
}

func newManager(config *rest.Config, settings *v1alpha1.DroverConfiguration, tracker *undecodable.Tracker) (manager.Manager, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	config = rest.CopyConfig(config)
	rest.AddUserAgent(config, "drover/"+version.Version())
	// The API server's priority and fairness, and our own bound on Node writes, do this better than a limit on all requests.
	config.QPS = -1
	// Since Kubernetes 1.37 the API server would compress the events of a watch one by one (WatchListCompression): in a roll-out a fortieth of
	// Drover's processor time went into that.
	config.DisableCompression = true
	config.WarningHandlerWithContext = warnings{}
	options := manager.Options{
		Scheme:         scheme,
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) { return newMapper(), nil },
		Cache:          cacheOptions(*settings.Namespace, mayMakeMachines(settings)),
		// Drover serves these itself: see endpoint.
		Metrics:                 metricsserver.Options{BindAddress: "0"},
		HealthProbeBindAddress:  "0",
		GracefulShutdownTimeout: new(shutdownGrace),
	}
	informers, err := newInformerFactory(config, scheme, options.Cache, tracker)
	if err != nil {
		return nil, err
	}
	options.NewCache, options.Cache.NewInformer = newCache(tracker), informers.newInformer
	if election := settings.LeaderElection; *election.Enabled {
		options.LeaderElection = true
		options.LeaderElectionReleaseOnCancel = true
		options.LeaseDuration, options.RenewDeadline = &election.LeaseDuration.Duration, &election.RenewDeadline.Duration
		options.RetryPeriod = new(attemptPeriod(election))
		if options.LeaderElectionResourceLockInterface, err = newLock(config, election); err != nil {
			return nil, err
		}
	}
	mgr, err := ctrl.NewManager(config, options)
	if err != nil {
		return nil, fmt.Errorf("building the operator: %w", err)
	}
	return mgr, addMetricsEndpoint(mgr, settings.Metrics)
}

func newDiscovery(mgr manager.Manager) (*discovery.DiscoveryClient, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("creating a discovery client: %w", err)
	}
	return client, nil
}

// live reads metadata from the API server itself.
func live(mgr manager.Manager) *expectations.Live {
	return expectations.NewLive(mgr.GetAPIReader(), mgr.GetScheme())
}

func newBarrier(mgr manager.Manager, settings *v1alpha1.DroverConfiguration) (*expectations.LeaderBarrier, error) {
	watching, err := client.NewWithWatch(mgr.GetConfig(), client.Options{
		HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper(),
	})
	if err != nil {
		return nil, fmt.Errorf("creating a client that watches: %w", err)
	}
	return &expectations.LeaderBarrier{
		Cache: mgr.GetCache(), Live: live(mgr), Watch: watching.Watch, Scopes: cacheOptions(*settings.Namespace, mayMakeMachines(settings)).ByObject,
	}, nil
}

// capabilities returns the capabilities that --controllers has picked.
func (b *builder) capabilities() ([]capability, error) {
	var all []capability
	for _, build := range []func() ([]capability, error){b.metadata, b.maintenance, b.machines, b.autoscaling, b.upgrade, b.nodeGroups} {
		built, err := build()
		if err != nil {
			return nil, err
		}
		all = append(all, built...)
	}
	return all, nil
}

// protected are the keys that belong to the system.
func protected(settings v1alpha1.Metadata) ownership.Protected {
	return ownership.NewProtected(ownership.Protected(settings.Protected), ownership.Protected(settings.Unprotected))
}

func (b *builder) metadata() ([]capability, error) {
	metrics, err := metadata.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, err
	}
	b.memory = grouplayer.NewMemory(live(b), nil)
	b.nodes = &nodeMetadata{run: func(ctx context.Context, parts nodeParts) error { return b.runMetadata(ctx, metrics, parts) }}
	if !config.Enabled(b.settings.Controllers, metadata.Name) {
		return nil, nil
	}
	return []capability{{
		name: metadata.Name,
		needs: []schema.GroupVersionResource{
			machinev1beta1.GroupVersion.WithResource("machinesets"), machinev1beta1.GroupVersion.WithResource("machines"),
		},
		watches: metadata.Kinds(),
		own:     []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}},
		prepare: func(ctx context.Context) error { return metadata.Index(ctx, b.indexes) },
		run: func(ctx context.Context) error {
			return b.nodes.serve(ctx, func(parts *nodeParts) { parts.templates = true })
		},
	}}, nil
}

// runMetadata runs the controller of the metadata of Nodes until the context ends.
func (b *builder) runMetadata(ctx context.Context, metrics *metadata.Metrics, parts nodeParts) error {
	settings := b.settings.Metadata
	options := metadata.Options{
		Workers: *settings.Workers, Limiter: b.limiter, Templates: parts.templates, Groups: parts.groups,
		Link: b.linking.Load, LinkChanged: b.linked,
		Protected: protected(settings), Memory: b.memory,
	}
	if parts.templates {
		options.Rollout = config.MachineSetRollout(b.settings)
	}
	if options.Rollout != nil {
		options.Rollouts = &metadata.RolloutStore{Live: b.GetAPIReader(), Writer: b.GetClient(), Namespace: ownNamespace()}
	}
	if b.budgets != nil && parts.groups == nil {
		options.AwaitsGroups = b.groups.isServed
	}
	return metadata.Run(ctx, b.GetCache(), b.GetClient(), b.recorder, metrics, options)
}

// addTracker has the leader report the objects that cannot be decoded.
func addTracker(mgr manager.Manager, tracker *undecodable.Tracker, recorder *recorder) error {
	if err := tracker.Register(ctrlmetrics.Registry); err != nil {
		return err
	}
	return mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		tracker.Report(ctx, recorder)
		return nil
	}))
}

func addHealth(
	mgr manager.Manager, cm *capabilityManager, tracker *undecodable.Tracker, client discovery.DiscoveryInterface, address string, more ...check,
) error {
	if address == "0" {
		return nil
	}
	api := &apiCheck{client: client.RESTClient(), every: 5 * time.Second}
	probes := &health{
		checks: append([]check{
			{"api-server", api.ask},
			{"caches", func(context.Context) error { return cm.ready() }},
		}, more...),
		lines: func() []string {
			lines := append([]string{"drover: " + version.Version()}, api.lines()...)
			lines = append(lines, cm.lines()...)
			for _, name := range CapabilityNames() {
				if !slices.ContainsFunc(cm.capabilities, func(c capability) bool { return c.name == name }) {
					lines = append(lines, fmt.Sprintf("capability %s: off (not in --controllers)", name))
				}
			}
			return append(lines, tracker.Lines()...)
		},
	}
	return mgr.Add(&endpoint{name: "health", address: address, handler: probes.handler(), limits: healthLimits})
}
