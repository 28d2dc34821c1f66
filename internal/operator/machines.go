package operator

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/healthcheck"
	"github.com/drover-io/drover/internal/machine"
	machineplan "github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/machineset"
	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/openshift"
	"github.com/drover-io/drover/internal/version"
	"github.com/drover-io/drover/provider"
)

// machinesName is the capability of MachineSets, Machines and MachineHealthChecks.
const machinesName = "machines"

// How many MachineSets and MachineHealthChecks are looked at at once. There are few, and a pass waits for nothing but its own requests.
const setWorkers, checkWorkers = 16, 4

// mayMakeMachines reports whether the caches must hold what that capability reads.
func mayMakeMachines(settings *v1alpha1.DroverConfiguration) bool {
	return config.Enabled(settings.Controllers, machinesName)
}

// machinesCapability makes the capability if --controllers has picked it.
func machinesCapability(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, drains *drains, providers []provider.Provider,
) ([]capability, error) {
	if !mayMakeMachines(settings) {
		return nil, nil
	}
	machineMetrics, machineErr := machine.NewMetrics(ctrlmetrics.Registry)
	setMetrics, setErr := machineset.NewMetrics(ctrlmetrics.Registry)
	checkMetrics, checkErr := healthcheck.NewMetrics(ctrlmetrics.Registry)
	if err := errors.Join(machineErr, setErr, checkErr); err != nil {
		return nil, err
	}
	dependencies, err := newMachineDependencies(mgr, recorder, settings, drains, providers)
	if err != nil {
		return nil, err
	}
	dependencies.Metrics = machineMetrics
	// Remediation templates are of any kind, so this client asks the API server which there are.
	anything, err := client.New(mgr.GetConfig(), client.Options{Scheme: mgr.GetScheme(), HTTPClient: mgr.GetHTTPClient()})
	if err != nil {
		return nil, fmt.Errorf("making a client for remediations: %w", err)
	}
	mao, err := newMachineAPIOperator(mgr, settings)
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
		blocked: mao.present,
		prepare: func(ctx context.Context) error {
			return errors.Join(drains.prepare(ctx, mgr), machine.Index(ctx, drains.indexes), machineset.Index(ctx, drains.indexes),
				healthcheck.Index(ctx, drains.indexes))
		},
		lookup: func(ctx context.Context) (err error) {
			cluster, err = openshift.ClusterName(ctx, anything)
			return err
		},
		run: func(ctx context.Context) error {
			drains.linking.Store(true)
			poke(drains.linked)
			defer drains.linking.Store(false)
			return machinesRun{mgr, recorder, settings, anything, dependencies, cluster, setMetrics, checkMetrics}.run(ctx)
		},
	}}, nil
}

// machinesRun is what the controllers of the capability are made of.
type machinesRun struct {
	mgr          manager.Manager
	recorder     record.EventRecorder
	settings     *v1alpha1.DroverConfiguration
	anything     client.Client
	dependencies *machine.Dependencies
	cluster      string
	setMetrics   *machineset.Metrics
	checkMetrics *healthcheck.Metrics
}

// run runs them until the context ends or one of them fails.
func (m machinesRun) run(ctx context.Context) error {
	options := machineOptions(m.settings)
	options.Cluster = m.cluster
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return machine.Run(ctx, m.mgr.GetCache(), m.dependencies, options) })
	group.Go(func() error {
		return machineset.Run(ctx, m.mgr.GetCache(), m.mgr.GetAPIReader(), m.mgr.GetClient(), m.recorder, m.setMetrics, setOptions(m.settings))
	})
	group.Go(func() error {
		return healthcheck.Run(ctx, m.mgr.GetCache(), m.anything, m.recorder, m.checkMetrics, healthcheck.Options{
			Workers: checkWorkers, Live: m.anything, Guard: m.dependencies.Guard, Leases: m.dependencies.Lease,
		})
	})
	report := &openshift.Report{Client: m.anything, Version: release(), Namespace: *m.settings.Namespace}
	group.Go(func() error { return report.Run(ctx) })
	return group.Wait()
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

func newMachineDependencies(
	mgr manager.Manager, recorder record.EventRecorder, settings *v1alpha1.DroverConfiguration, drains *drains, providers []provider.Provider,
) (*machine.Dependencies, error) {
	engine, guard, err := drains.get(mgr, settings)
	if err != nil {
		return nil, err
	}
	environment, err := Environment(mgr)
	if err != nil {
		return nil, err
	}
	chosen, err := serving(providers, settings.Machines)
	if err != nil {
		return nil, err
	}
	actuators, err := machine.NewActuators(environment, settings.Machines.ProviderOptions, chosen...)
	if err != nil {
		return nil, err
	}
	dependencies := &machine.Dependencies{
		Cache: mgr.GetCache(), Writer: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: recorder, Actuators: actuators, Engine: engine,
		Lease: drains.leasesOf(mgr, machine.Holder),
	}
	if guard != nil {
		dependencies.Guard = guard.ForMachines()
	}
	return dependencies, nil
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

// machineAPIOperator finds OpenShift's own machine-api-operator. Two operators that create and delete the same Machines would undo each other's work.
type machineAPIOperator struct {
	live      client.Reader
	discovery discovery.DiscoveryInterface
	named     bool
}

func newMachineAPIOperator(mgr manager.Manager, settings *v1alpha1.DroverConfiguration) (*machineAPIOperator, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("making a discovery client: %w", err)
	}
	return &machineAPIOperator{live: mgr.GetAPIReader(), discovery: client, named: slices.Contains(settings.Controllers, machinesName)}, nil
}

// controllers is the Deployment of machine-api-operator that creates Machines.
var controllers = types.NamespacedName{Namespace: "openshift-machine-api", Name: "machine-api-controllers"}

// there says why the capability has to stay off; empty when it may run.
func (i *machineAPIOperator) present(ctx context.Context) (string, error) {
	_, err := i.discovery.ServerResourcesForGroupVersion("config.openshift.io/v1")
	if client.IgnoreNotFound(err) != nil {
		return "", err
	}
	if err == nil && !i.named {
		return "this is OpenShift, which has a machine-api-operator; name machines in --controllers when that one is off", nil
	}
	deployment := &appsv1.Deployment{}
	err = i.live.Get(ctx, controllers, deployment)
	switch {
	case apierrors.IsNotFound(err):
		return "", nil
	case apierrors.IsForbidden(err):
		// config/default goes without the roles of this capability, and all others can work without it.
		return "", fmt.Errorf("%w; apply config/machines, or leave machines out of --controllers", err)
	case err != nil:
		return "", err
	case deployment.Spec.Replicas != nil && *deployment.Spec.Replicas == 0:
		return "", nil
	}
	return fmt.Sprintf("OpenShift's machine-api-operator works here (Deployment %s), and two would undo each other's work: turn it off first",
		controllers), nil
}
