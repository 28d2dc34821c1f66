package operator

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/healthcheck"
	checkplan "github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machine"
	machineplan "github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/machineset/capacity"
	capacityplan "github.com/drover-io/drover/internal/machineset/capacity/plan"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/openshift"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/version"
)

// machinesName is the capability of MachineSets, Machines and MachineHealthChecks.
const machinesName = "machines"

// How many MachineSets and MachineHealthChecks are looked at at once. There are few, and a pass waits for nothing but its own requests; that for the
// capacity may wait for a provider.
const setWorkers, checkWorkers, capacityWorkers = 16, 4, 4

// mayMakeMachines reports whether the caches must hold what that capability reads.
func mayMakeMachines(settings *v1alpha1.DroverConfiguration) bool {
	return config.Enabled(settings.Controllers, machinesName)
}

// machines builds the capability if --controllers has picked it.
func (b *builder) machines() ([]capability, error) {
	if !mayMakeMachines(b.settings) {
		return nil, nil
	}
	setMetrics, setErr := machineset.NewMetrics(ctrlmetrics.Registry)
	checkMetrics, checkErr := healthcheck.NewMetrics(ctrlmetrics.Registry)
	dependencies, err := b.machineDependencies()
	if err := errors.Join(setErr, checkErr, err); err != nil {
		return nil, err
	}
	// The configuration names the kinds of remediation templates.
	anything, err := newClient(b)
	if err != nil {
		return nil, err
	}
	mao, err := machineAPIOperator().on(b, b.settings.Controllers)
	if err != nil {
		return nil, err
	}
	var cluster string
	return []capability{{
		name: machinesName,
		needs: []schema.GroupVersionResource{
			machinev1beta1.GroupVersion.WithResource("machinesets"), machinev1beta1.GroupVersion.WithResource("machines"),
			machinev1beta1.GroupVersion.WithResource("machinehealthchecks"),
		},
		watches: slices.Concat(machine.Kinds(), machineset.Kinds(), healthcheck.Kinds()),
		own:     []client.Object{&machinev1beta1.MachineHealthCheck{}, &machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}},
		blocked: func(ctx context.Context) (string, error) {
			why, err := mao.present(ctx)
			b.others.Store(err == nil && why != "")
			return why, err
		},
		prepare: func(ctx context.Context) error {
			return errors.Join(b.prepareDrains(ctx), machine.Index(ctx, b.indexes), machineset.Index(ctx, b.indexes),
				healthcheck.Index(ctx, b.indexes))
		},
		lookup: func(ctx context.Context) (err error) {
			cluster, err = openshift.ClusterName(ctx, anything)
			return err
		},
		run: func(ctx context.Context) error {
			b.linking.Store(true)
			poke(b.linked)
			defer b.linking.Store(false)
			options := machineOptions(b.settings)
			options.Cluster = cluster
			group, ctx := errgroup.WithContext(ctx)
			group.Go(func() error { return machine.Run(ctx, b.GetCache(), dependencies, options) })
			b.runMachineSets(ctx, group, setMetrics, dependencies.Actuators)
			group.Go(func() error {
				return healthcheck.Run(ctx, b.GetCache(), anything, b.recorder, checkMetrics, b.checkOptions(anything, dependencies))
			})
			report := &openshift.Report{Client: anything, Version: release(), Namespace: *b.settings.Namespace}
			group.Go(func() error { return report.Run(ctx) })
			return group.Wait()
		},
	}}, nil
}

// runMachineSets runs the controllers of MachineSets: how many Machines they have, and what their Nodes will have.
func (b *builder) runMachineSets(ctx context.Context, group *errgroup.Group, metrics *machineset.Metrics, actuators *machine.Actuators) {
	group.Go(func() error {
		return machineset.Run(ctx, b.GetCache(), b.GetAPIReader(), b.GetClient(), b.recorder, metrics, setOptions(b.settings))
	})
	group.Go(func() error {
		keys := protected(b.settings.Metadata)
		isTaint := keys.Of(ownership.Taint)
		return capacity.Run(ctx, b.GetCache(), b.GetClient(), b.recorder, capacity.Options{
			Workers: capacityWorkers, Provider: actuators.Capacity, Protected: capacityplan.Protected{
				Label: keys.Of(ownership.Label), Taint: func(taint corev1.Taint) bool { return isTaint(ownership.TaintID(taint)) },
			},
		})
	})
}

// checkOptions returns the options of MachineHealthChecks. Its limits apply to MachineHealthChecks that have none themselves.
func (b *builder) checkOptions(live client.Client, dependencies *machine.Dependencies) healthcheck.Options {
	r := &b.settings.Machines.Remediation
	return healthcheck.Options{
		Workers: checkWorkers, Live: live, Guard: dependencies.Guard, Leases: dependencies.Lease, Budgets: b.budgets,
		Limits: checkplan.Limits{MaxInFlight: r.MaxInFlight, MinInterval: r.MinInterval.Duration}, TemplateKinds: r.TemplateKinds,
		Absent: &b.absent,
	}
}

// release is the version that OpenShift's update waits for: its own where it says which, else Drover's.
func release() string {
	if release := os.Getenv("RELEASE_VERSION"); release != "" {
		return release
	}
	return version.Version()
}

func setOptions(settings *v1alpha1.DroverConfiguration) machineset.Options {
	options := machineset.Options{Workers: setWorkers, Parallel: *settings.Machines.Parallel, ReplaceFailed: *settings.Machines.ReplaceFailed}
	if config.Enabled(settings.Controllers, metadata.Name) {
		keys := protected(settings.Metadata)
		options.Adopt = func(set *machinev1beta1.MachineSet, machine *machinev1beta1.Machine) {
			plan.Adopt(set, machine, keys, time.Now())
		}
	}
	return options
}

func (b *builder) machineDependencies() (*machine.Dependencies, error) {
	engine, guard, err := b.drains()
	if err != nil {
		return nil, err
	}
	environment, err := Environment(b)
	if err != nil {
		return nil, err
	}
	chosen, err := serving(b.providers, b.settings.Machines)
	if err != nil {
		return nil, err
	}
	actuators, err := machine.NewActuators(environment, b.settings.Machines.ProviderOptions, chosen...)
	if err != nil {
		return nil, err
	}
	dependencies := &machine.Dependencies{
		Cache: b.GetCache(), Writer: b.GetClient(), Live: b.GetAPIReader(), Recorder: b.recorder, Actuators: actuators, Engine: engine,
		Lease: b.leasesOf(machine.Holder),
	}
	if guard != nil {
		dependencies.Guard = guard.ForMachines()
	}
	dependencies.Metrics, err = machine.NewMetrics(ctrlmetrics.Registry)
	return dependencies, err
}

func machineOptions(settings *v1alpha1.DroverConfiguration) machine.Options {
	m := settings.Machines
	options := machine.Options{Workers: *m.Workers, Settings: machineplan.Settings{
		InstanceCheck: m.InstanceCheck.Duration, DrainTimeout: m.NodeDrainTimeout.Duration,
		VolumeDetachTimeout: m.VolumeDetachTimeout.Duration, NodeDeletionTimeout: m.NodeDeletionTimeout.Duration,
		AdoptionNamespaces: config.AdoptionNamespaces(settings),
	}}
	if options.VolumeDetachTimeout == 0 {
		options.VolumeDetachTimeout = -1
	}
	return options
}
