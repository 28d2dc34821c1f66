package operator

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/quorum"
)

// drains is what capabilities share: one engine for all drains, so that a pod is evicted once however many need its node, and one
// guard of the control plane.
type drains struct {
	engine *engine.Engine
	guard  guard
	// indexes are those of the cache.
	indexes *indexes
	// leases are Drover's own writes of node leases that the cache may not show yet.
	leases *expectations.Owned
	// linking reports that Drover creates the Machines in this cluster, and so has to name them on their Nodes.
	linking atomic.Bool
	// linked receives when that changes.
	linked chan struct{}

	indexed sync.Once
	failed  error
}

func newLeases(mgr manager.Manager) *expectations.Owned {
	kind := func() client.Object { return &coordinationv1.Lease{} }
	return expectations.NewOwned(mgr.GetCache(), kind, expectations.OwnedOptions{Live: live(mgr)})
}

// leasesOf returns the node leases for one holder.
func (d *drains) leasesOf(mgr manager.Manager, holder string) *nodelease.Leases {
	return &nodelease.Leases{
		Client: mgr.GetClient(), Namespace: nodelease.Namespace(), Holder: holder, Clock: clock.RealClock{}, Written: d.leases,
	}
}

// guard is what all of them ask of it.
type guard interface {
	quorum.MachineChecker
	ForMachines() quorum.MachineGuard
}

// get makes the engine and the guard when they are asked for first.
func (d *drains) get(mgr manager.Manager, settings *v1alpha1.DroverConfiguration) (*engine.Engine, guard, error) {
	if d.engine != nil {
		return d.engine, d.guard, nil
	}
	metrics, err := engine.NewMetrics(ctrlmetrics.Registry)
	if err != nil {
		return nil, nil, err
	}
	made := engine.New(engine.NewCachedPods(mgr.GetCache()), mgr.GetCache(), mgr.GetAPIReader(), mgr.GetClient(), metrics, engine.Settings{
		RequestsPerSecond: *settings.Drain.RequestsPerSecond, Burst: *settings.Drain.Burst, Workers: *settings.Drain.Workers,
	})
	if err := mgr.Add(made); err != nil {
		return nil, nil, err
	}
	if d.guard, err = newGuard(mgr, settings.Maintenance); err != nil {
		return nil, nil, err
	}
	d.engine = made
	return d.engine, d.guard, nil
}

// prepare makes the indexes that the engine reads by, once: they outlive the CRDs of the capabilities.
func (d *drains) prepare(ctx context.Context, mgr manager.Manager) error {
	d.indexed.Do(func() {
		d.failed = errors.Join(engine.IndexPods(ctx, mgr.GetCache()), engine.Index(ctx, d.indexes))
	})
	return d.failed
}
