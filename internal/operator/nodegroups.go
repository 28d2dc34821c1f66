package operator

import (
	"context"
	"errors"
	"slices"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/machine"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/grouplayer"
	"github.com/drover-io/drover/internal/nodegroup"
	"github.com/drover-io/drover/internal/nodegroup/policy"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/quorum"
	"github.com/drover-io/drover/internal/rollout/gate"
	"github.com/drover-io/drover/internal/rollout/history"
)

// nodeGroups builds the capability of NodeGroups if --controllers enables it. Where Machines are served, groups also select Nodes by MachineSets, and
// what Machines declare goes before what groups declare.
func (b *builder) nodeGroups() ([]capability, error) {
	if !config.Enabled(b.settings.Controllers, nodegroup.Name) {
		return nil, nil
	}
	groupMetrics, err := nodegroup.NewMetrics(ctrlmetrics.Registry)
	nodeMetrics, nodeErr := grouplayer.NewMetrics(ctrlmetrics.Registry)
	replacementMetrics, replacementErr := replacement.NewMetrics(ctrlmetrics.Registry)
	if err := errors.Join(err, nodeErr, replacementErr); err != nil {
		return nil, err
	}
	guard, watches, err := b.nodeGuard()
	if err != nil {
		return nil, err
	}
	metrics := nodeGroupMetrics{groupMetrics, nodeMetrics, replacementMetrics}
	run := func(ctx context.Context, machines bool) error { return b.runNodeGroups(ctx, metrics, guard, machines) }
	alone := capability{
		name:    nodegroup.Name,
		needs:   []schema.GroupVersionResource{v1alpha1.GroupVersion.WithResource("nodegroups")},
		watches: append(nodegroup.Kinds(), watches...), own: nodegroup.Own(),
		prepare: func(ctx context.Context) error {
			if guard == nil {
				return nil
			}
			return b.prepareDrains(ctx)
		},
		run: func(ctx context.Context) error { return run(ctx, false) },
	}
	if !config.Enabled(b.settings.Controllers, metadata.Name) && !mayMakeMachines(b.settings) {
		// It has no permission to read Machines.
		return []capability{alone}, nil
	}
	beside := alone
	beside.needs = slices.Concat(alone.needs, []schema.GroupVersionResource{
		machinev1beta1.GroupVersion.WithResource("machinesets"), machinev1beta1.GroupVersion.WithResource("machines"),
	})
	beside.watches = slices.Concat(alone.watches, []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}})
	beside.own = slices.Concat(alone.own, []client.Object{&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}})
	beside.prepare = func(ctx context.Context) error {
		return errors.Join(alone.prepare(ctx), lookup.Index(ctx, b.indexes), lookup.IndexOwners(ctx, b.indexes))
	}
	beside.run = func(ctx context.Context) error { return run(ctx, true) }
	alone.extended = &beside
	return []capability{alone}, nil
}

// nodeGroupMetrics are the metrics of the controllers of NodeGroups.
type nodeGroupMetrics struct {
	groups       *nodegroup.Metrics
	nodes        *grouplayer.Metrics
	replacements *replacement.Metrics
}

// nodeGuard returns what evicts Pods before a taint with the effect NoExecute, with what that watches; nil where no enabled capability has the
// permission to evict.
func (b *builder) nodeGuard() (*grouplayer.Guard, []client.Object, error) {
	controllers := b.settings.Controllers
	if !config.Enabled(controllers, maintenance.Medik8s().Name) && !mayMakeMachines(b.settings) {
		return nil, nil, nil
	}
	drains, _, err := b.drains()
	if err != nil {
		return nil, nil, err
	}
	guard := &grouplayer.Guard{Engine: drains, Leases: b.leasesOf(grouplayer.Holder), Budgets: b.budgets, Live: b.pages}
	return guard, engine.Kinds(), nil
}

// runNodeGroups runs the controllers of NodeGroups until the context ends. Machines are replaced where Drover may create them: its caches have their
// providerSpecs only there.
func (b *builder) runNodeGroups(ctx context.Context, metrics nodeGroupMetrics, guard *grouplayer.Guard, machines bool) error {
	served := func() bool { return machines }
	finder, reached := members.NewFinder(b.GetCache(), served).WithRollout(b.settings.NodeGroups.Rollout), &gate.Gate{}
	if !config.Enabled(b.settings.Controllers, metadata.Name) {
		finder.WithoutTemplates()
	}
	settings := b.settings.Metadata
	revisions := &history.Store{Reader: b.GetAPIReader(), Writer: b.GetClient(), Namespace: ownNamespace(), Owner: nodegroup.FieldOwner}
	var replacer *replacement.Replacer
	if machines && mayMakeMachines(b.settings) {
		var err error
		if replacer, err = b.replacer(ctx, metrics.replacements); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return b.groups.Run(ctx, b.GetCache(), finder) })
	group.Go(func() error {
		return policy.Run(ctx, b.GetCache(), policy.Dependencies{
			Cache: b.GetCache(), Live: b.GetAPIReader(), Writer: b.GetClient(), Namespace: ownNamespace(),
		})
	})
	group.Go(func() error {
		return nodegroup.Run(ctx, b.GetCache(), nodegroup.Dependencies{
			Cache: b.GetCache(), Writer: b.GetClient(), Recorder: b.recorder, Metrics: metrics.groups, Finder: finder, Gate: reached,
			Replacer: replacer, History: revisions, Budgets: b.budgets, Live: live(b), API: b.pages,
		}, nodegroup.Options{Protected: protected(settings), Machines: served})
	})
	layer := grouplayer.NewLayer(grouplayer.Dependencies{
		Cache: b.GetCache(), Recorder: b.recorder, Metrics: metrics.nodes, Finder: finder, Gate: reached, Guard: guard, Memory: b.memory,
	}, grouplayer.Options{Limiter: b.limiter, Protected: protected(settings), Machines: served})
	group.Go(func() error {
		return b.nodes.serve(ctx, func(parts *nodeParts) { parts.groups = layer })
	})
	return group.Wait()
}

// replacer returns what replaces the outdated Machines of NodeGroups.
func (b *builder) replacer(ctx context.Context, metrics *replacement.Metrics) (*replacement.Replacer, error) {
	version, err := expectations.StoreVersion(ctx, b.GetCache(), &machinev1beta1.Machine{})
	if err != nil {
		return nil, err
	}
	var protection quorum.Checker
	if b.guard != nil {
		protection = b.guard.ForMachines()
	}
	return replacement.New(replacement.Dependencies{
		Cache: b.GetCache(), Writer: b.GetClient(), Recorder: b.recorder, Metrics: metrics, Budgets: b.budgets,
		Leases: b.leasesOf(machine.Holder), Guard: protection, Version: version, Live: live(b),
		Protected: protected(b.settings.Metadata), Creates: b.linking.Load, Others: b.others.Load,
	}), nil
}
