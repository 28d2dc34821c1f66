package config

import (
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/bounded"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/internal/status"
)

// Validate checks a configuration that Default, Load and flags made. Each error names the field by its path in the file. Known are
// the names of the capabilities.
func Validate(c *v1alpha1.DroverConfiguration, known []string) field.ErrorList {
	all := validateControllers(field.NewPath("controllers"), c.Controllers, known)
	if *c.Namespace != "" {
		all = append(all, messages(field.NewPath("namespace"), *c.Namespace, validation.IsDNS1123Label(*c.Namespace))...)
	}
	all = append(all, validateElection(field.NewPath("leaderElection"), c.LeaderElection)...)
	all = append(all, validateAddress(field.NewPath("metrics", "bindAddress"), *c.Metrics.BindAddress)...)
	all = append(all, validateAddress(field.NewPath("health", "bindAddress"), *c.Health.BindAddress)...)
	all = append(all, validateOneOf(field.NewPath("log", "format"), c.Log.Format, "json", "text")...)
	if v := *c.Log.Verbosity; v < 0 || v > MaxVerbosity {
		all = append(all, field.Invalid(field.NewPath("log", "verbosity"), v,
			fmt.Sprintf("must be from 0 to %d: beyond that requests and answers are logged whole, with tokens and keys", MaxVerbosity)))
	}
	all = append(all, validateMetadata(field.NewPath("metadata"), c.Metadata)...)
	all = append(all, validateDrain(field.NewPath("drain"), c.Drain)...)
	all = append(all, validateMaintenance(field.NewPath("maintenance"), c.Maintenance)...)
	all = append(all, validateMachines(field.NewPath("machines"), c.Machines)...)
	all = append(all, validateRollout(field.NewPath("nodeGroups", "rollout"), c.NodeGroups.Rollout)...)
	all = append(all, validateMachineSetRollout(field.NewPath("metadata", "rollout"), c)...)
	all = append(all, validateOneOf(field.NewPath("upgrade", "nodeVersion"), c.Upgrade.NodeVersion, "Auto", "Label", "MachineConfig")...)
	for i, namespace := range c.Upgrade.Namespaces {
		all = append(all, messages(field.NewPath("upgrade", "namespaces").Index(i), namespace, validation.IsDNS1123Label(namespace))...)
	}
	return append(all, validateWebhook(field.NewPath("webhook"), c.Webhook)...)
}

func validateControllers(path *field.Path, controllers, known []string) field.ErrorList {
	var all field.ErrorList
	if len(controllers) == 0 {
		all = append(all, field.Required(path, `name at least one capability, or "*" for all`))
	}
	for i, name := range controllers {
		if name != "*" && !slices.Contains(known, strings.TrimPrefix(name, "-")) {
			all = append(all, field.NotSupported(path.Index(i), name, append([]string{"*"}, known...)))
		}
	}
	return all
}

// Enabled reports whether a capability is picked: the first entry that names it counts, then "*".
func Enabled(controllers []string, name string) bool {
	all := false
	for _, entry := range controllers {
		switch entry {
		case name:
			return true
		case "-" + name:
			return false
		case "*":
			all = true
		}
	}
	return all
}

func validateElection(path *field.Path, e v1alpha1.LeaderElection) field.ErrorList {
	if !*e.Enabled {
		return nil
	}
	all := messages(path.Child("name"), e.Name, validation.IsDNS1123Subdomain(e.Name))
	if e.Namespace != "" {
		all = append(all, messages(path.Child("namespace"), e.Namespace, validation.IsDNS1123Label(e.Namespace))...)
	}
	if e.RetryPeriod.Duration <= 0 {
		all = append(all, field.Invalid(path.Child("retryPeriod"), e.RetryPeriod.Duration.String(), "must be more than 0"))
	}
	// client-go adds up to 20% to the retry period.
	if e.RenewDeadline.Duration <= e.RetryPeriod.Duration*12/10 {
		all = append(all, field.Invalid(path.Child("renewDeadline"), e.RenewDeadline.Duration.String(), "must be more than 1.2 times retryPeriod"))
	}
	if e.LeaseDuration.Duration <= e.RenewDeadline.Duration {
		all = append(all, field.Invalid(path.Child("leaseDuration"), e.LeaseDuration.Duration.String(), "must be more than renewDeadline"))
	}
	return all
}

func validateAddress(path *field.Path, address string) field.ErrorList {
	if address == "0" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, `must be host:port, :port, or "0" for none`)}
	}
	return nil
}

func validateOneOf(path *field.Path, value string, known ...string) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func validateWorkers(path *field.Path, workers int) field.ErrorList {
	if workers < 1 || workers > 1000 {
		return field.ErrorList{field.Invalid(path, workers, "must be from 1 to 1000")}
	}
	return nil
}

func validateRate(rate *field.Path, perSecond float64, burst *field.Path, atOnce int) field.ErrorList {
	var all field.ErrorList
	if perSecond < 0 {
		all = append(all, field.Invalid(rate, perSecond, "must be 0 (no limit) or more"))
	}
	if atOnce < 1 {
		all = append(all, field.Invalid(burst, atOnce, "must be 1 or more"))
	}
	return all
}

func validateDrain(path *field.Path, d v1alpha1.Drain) field.ErrorList {
	return append(validateWorkers(path.Child("workers"), *d.Workers),
		validateRate(path.Child("requestsPerSecond"), *d.RequestsPerSecond, path.Child("burst"), *d.Burst)...)
}

func validateMaintenance(path *field.Path, m v1alpha1.Maintenance) field.ErrorList {
	all := validateWorkers(path.Child("workers"), *m.Workers)
	all = append(all, validateOneOf(path.Child("outOfBandUncordon"), m.OutOfBandUncordon, "Repair", "Report")...)
	all = append(all, validateOneOf(path.Child("controlPlaneGuard"), m.ControlPlaneGuard, "Auto", Off)...)
	all = append(all, validateOneOf(path.Child("force"), m.Force, On, Off)...)
	all = append(all, validateOneOf(path.Child("outOfService"), m.OutOfService, On, Off)...)
	if m.LeaseLossTimeout.Duration <= 0 {
		all = append(all, field.Invalid(path.Child("leaseLossTimeout"), m.LeaseLossTimeout.Duration.String(), "must be more than 0"))
	}
	return all
}

func validateMachines(path *field.Path, m v1alpha1.Machines) field.ErrorList {
	all := append(validateWorkers(path.Child("workers"), *m.Workers), validateWorkers(path.Child("parallel"), *m.Parallel)...)
	for _, setting := range []struct {
		name  string
		value *metav1.Duration
	}{
		{"instanceCheck", m.InstanceCheck}, {"nodeDrainTimeout", m.NodeDrainTimeout}, {"volumeDetachTimeout", m.VolumeDetachTimeout},
		{"nodeDeletionTimeout", m.NodeDeletionTimeout}, {"remediation.minInterval", m.Remediation.MinInterval},
	} {
		if setting.value.Duration < 0 {
			all = append(all, field.Invalid(path.Child(setting.name), setting.value.Duration.String(), "must be 0 or more"))
		}
	}
	if limit := m.Remediation.MaxInFlight; limit != nil {
		if _, err := bounded.Scaled(*limit, 1); err != nil {
			all = append(all, field.Invalid(path.Child("remediation", "maxInFlight"), limit.String(), "must be a number of at least 0 or a percentage"))
		}
	}
	all = append(all, validatePatterns(path.Child("remediation", "templateKinds"), m.Remediation.TemplateKinds, plan.ValidateTemplateKind)...)
	for i, namespace := range m.AdoptionNamespaces {
		if namespace != "*" {
			all = append(all, messages(path.Child("adoptionNamespaces").Index(i), namespace, validation.IsDNS1123Label(namespace))...)
		}
	}
	return all
}

func validateWebhook(path *field.Path, w v1alpha1.Webhook) field.ErrorList {
	all := validateAddress(path.Child("bindAddress"), *w.BindAddress)
	if len(all) == 0 && *w.BindAddress != "0" {
		_, port, _ := net.SplitHostPort(*w.BindAddress)
		if number, err := strconv.ParseUint(port, 10, 16); err != nil || number == 0 {
			all = append(all, field.Invalid(path.Child("bindAddress"), *w.BindAddress, "the port must be a number from 1 to 65535"))
		}
	}
	all = append(all, validateOneOf(path.Child("certificates"), w.Certificates, CertificatesManaged, CertificatesFiles)...)
	for _, named := range []struct{ child, value string }{
		{"secretName", w.SecretName}, {"serviceName", w.ServiceName}, {"validatingConfigurationName", w.ValidatingConfigurationName},
	} {
		all = append(all, messages(path.Child(named.child), named.value, validation.IsDNS1123Subdomain(named.value))...)
	}
	for i, name := range w.ExtraNames {
		if net.ParseIP(name) == nil {
			all = append(all, messages(path.Child("extraNames").Index(i), name, validation.IsDNS1123Subdomain(name))...)
		}
	}
	return all
}

func validateMetadata(path *field.Path, m v1alpha1.Metadata) field.ErrorList {
	all := append(validateWorkers(path.Child("workers"), *m.Workers),
		validateRate(path.Child("writesPerSecond"), *m.WritesPerSecond, path.Child("writesBurst"), *m.WritesBurst)...)
	for _, kind := range []struct {
		name           string
		kind           ownership.Kind
		added, removed []string
	}{
		{"labels", ownership.Label, m.Protected.Labels, m.Unprotected.Labels},
		{"annotations", ownership.Annotation, m.Protected.Annotations, m.Unprotected.Annotations},
		{"taints", ownership.Taint, m.Protected.Taints, m.Unprotected.Taints},
	} {
		all = append(all, validatePatterns(path.Child("protected", kind.name), kind.added, ownership.ValidatePattern)...)
		all = append(all, validatePatterns(path.Child("unprotected", kind.name), kind.removed, func(pattern string) error {
			return ownership.ValidateRemoved(kind.kind, pattern)
		})...)
	}
	return all
}

func validatePatterns(path *field.Path, patterns []string, validate func(string) error) field.ErrorList {
	var all field.ErrorList
	for i, pattern := range patterns {
		if err := validate(pattern); err != nil {
			all = append(all, field.Invalid(path.Index(i), pattern, err.Error()))
		}
	}
	return all
}

func messages(path *field.Path, value string, faults []string) field.ErrorList {
	if len(faults) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value, status.Faults(faults))}
}
