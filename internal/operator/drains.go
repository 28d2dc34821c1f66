package operator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/quorum"
	"github.com/drover-io/drover/provider"
)

// builder builds the capabilities from what they share: one engine for all drains, so that a pod is evicted once however many controllers drain
// its node, and one guard of the control plane.
type builder struct {
	manager.Manager
	recorder  record.EventRecorder
	settings  *v1alpha1.DroverConfiguration
	providers []provider.Provider
	// indexes are the indexes of the cache.
	indexes *indexes
	// leases are Drover's own writes of node leases that the cache may not show yet.
	leases *expectations.Owned
	// linking reports that Drover creates the Machines in this cluster, and so has to name them on their Nodes. linked receives when that changes.
	linking atomic.Bool
	// others reports that machine-api-operator creates the Machines.
	others atomic.Bool
	linked chan struct{}
	// limiter bounds the rate at which metadata of Nodes is written, for MachineSets and NodeGroups.
	limiter *pace.Limiter
	// pages reads Pods from the API server, for all NodeGroups.
	pages *pages.Reader

	// budgets are the budgets of NodeGroups, and nil if NodeGroups are not enabled. groups knows which Nodes they have.
	budgets *disruption.Budgets
	groups  *membership
	// absent are the kinds of remediation requests that are not served.
	absent healthcheck.Absent
	// nodes runs the controller that writes the metadata of Nodes, memory is what its runs remember.
	nodes  *nodeMetadata
	memory *grouplayer.Memory

	engine  *engine.Engine
	guard   guard
	indexed sync.Once
	failed  error
}

func newBuilder(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, indexes *indexes, providers []provider.Provider,
) (b *builder, err error) {
	b = &builder{
		Manager: mgr, recorder: recorder, settings: settings, providers: providers, indexes: indexes,
		leases: newLeases(mgr), linked: make(chan struct{}, 1), groups: &membership{},
		limiter: pace.NewLimiter(*settings.Metadata.WritesPerSecond, *settings.Metadata.WritesBurst), pages: pages.NewReader(mgr.GetAPIReader()),
	}
	b.budgets, err = newBudgets(mgr, settings, b.groups, &b.absent, b.linking.Load)
	return b, err
}

func newLeases(mgr manager.Manager) *expectations.Owned {
	kind := func() client.Object { return &coordinationv1.Lease{} }
	return expectations.NewOwned(mgr.GetCache(), kind, expectations.OwnedOptions{Live: live(mgr)})
}

// leasesOf returns the node leases for one holder.
func (b *builder) leasesOf(holder string) *nodelease.Leases {
	return &nodelease.Leases{
		Client: b.GetClient(), Namespace: nodelease.Namespace(), Holder: holder, Clock: clock.RealClock{}, Written: b.leases,
	}
}

// guard is the guard of the control plane as all controllers use it.
type guard interface {
	quorum.MachineChecker
	ForMachines() quorum.MachineGuard
}

// drains returns the engine of all drains and the guard. The first call creates them.
func (b *builder) drains() (*engine.Engine, guard, error) {
	if b.engine != nil {
		return b.engine, b.guard, nil
	}
	metrics, err := engine.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, nil, err
	}
	settings := b.settings.Drain
	created := engine.New(engine.NewCachedPods(b.GetCache()), b.GetCache(), b.GetAPIReader(), b.GetClient(), metrics, engine.Settings{
		RequestsPerSecond: *settings.RequestsPerSecond, Burst: *settings.Burst, Workers: *settings.Workers,
	})
	if err := b.Add(created); err != nil {
		return nil, nil, err
	}
	if b.guard, err = newGuard(b, b.settings.Maintenance); err != nil {
		return nil, nil, err
	}
	b.engine = created
	return b.engine, b.guard, nil
}

// prepareDrains creates the indexes that the engine reads by, once: they outlive the CRDs of the capabilities.
func (b *builder) prepareDrains(ctx context.Context) error {
	b.indexed.Do(func() {
		b.failed = errors.Join(engine.IndexPods(ctx, b.GetCache()), engine.Index(ctx, b.indexes))
	})
	return b.failed
}
