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

// AddFlags defines the flags. Settings that are seldom changed are fields of the file only. The defaults come from the default configuration.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set}
	set.StringVar(&f.File, "config", "", "configuration file (config.drover.dev/v1alpha1); flags override it")
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
	set.IntVar(m.Workers, "metadata-workers", *m.Workers, "Machines reconciled at the same time")
	set.Float64Var(m.WritesPerSecond, "metadata-writes-per-second", *m.WritesPerSecond, "Nodes written per second at most; 0 means no limit")
	set.IntVar(m.WritesBurst, "metadata-writes-burst", *m.WritesBurst, "Nodes that may be written without delay after a pause")
}

func bindMaintenance(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Maintenance
	d := &c.Drain
	set.IntVar(d.Workers, "drain-workers", *d.Workers, "evictions and deletions in progress at the same time")
	set.IntVar(m.Workers, "maintenance-workers", *m.Workers, "NodeMaintenances reconciled at the same time")
	set.StringVar(&m.OutOfBandUncordon, "maintenance-out-of-band-uncordon", m.OutOfBandUncordon,
		"what to do when another writer uncordons a node in maintenance: Repair or Report")
	set.DurationVar(&m.LeaseLossTimeout.Duration, "maintenance-lease-loss-timeout", m.LeaseLossTimeout.Duration,
		"how long another holder may have the lease of a node that is not drained yet, before Drover restores the node")
	set.StringVar(&m.ControlPlaneGuard, "maintenance-control-plane-guard", m.ControlPlaneGuard,
		"Auto makes NodeMaintenances, deletions of Machines and remediation wait until the control plane can spare the node; Off does not")
	set.StringVar(&m.Force, "maintenance-force", m.Force,
		"whether NodeMaintenances may request the deletion of Pods in spite of their budgets: On or Off")
	set.StringVar(&m.OutOfService, "maintenance-out-of-service", m.OutOfService,
		"whether NodeMaintenances may request the taint node.kubernetes.io/out-of-service: On or Off")
}

func bindUpgrade(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	set.StringVar(&c.Upgrade.NodeVersion, "upgrade-node-version", c.Upgrade.NodeVersion,
		"where Drover reads the version of a node: Auto, Label or MachineConfig")
	set.StringSliceVar(&c.Upgrade.Namespaces, "upgrade-namespaces", c.Upgrade.Namespaces,
		"namespaces whose MutexRunConfigs, MutexTargets and MutexRules have an effect (default all)")
}

func bindMachines(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Machines
	set.IntVar(m.Workers, "machines-workers", *m.Workers, "Machines reconciled at the same time")
	set.IntVar(m.Parallel, "machines-parallel", *m.Parallel, "requests of one MachineSet in progress at the same time")
	set.DurationVar(&m.InstanceCheck.Duration, "machines-instance-check", m.InstanceCheck.Duration,
		"how often Drover checks the instance of a running Machine")
	set.StringSliceVar(&m.AdoptionNamespaces, "machines-adoption-namespaces", m.AdoptionNamespaces,
		"namespaces whose Machines may take over Nodes that existed before them, "+
			"* for all (default that of --namespace, or "+DefaultNamespace+")")
	set.StringSliceVar(&m.Providers, "providers", m.Providers,
		`providers that serve Machines: "*" for all but kwok, kubemark and vsphere, which have to be named, "name" `+
			`for one, "*,-name" for all but one; a list without "*" turns on only what it names`)
	set.BoolVar(m.ReplaceFailed, "machines-replace-failed", *m.ReplaceFailed, "delete Failed Machines of MachineSets, so that they are replaced")
	set.StringSliceVar(&m.Remediation.TemplateKinds, "machines-remediation-template-kinds", m.Remediation.TemplateKinds,
		"kinds that spec.remediationTemplate of a MachineHealthCheck may name, each written Kind.group")
}

func bindLeaderElection(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	e := &c.LeaderElection
	set.BoolVar(e.Enabled, "leader-elect", *e.Enabled, "elect a leader; the other replicas stand by")
	set.StringVar(&e.Namespace, "leader-elect-namespace", e.Namespace, "namespace of the lease (default the namespace of the Pod)")
	set.DurationVar(&e.LeaseDuration.Duration, "leader-elect-lease-duration", e.LeaseDuration.Duration,
		"how long the other replicas wait for a leader that does not renew the lease")
	set.DurationVar(&e.RenewDeadline.Duration, "leader-elect-renew-deadline", e.RenewDeadline.Duration,
		"how long a leader tries to renew the lease before its process ends")
	set.DurationVar(&e.RetryPeriod.Duration, "leader-elect-retry-period", e.RetryPeriod.Duration,
		"time between two renewals of the lease; the other replicas look four times as often whether it is free")
}

func bindServing(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	m := &c.Metrics
	set.StringVar(m.BindAddress, "metrics-bind-address", *m.BindAddress, `address of /metrics, "0" for none`)
	set.StringVar(c.Health.BindAddress, "health-probe-bind-address", *c.Health.BindAddress, `address of /healthz and /readyz, "0" for none`)
	set.IntVarP(c.Log.Verbosity, "v", "v", *c.Log.Verbosity, "verbosity of the log: 1 logs each write, 4 is for debugging, 7 is the maximum")
}

func bindWebhook(set *pflag.FlagSet, c *v1alpha1.DroverConfiguration) {
	w := &c.Webhook
	set.StringVar(w.BindAddress, "webhook-bind-address", *w.BindAddress, `address of the admission webhook, "0" for none`)
	set.StringVar(&w.Certificates, "webhook-certificates", w.Certificates,
		"Managed: Drover creates and renews the webhook's certificate; Files: another program issues it")
	set.StringVar(&w.CertDir, "webhook-cert-dir", w.CertDir,
		"folder with tls.crt and tls.key for Files (default the folder of the Operator Lifecycle Manager)")
	set.StringSliceVar(&w.ExtraNames, "webhook-extra-names", w.ExtraNames, "additional names and addresses in a managed certificate")
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
