package config

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// Flags are the command line's part of the configuration.
type Flags struct {
	// File is the configuration file, empty for none.
	File string
	set  *pflag.FlagSet
}

// AddFlags defines the flags. Their defaults are those of the configuration.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set}
	set.StringVar(&f.File, "config", "", "configuration file (config.drover.dev/v1alpha1); flags go over it")
	bind(set, Default())
	return f
}

// bind defines flags for the fields of a configuration. Their defaults are what the fields have.
func bind(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	set.StringSliceVar(&c.Controllers, "controllers", c.Controllers, `capabilities to run: "*" for all, "name" for one, "*,-name" for all but one; `+
		`a list without "*" turns on only what it names`)
	bindMetadata(set, c)
	bindMaintenance(set, c)
	bindUpgrade(set, c)
	bindMachines(set, c)
	bindLeaderElection(set, c)
	bindServing(set, c)
	bindWebhook(set, c)
}

func bindMetadata(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Metadata
	set.StringVar(c.Namespace, "namespace", *c.Namespace, `namespace of MachineSets and Machines; "" for all`)
	set.IntVar(m.Workers, "metadata-workers", *m.Workers, "Machines worked on at once")
	set.Float64Var(m.WritesPerSecond, "metadata-writes-per-second", *m.WritesPerSecond, "Nodes written per second at most, 0 for no bound")
	set.IntVar(m.WritesBurst, "metadata-writes-burst", *m.WritesBurst, "Nodes that may be written at once after a pause")
}

func bindMaintenance(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Maintenance
	d := &c.Drain
	set.Float64Var(d.RequestsPerSecond, "drain-requests-per-second", *d.RequestsPerSecond,
		"evictions and deletions of pods per second at most, 0 for no bound")
	set.IntVar(d.Burst, "drain-burst", *d.Burst, "evictions and deletions that may be made at once after a pause")
	set.IntVar(d.Workers, "drain-workers", *d.Workers, "evictions and deletions under way at once")
	set.IntVar(m.Workers, "maintenance-workers", *m.Workers, "NodeMaintenances looked at at once")
	set.StringVar(&m.OutOfBandUncordon, "maintenance-out-of-band-uncordon", m.OutOfBandUncordon,
		"when another writer uncordons a node in maintenance: Repair or Report")
	set.DurationVar(&m.LeaseLossTimeout.Duration, "maintenance-lease-loss-timeout", m.LeaseLossTimeout.Duration,
		"how long the lease of a node that is not drained yet may have another holder before the node is given back")
	set.StringVar(&m.ControlPlaneGuard, "maintenance-control-plane-guard", m.ControlPlaneGuard,
		"Auto makes NodeMaintenances, deletions of Machines and remediation wait until the control plane can spare the node; Off does not")
	set.StringVar(&m.Force, "maintenance-force", m.Force, "whether NodeMaintenances may ask for pods to be deleted past their budgets: On or Off")
	set.StringVar(&m.OutOfService, "maintenance-out-of-service", m.OutOfService,
		"whether NodeMaintenances may ask for the taint node.kubernetes.io/out-of-service: On or Off")
}

func bindUpgrade(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	set.StringVar(&c.Upgrade.NodeVersion, "upgrade-node-version", c.Upgrade.NodeVersion,
		"where the version of a node is read: Auto, Label or MachineConfig")
	set.StringSliceVar(&c.Upgrade.Namespaces, "upgrade-namespaces", c.Upgrade.Namespaces,
		"namespaces whose MutexRunConfigs, MutexTargets and MutexRules count (default all)")
}

func bindMachines(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Machines
	set.IntVar(m.Workers, "machines-workers", *m.Workers, "Machines made, watched and removed at once")
	set.IntVar(m.Parallel, "machines-parallel", *m.Parallel, "requests of one MachineSet under way at once")
	set.DurationVar(&m.InstanceCheck.Duration, "machines-instance-check", m.InstanceCheck.Duration,
		"how often the instance of a Machine that runs is looked at")
	set.DurationVar(&m.NodeDrainTimeout.Duration, "machines-node-drain-timeout", m.NodeDrainTimeout.Duration,
		"how long after its deletion a Machine is drained at most, 0 for without end")
	set.DurationVar(&m.VolumeDetachTimeout.Duration, "machines-volume-detach-timeout", m.VolumeDetachTimeout.Duration,
		"how long volumes may take to be detached when the pods have gone, 0 for not waiting")
	set.DurationVar(&m.NodeDeletionTimeout.Duration, "machines-node-deletion-timeout", m.NodeDeletionTimeout.Duration,
		"how long the deletion of a deleted Machine's Node is tried after it has failed once, 0 for without end")
	set.StringSliceVar(&m.AdoptionNamespaces, "machines-adoption-namespaces", m.AdoptionNamespaces,
		"namespaces whose Machines may take over Nodes that existed before them, "+
			"* for all (default that of --namespace, or "+DefaultNamespace+")")
	set.StringSliceVar(&m.Providers, "providers", m.Providers,
		`providers that serve Machines: "*" for all but those for tests (kwok, kubemark), "name" `+
			`for one, "*,-name" for all but one; a list without "*" turns on only what it names`)
	set.BoolVar(m.ReplaceFailed, "machines-replace-failed", *m.ReplaceFailed, "delete Failed Machines of MachineSets, so that they are made anew")
}

func bindLeaderElection(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	e := &c.LeaderElection
	set.BoolVar(e.Enabled, "leader-elect", *e.Enabled, "let one of several replicas work while the others stand by")
	set.StringVar(&e.Namespace, "leader-elect-namespace", e.Namespace, "namespace of the lease (default the Pod's own)")
	set.StringVar(&e.Name, "leader-elect-name", e.Name, "name of the lease")
	set.DurationVar(&e.LeaseDuration.Duration, "leader-elect-lease-duration", e.LeaseDuration.Duration, "how long a silent leader keeps the lease")
	set.DurationVar(&e.RenewDeadline.Duration, "leader-elect-renew-deadline", e.RenewDeadline.Duration,
		"how long a leader tries to renew before it gives up")
	set.DurationVar(&e.RetryPeriod.Duration, "leader-elect-retry-period", e.RetryPeriod.Duration, "time between two tries")
}

func bindServing(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Metrics
	set.StringVar(m.BindAddress, "metrics-bind-address", *m.BindAddress, `address of /metrics, "0" for none`)
	set.BoolVar(m.Secure, "metrics-secure", *m.Secure, "serve /metrics by TLS to callers that may get it")
	set.BoolVar(m.HTTP2, "metrics-http2", *m.HTTP2, "let callers of /metrics use HTTP/2")
	set.StringVar(&m.CertDir, "metrics-cert-dir", m.CertDir,
		"folder with tls.crt and tls.key for /metrics (default a certificate made at each start)")
	set.StringVar(c.Health.BindAddress, "health-probe-bind-address", *c.Health.BindAddress, `address of /healthz and /readyz, "0" for none`)
	set.StringVar(&c.Log.Format, "log-format", c.Log.Format, "json or text")
	set.IntVarP(c.Log.Verbosity, "v", "v", *c.Log.Verbosity, "verbosity of the log: 1 each write, 4 debugging, at most 7")
}

func bindWebhook(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	w := &c.Webhook
	set.StringVar(w.BindAddress, "webhook-bind-address", *w.BindAddress, `address of the admission webhook, "0" for none`)
	set.BoolVar(w.HTTP2, "webhook-http2", *w.HTTP2, "let the API server use HTTP/2")
	set.StringVar(&w.Certificates, "webhook-certificates", w.Certificates,
		"Managed makes and renews the webhook's certificate, Files takes one that another program issues")
	set.StringVar(&w.CertDir, "webhook-cert-dir", w.CertDir,
		"folder with tls.crt and tls.key for Files (default that of the Operator Lifecycle Manager)")
	set.StringVar(&w.SecretName, "webhook-secret-name", w.SecretName, "Secret in which replicas share a managed certificate")
	set.StringVar(&w.ServiceName, "webhook-service-name", w.ServiceName, "Service by which the API server calls the webhook")
	set.StringSliceVar(&w.ExtraNames, "webhook-extra-names", w.ExtraNames, "more names and addresses for a managed certificate")
	set.StringVar(&w.ValidatingConfigurationName, "webhook-validating-configuration-name", w.ValidatingConfigurationName,
		"ValidatingWebhookConfiguration whose caBundle gets a managed certificate")
}

// Resolve reads the file if one is named, puts the flags that were given over it and validates the result.
func (f *Flags) Resolve(known []string) (*v1alpha1.DroverConfiguration, error) {
	config := Default()
	if f.File != "" {
		loaded, err := Load(f.File)
		if err != nil {
			return nil, err
		}
		config = loaded
	}
	over := pflag.NewFlagSet("", pflag.ContinueOnError)
	bind(over, config)
	var errs []error
	f.set.Visit(func(given *pflag.Flag) {
		if flag := over.Lookup(given.Name); flag != nil {
			errs = append(errs, assign(flag.Value, given.Value))
		}
	})
	return config, errors.Join(append(errs, Validate(config, known).ToAggregate())...)
}

// assign gives a flag the value of another one of its type.
func assign(to, from pflag.Value) error {
	list, ok := to.(pflag.SliceValue)
	given, isList := from.(pflag.SliceValue)
	if ok && isList {
		return list.Replace(given.GetSlice())
	}
	return to.Set(from.String())
}
