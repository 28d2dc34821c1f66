package config

import (
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"github.com/drover-io/drover/api/config/v1alpha1"
)

// Flags are the command line's part of the configuration.
type Flags struct {
	// File is the configuration file, empty for none.
	File string
	set  *pflag.FlagSet
	// assign copies the value of a flag that was given into a configuration.
	assign map[string]func(*v1alpha1.DroverConfiguration)
}

// AddFlags defines the flags. Their defaults are those of the configuration.
func AddFlags(set *pflag.FlagSet) *Flags {
	f := &Flags{set: set, assign: map[string]func(*v1alpha1.DroverConfiguration){}}
	d := Default()
	set.StringVar(&f.File, "config", "", "configuration file (config.drover.dev/v1alpha1); flags go over it")
	controllers := set.StringSlice("controllers", d.Controllers, `capabilities to run: "*" for all, "name" for one, "*,-name" for all but one; `+
		`a list without "*" turns on only what it names`)
	f.assign["controllers"] = func(c *v1alpha1.DroverConfiguration) { c.Controllers = *controllers }
	f.addMachineFlags(d)
	f.addDrainFlags(d)
	f.addElectionFlags(d)
	f.addProviderFlags(d)
	f.addUpgradeFlags(d)
	f.addServingFlags(d)
	f.addWebhookFlags(d)
	return f
}

func (f *Flags) addMachineFlags(d *v1alpha1.DroverConfiguration) {
	f.text("namespace", *d.Namespace, `namespace of MachineSets and Machines; "" for all`,
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Namespace = v })
	f.number("metadata-workers", *d.Metadata.Workers, "Machines worked on at once",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Metadata.Workers = v })
	f.rate("metadata-writes-per-second", *d.Metadata.WritesPerSecond, "Nodes written per second at most, 0 for no bound",
		func(c *v1alpha1.DroverConfiguration, v *float64) { c.Metadata.WritesPerSecond = v })
	f.number("metadata-writes-burst", *d.Metadata.WritesBurst, "Nodes that may be written at once after a pause",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Metadata.WritesBurst = v })
}

func (f *Flags) addDrainFlags(d *v1alpha1.DroverConfiguration) {
	f.rate("drain-requests-per-second", *d.Drain.RequestsPerSecond, "evictions and deletions of pods per second at most, 0 for no bound",
		func(c *v1alpha1.DroverConfiguration, v *float64) { c.Drain.RequestsPerSecond = v })
	f.number("drain-burst", *d.Drain.Burst, "evictions and deletions that may be made at once after a pause",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Drain.Burst = v })
	f.number("drain-workers", *d.Drain.Workers, "evictions and deletions under way at once",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Drain.Workers = v })
	f.number("maintenance-workers", *d.Maintenance.Workers, "NodeMaintenances looked at at once",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Maintenance.Workers = v })
	f.text("maintenance-out-of-band-uncordon", d.Maintenance.OutOfBandUncordon, "when another writer uncordons a node in maintenance: Repair or Report",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Maintenance.OutOfBandUncordon = *v })
	f.time("maintenance-lease-loss-timeout", d.Maintenance.LeaseLossTimeout.Duration,
		"how long the lease of a node that is not drained yet may have another holder before the node is given back",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.Maintenance.LeaseLossTimeout = duration(v) })
	f.text("maintenance-control-plane-guard", d.Maintenance.ControlPlaneGuard,
		"Auto makes NodeMaintenances, deletions of Machines and remediation wait until the control plane can spare the node; Off does not",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Maintenance.ControlPlaneGuard = *v })
	f.text("maintenance-force", d.Maintenance.Force, "whether NodeMaintenances may ask for pods to be deleted past their budgets: On or Off",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Maintenance.Force = *v })
	f.text("maintenance-out-of-service", d.Maintenance.OutOfService,
		"whether NodeMaintenances may ask for the taint node.kubernetes.io/out-of-service: On or Off",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Maintenance.OutOfService = *v })
}

func (f *Flags) addUpgradeFlags(d *v1alpha1.DroverConfiguration) {
	f.text("upgrade-node-version", d.Upgrade.NodeVersion, "where the version of a node is read: Auto, Label or MachineConfig",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Upgrade.NodeVersion = *v })
	namespaces := f.set.StringSlice("upgrade-namespaces", nil, "namespaces whose MutexRunConfigs, MutexTargets and MutexRules count (default all)")
	f.assign["upgrade-namespaces"] = func(c *v1alpha1.DroverConfiguration) { c.Upgrade.Namespaces = *namespaces }
}

func (f *Flags) addProviderFlags(d *v1alpha1.DroverConfiguration) {
	m := d.Machines
	f.number("machines-workers", *m.Workers, "Machines made, watched and removed at once",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Machines.Workers = v })
	f.number("machines-parallel", *m.Parallel, "requests of one MachineSet under way at once",
		func(c *v1alpha1.DroverConfiguration, v *int) { c.Machines.Parallel = v })
	f.time("machines-instance-check", m.InstanceCheck.Duration, "how often the instance of a Machine that runs is looked at",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.Machines.InstanceCheck = duration(v) })
	f.time("machines-node-drain-timeout", m.NodeDrainTimeout.Duration, "how long after its deletion a Machine is drained at most, 0 for without end",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.Machines.NodeDrainTimeout = duration(v) })
	f.time("machines-volume-detach-timeout", m.VolumeDetachTimeout.Duration,
		"how long volumes may take to be detached when the pods have gone, 0 for not waiting",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.Machines.VolumeDetachTimeout = duration(v) })
	f.time("machines-node-deletion-timeout", m.NodeDeletionTimeout.Duration,
		"how long the deletion of a deleted Machine's Node is tried after it has failed once, 0 for without end",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.Machines.NodeDeletionTimeout = duration(v) })
	adoption := f.set.StringSlice("machines-adoption-namespaces", nil, fmt.Sprintf("namespaces whose Machines may take over Nodes that existed "+
		"before them, * for all (default that of --namespace, or %s)", DefaultNamespace))
	f.assign["machines-adoption-namespaces"] = func(c *v1alpha1.DroverConfiguration) { c.Machines.AdoptionNamespaces = *adoption }
	providers := f.set.StringSlice("providers", m.Providers, `providers that serve Machines: "*" for all but those for tests (kwok, kubemark), "name" `+
		`for one, "*,-name" for all but one; a list without "*" turns on only what it names`)
	f.assign["providers"] = func(c *v1alpha1.DroverConfiguration) { c.Machines.Providers = *providers }
	f.toggle("machines-replace-failed", *m.ReplaceFailed, "delete Failed Machines of MachineSets, so that they are made anew",
		func(c *v1alpha1.DroverConfiguration, v *bool) { c.Machines.ReplaceFailed = v })
}

func (f *Flags) addElectionFlags(d *v1alpha1.DroverConfiguration) {
	e := d.LeaderElection
	f.toggle("leader-elect", *e.Enabled, "let one of several replicas work while the others stand by",
		func(c *v1alpha1.DroverConfiguration, v *bool) { c.LeaderElection.Enabled = v })
	f.text("leader-elect-namespace", "", "namespace of the lease (default the Pod's own)",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.LeaderElection.Namespace = *v })
	f.text("leader-elect-name", e.Name, "name of the lease", func(c *v1alpha1.DroverConfiguration, v *string) { c.LeaderElection.Name = *v })
	f.time("leader-elect-lease-duration", e.LeaseDuration.Duration, "how long a silent leader keeps the lease",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.LeaderElection.LeaseDuration = duration(v) })
	f.time("leader-elect-renew-deadline", e.RenewDeadline.Duration, "how long a leader tries to renew before it gives up",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.LeaderElection.RenewDeadline = duration(v) })
	f.time("leader-elect-retry-period", e.RetryPeriod.Duration, "time between two tries",
		func(c *v1alpha1.DroverConfiguration, v time.Duration) { c.LeaderElection.RetryPeriod = duration(v) })
}

func (f *Flags) addServingFlags(d *v1alpha1.DroverConfiguration) {
	f.text("metrics-bind-address", *d.Metrics.BindAddress, `address of /metrics, "0" for none`,
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Metrics.BindAddress = v })
	f.toggle("metrics-secure", *d.Metrics.Secure, "serve /metrics by TLS to callers that may get it",
		func(c *v1alpha1.DroverConfiguration, v *bool) { c.Metrics.Secure = v })
	f.toggle("metrics-http2", *d.Metrics.HTTP2, "let callers of /metrics use HTTP/2",
		func(c *v1alpha1.DroverConfiguration, v *bool) { c.Metrics.HTTP2 = v })
	f.text("metrics-cert-dir", "", "folder with tls.crt and tls.key for /metrics (default a certificate made at each start)",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Metrics.CertDir = *v })
	f.text("health-probe-bind-address", *d.Health.BindAddress, `address of /healthz and /readyz, "0" for none`,
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Health.BindAddress = v })
	f.text("log-format", d.Log.Format, "json or text", func(c *v1alpha1.DroverConfiguration, v *string) { c.Log.Format = *v })
	verbosity := f.set.IntP("v", "v", *d.Log.Verbosity, "verbosity of the log: 1 each write, 4 debugging, at most 7")
	f.assign["v"] = func(c *v1alpha1.DroverConfiguration) { c.Log.Verbosity = verbosity }
}

func (f *Flags) addWebhookFlags(d *v1alpha1.DroverConfiguration) {
	w := d.Webhook
	f.text("webhook-bind-address", *w.BindAddress, `address of the admission webhook, "0" for none`,
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.BindAddress = v })
	f.toggle("webhook-http2", *w.HTTP2, "let the API server use HTTP/2", func(c *v1alpha1.DroverConfiguration, v *bool) { c.Webhook.HTTP2 = v })
	f.text("webhook-certificates", w.Certificates, "Managed makes and renews the webhook's certificate, Files takes one that another program issues",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.Certificates = *v })
	f.text("webhook-cert-dir", w.CertDir, "folder with tls.crt and tls.key for Files (default that of the Operator Lifecycle Manager)",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.CertDir = *v })
	f.text("webhook-secret-name", w.SecretName, "Secret in which replicas share a managed certificate",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.SecretName = *v })
	f.text("webhook-service-name", w.ServiceName, "Service by which the API server calls the webhook",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.ServiceName = *v })
	names := f.set.StringSlice("webhook-extra-names", w.ExtraNames, "more names and addresses for a managed certificate")
	f.assign["webhook-extra-names"] = func(c *v1alpha1.DroverConfiguration) { c.Webhook.ExtraNames = *names }
	f.text("webhook-validating-configuration-name", w.ValidatingConfigurationName,
		"ValidatingWebhookConfiguration that gets the authority of a managed certificate",
		func(c *v1alpha1.DroverConfiguration, v *string) { c.Webhook.ValidatingConfigurationName = *v })
}

func (f *Flags) text(name, value, usage string, assign func(*v1alpha1.DroverConfiguration, *string)) {
	given := f.set.String(name, value, usage)
	f.assign[name] = func(c *v1alpha1.DroverConfiguration) { assign(c, given) }
}

func (f *Flags) number(name string, value int, usage string, assign func(*v1alpha1.DroverConfiguration, *int)) {
	given := f.set.Int(name, value, usage)
	f.assign[name] = func(c *v1alpha1.DroverConfiguration) { assign(c, given) }
}

func (f *Flags) rate(name string, value float64, usage string, assign func(*v1alpha1.DroverConfiguration, *float64)) {
	given := f.set.Float64(name, value, usage)
	f.assign[name] = func(c *v1alpha1.DroverConfiguration) { assign(c, given) }
}

func (f *Flags) toggle(name string, value bool, usage string, assign func(*v1alpha1.DroverConfiguration, *bool)) {
	given := f.set.Bool(name, value, usage)
	f.assign[name] = func(c *v1alpha1.DroverConfiguration) { assign(c, given) }
}

func (f *Flags) time(name string, value time.Duration, usage string, assign func(*v1alpha1.DroverConfiguration, time.Duration)) {
	given := f.set.Duration(name, value, usage)
	f.assign[name] = func(c *v1alpha1.DroverConfiguration) { assign(c, *given) }
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
	f.set.Visit(func(flag *pflag.Flag) {
		if assign := f.assign[flag.Name]; assign != nil {
			assign(config)
		}
	})
	return config, Validate(config, known).ToAggregate()
}
