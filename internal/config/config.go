// Package config reads Drover's settings: defaults, then the configuration file, then flags, and checks the result.
package config

import (
	"cmp"
	encoding "encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// MaxVerbosity is the highest level of the log. From level 8 on, client-go logs the bodies of requests and answers (rest/request.go), among them
// Secrets, and the tokens of those who read /metrics.
const MaxVerbosity = 7

// DefaultNamespace is where OpenShift keeps MachineSets and Machines.
const DefaultNamespace = "openshift-machine-api"

// What a switch is.
const (
	On  = "On"
	Off = "Off"
)

// Where the webhook's certificate is from.
const (
	CertificatesManaged = "Managed"
	CertificatesFiles   = "Files"
)

// Default returns the configuration with every default filled in. A new one each time, so that it may be changed.
func Default() *v1alpha1.DroverConfiguration {
	return &v1alpha1.DroverConfiguration{
		TypeMeta:    metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind},
		Controllers: []string{"*"},
		Namespace:   new(DefaultNamespace),
		LeaderElection: v1alpha1.LeaderElection{
			Enabled: new(true), Name: "drover",
			LeaseDuration: duration(15 * time.Second), RenewDeadline: duration(10 * time.Second), RetryPeriod: duration(2 * time.Second),
		},
		Metrics:  v1alpha1.Metrics{BindAddress: new(":8443"), Secure: new(true), HTTP2: new(false)},
		Health:   v1alpha1.Health{BindAddress: new(":8081")},
		Log:      v1alpha1.Log{Format: "json", Verbosity: new(0)},
		Metadata: v1alpha1.Metadata{Workers: new(32), WritesPerSecond: new(100.0), WritesBurst: new(100)},
		Drain:    v1alpha1.Drain{RequestsPerSecond: new(100.0), Burst: new(200), Workers: new(32)},
		Maintenance: v1alpha1.Maintenance{
			Workers: new(16), OutOfBandUncordon: "Repair", LeaseLossTimeout: duration(5 * time.Minute), ControlPlaneGuard: "Auto",
			Force: On, OutOfService: On,
		},
		Machines: v1alpha1.Machines{
			Workers: new(100), Parallel: new(50), InstanceCheck: duration(10 * time.Minute), NodeDrainTimeout: duration(0),
			VolumeDetachTimeout: duration(5 * time.Minute), NodeDeletionTimeout: duration(0), ReplaceFailed: new(false), Providers: []string{"*"},
			Remediation: v1alpha1.Remediation{MinInterval: duration(0), TemplateKinds: plan.DefaultTemplateKinds()},
		},
		Upgrade: v1alpha1.Upgrade{NodeVersion: "Auto"},
		Webhook: v1alpha1.Webhook{ //nolint:gosec // it is the Secret's name, not what is in it
			BindAddress: new(":9443"), HTTP2: new(false), Certificates: CertificatesManaged, SecretName: "drover-webhook",
			ServiceName: "drover-webhook", ValidatingConfigurationName: "drover",
		},
	}
}

func duration(d time.Duration) *metav1.Duration { return &metav1.Duration{Duration: d} }

// Load reads a configuration file over the defaults. Unknown and repeated fields are errors, so that a typo is not a silent default.
// The result is not validated yet: flags override it first.
func Load(path string) (*v1alpha1.DroverConfiguration, error) {
	text, err := os.ReadFile(path) // #nosec G304 -- the path is the user's own --config
	if err != nil {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	config, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("configuration %s: %w", path, err)
	}
	return config, nil
}

// Parse is Load for text.
func Parse(text []byte) (*v1alpha1.DroverConfiguration, error) {
	config := Default()
	config.TypeMeta = metav1.TypeMeta{}
	// Lists in the file replace the default, not lengthen it.
	config.Controllers = nil
	if err := decodeStrictly(text, config); err != nil {
		return nil, err
	}
	if config.APIVersion != v1alpha1.APIVersion || config.Kind != v1alpha1.Kind {
		return nil, fmt.Errorf("apiVersion: %q, kind: %q: this version reads apiVersion %s, kind %s",
			config.APIVersion, config.Kind, v1alpha1.APIVersion, v1alpha1.Kind)
	}
	if config.Controllers == nil {
		config.Controllers = Default().Controllers
	}
	completeRollout(config.NodeGroups.Rollout)
	return config, nulls(nil, reflect.ValueOf(*config), reflect.ValueOf(*Default())).ToAggregate()
}

// decodeStrictly takes names as they are written in the documentation only. The decoder of the YAML package would take them in any
// case, so that `Namespace` beside `namespace` would count, or not, without a word.
func decodeStrictly(text []byte, config *v1alpha1.DroverConfiguration) error {
	converted, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return err
	}
	if converted, err = spellSwitches(converted); err != nil {
		return err
	}
	strict, err := json.UnmarshalStrict(converted, config)
	if err != nil {
		return err
	}
	return errors.Join(strict...)
}

// spellSwitches puts back the words On and Off, which YAML takes for true and false unless they are quoted.
func spellSwitches(text []byte) ([]byte, error) {
	var file map[string]any
	if err := json.UnmarshalCaseSensitivePreserveInts(text, &file); err != nil {
		return nil, err
	}
	section, _ := file["maintenance"].(map[string]any)
	for _, key := range []string{"controlPlaneGuard", "force", "outOfService"} {
		switch section[key] {
		case true:
			section[key] = On
		case false:
			section[key] = Off
		}
	}
	return encoding.Marshal(file)
}

// nulls finds every `key: null`, which would take a default away: it is nil, and the default is not.
func nulls(path *field.Path, value, byDefault reflect.Value) field.ErrorList {
	var all field.ErrorList
	for i := range value.NumField() {
		name, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		switch child, def := value.Field(i), byDefault.Field(i); {
		case child.Kind() == reflect.Struct:
			all = append(all, nulls(path.Child(name), child, def)...)
		case child.Kind() == reflect.Pointer && child.IsNil() && !def.IsNil():
			all = append(all, field.Required(path.Child(name), "leave the line out to get the default"))
		}
	}
	return all
}

// AdoptionNamespaces returns the namespaces whose Machines may take over Nodes that existed before them.
func AdoptionNamespaces(c *v1alpha1.DroverConfiguration) []string {
	if c.Machines.AdoptionNamespaces != nil {
		return c.Machines.AdoptionNamespaces
	}
	return []string{cmp.Or(*c.Namespace, DefaultNamespace)}
}
