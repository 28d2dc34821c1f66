package config

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/config/v1alpha1"
	droverv1alpha1 "github.com/drover-io/drover/api/drover/v1alpha1"
)

const head = "apiVersion: config.drover.dev/v1alpha1\nkind: DroverConfiguration\n"

var known = []string{"metadata", "maintenance"}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		edit       func(*v1alpha1.DroverConfiguration)
	}{
		{"nothing but the head is the default", "", func(*v1alpha1.DroverConfiguration) {}},
		{"one field of a section leaves the others", "metadata: {workers: 4}", func(c *v1alpha1.DroverConfiguration) { c.Metadata.Workers = new(4) }},
		{"zero and empty are values", "namespace: \"\"\nmetadata: {writesPerSecond: 0}\nleaderElection: {enabled: false}",
			func(c *v1alpha1.DroverConfiguration) {
				c.Namespace, c.Metadata.WritesPerSecond, c.LeaderElection.Enabled = new(""), new(0.0), new(false)
			}},
		{"a list replaces the default", "controllers: [metadata]", func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"metadata"} }},
		{"an empty list is not the default", "controllers: []", func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{} }},
		{"durations", "leaderElection: {leaseDuration: 1m}",
			func(c *v1alpha1.DroverConfiguration) { c.LeaderElection.LeaseDuration = duration(time.Minute) }},
		{"protected keys", "metadata: {protected: {labels: [a/*], taints: [b]}}", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Protected = v1alpha1.Protected{Labels: []string{"a/*"}, Taints: []string{"b"}}
		}},
		{"unprotected keys", "metadata: {unprotected: {labels: [topology.kubernetes.io/zone]}}", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Unprotected = v1alpha1.Protected{Labels: []string{"topology.kubernetes.io/zone"}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := Default()
			c.edit(want)
			got, err := Parse([]byte(head + c.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseIsStrict(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a typo":                 {head + "metdata: {workers: 4}", `unknown field "metdata"`},
		"a typo in a section":    {head + "metadata: {worker: 4}", `unknown field "metadata.worker"`},
		"another case":           {head + "Metadata: {workers: 4}", `unknown field "Metadata"`},
		"the same in two cases":  {head + "namespace: a\nNamespace: b", `unknown field "Namespace"`},
		"two typos":              {head + "a: 1\nb: 1", "unknown field \"a\"\nunknown field \"b\""},
		"a field twice":          {head + "namespace: a\nnamespace: b", `"namespace" already set`},
		"a wrong type":           {head + "metadata: {workers: many}", "cannot unmarshal string"},
		"a half worker":          {head + "metadata: {workers: 1.5}", "cannot unmarshal number"},
		"a duration of no unit":  {head + "leaderElection: {leaseDuration: \"15\"}", "missing unit"},
		"no head":                {"namespace: a", `apiVersion: "", kind: ""`},
		"an empty file":          {"", `this version reads apiVersion config.drover.dev/v1alpha1`},
		"a later version":        {"apiVersion: config.drover.dev/v2\nkind: DroverConfiguration", `apiVersion: "config.drover.dev/v2"`},
		"another kind":           {"apiVersion: config.drover.dev/v1alpha1\nkind: MachineSet", `kind: "MachineSet"`},
		"no YAML":                {"\t{", "yaml"},
		"null for a default":     {head + "namespace: null", "namespace: Required value: leave the line out"},
		"null without a word":    {head + "metadata: {workers: }", "metadata.workers: Required value"},
		"null of the webhook":    {head + "webhook: {bindAddress: null, http2: null}", "webhook.http2: Required value"},
		"null deep down":         {head + "leaderElection: {retryPeriod: ~}", "leaderElection.retryPeriod: Required value"},
		"null for all addresses": {head + "health: {bindAddress: null}\nmetrics: {bindAddress: null}", "metrics.bindAddress: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Parse([]byte(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

func TestDefaultIsValidAndNew(t *testing.T) {
	first := Default()
	if faults := Validate(first, known); len(faults) > 0 {
		t.Errorf("%v", faults)
	}
	*first.Metadata.Workers, first.Controllers[0], first.LeaderElection.RetryPeriod.Duration = 1, "x", 0
	if diff := cmp.Diff(Default(), Default()); diff != "" || *Default().Metadata.Workers != 32 || Default().Controllers[0] != "*" {
		t.Error("changing one default changes the next")
	}
}

// faultOf is a change of a valid configuration and the paths of the fields that it makes invalid.
type faultOf struct {
	name  string
	edit  func(*v1alpha1.DroverConfiguration)
	paths string
}

func TestValidate(t *testing.T) {
	cases := []faultOf{
		{"nothing", func(*v1alpha1.DroverConfiguration) {}, ""},
		{"no capability", func(c *v1alpha1.DroverConfiguration) { c.Controllers = nil }, "controllers"},
		{"unknown ones", func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"*", "-x", "metadata", "y"} }, "controllers[1] controllers[3]"},
		{"all but one", func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"*", "-metadata"} }, ""},
		{"all namespaces", func(c *v1alpha1.DroverConfiguration) { c.Namespace = new("") }, ""},
		{"no name of a namespace", func(c *v1alpha1.DroverConfiguration) { c.Namespace = new("A_b") }, "namespace"},
		{"log", func(c *v1alpha1.DroverConfiguration) { c.Log = v1alpha1.Log{Format: "xml", Verbosity: new(-1)} }, "log.format log.verbosity"},
		{"a log of bodies", func(c *v1alpha1.DroverConfiguration) { c.Log.Verbosity = new(8) }, "log.verbosity"},
		{"the most of a log", func(c *v1alpha1.DroverConfiguration) { c.Log.Verbosity = new(7) }, ""},
		{"addresses", func(c *v1alpha1.DroverConfiguration) {
			c.Metrics.BindAddress, c.Health.BindAddress = new("8443"), new("")
		}, "health.bindAddress metrics.bindAddress"},
		{"good addresses", func(c *v1alpha1.DroverConfiguration) {
			c.Metrics.BindAddress, c.Health.BindAddress = new("0"), new("[::1]:8081")
		}, ""},
		{"numbers too small", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Workers, c.Metadata.WritesPerSecond, c.Metadata.WritesBurst = new(0), new(-0.5), new(0)
		}, "metadata.workers metadata.writesBurst metadata.writesPerSecond"},
		{"too many workers", func(c *v1alpha1.DroverConfiguration) { c.Metadata.Workers = new(1001) }, "metadata.workers"},
		{"no bound", func(c *v1alpha1.DroverConfiguration) { c.Metadata.WritesPerSecond = new(0.0) }, ""},
		{"patterns", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Protected = v1alpha1.Protected{Labels: []string{"a", "*"}, Annotations: []string{""}, Taints: []string{"a b", "c,d"}}
		}, "metadata.protected.annotations[0] metadata.protected.labels[1] metadata.protected.taints[0] metadata.protected.taints[1]"},
		{"adoption namespaces", func(c *v1alpha1.DroverConfiguration) {
			c.Machines.AdoptionNamespaces = []string{"*", "good", "No_Name"}
		}, "machines.adoptionNamespaces[2]"},
		{"remediation", func(c *v1alpha1.DroverConfiguration) {
			c.Machines.Remediation = v1alpha1.Remediation{MaxInFlight: new(intstr.FromString("some")), MinInterval: duration(-time.Second)}
		}, "machines.remediation.maxInFlight machines.remediation.minInterval"},
		{"kinds of remediation templates", func(c *v1alpha1.DroverConfiguration) {
			c.Machines.Remediation.TemplateKinds = []string{"RebootTemplate.example.com", "NodeTemplate", "Reboot.example.com"}
		}, "machines.remediation.templateKinds[1] machines.remediation.templateKinds[2]"},
		{"no external remediation", func(c *v1alpha1.DroverConfiguration) { c.Machines.Remediation.TemplateKinds = nil }, ""},
		{"a share of remediations", func(c *v1alpha1.DroverConfiguration) {
			c.Machines.Remediation.MaxInFlight = new(intstr.FromString("20%"))
		}, ""},
		{"MachineSets: out of bounds", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Rollout = &v1alpha1.MachineSetRollout{
				MaxInFlight: new(intstr.FromString("0%")), StopWhen: v1alpha1.MachineSetStop{NotReady: new(intstr.FromString("all"))},
				NoExecute: v1alpha1.MachineSetNoExecute{Policy: "Off"},
			}
		}, "metadata.rollout.maxInFlight metadata.rollout.noExecute.policy metadata.rollout.stopWhen.notReady"},
		{"MachineSets: only NodeGroups guard", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Rollout = &v1alpha1.MachineSetRollout{NoExecute: v1alpha1.MachineSetNoExecute{Policy: "Guard"}}
		}, "metadata.rollout.noExecute.policy"},
		{"MachineSets: valid", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Rollout = &v1alpha1.MachineSetRollout{
				MaxInFlight: new(intstr.FromString("10%")), NoExecute: v1alpha1.MachineSetNoExecute{Policy: "Refuse"},
			}
		}, ""},
		{"a roll-out", func(c *v1alpha1.DroverConfiguration) {
			c.NodeGroups.Rollout = &droverv1alpha1.Rollout{
				MaxInFlight: new(intstr.FromInt32(1)), Pause: duration(time.Hour), NoExecute: &droverv1alpha1.NoExecute{},
			}
		}, ""},
		{"no remediation", func(c *v1alpha1.DroverConfiguration) { c.Machines.Remediation.MaxInFlight = new(intstr.FromInt32(0)) }, ""},
		{"negative remediations", func(c *v1alpha1.DroverConfiguration) {
			c.Machines.Remediation.MaxInFlight = new(intstr.FromInt32(-1))
		}, "machines.remediation.maxInFlight"},
		{"namespaces of upgrades", func(c *v1alpha1.DroverConfiguration) { c.Upgrade.Namespaces = []string{"good", "*"} }, "upgrade.namespaces[1]"},
		{"force", func(c *v1alpha1.DroverConfiguration) { c.Maintenance.Force = "Auto" }, "maintenance.force"},
		{"out of service", func(c *v1alpha1.DroverConfiguration) { c.Maintenance.OutOfService = "" }, "maintenance.outOfService"},
		{"patterns to remove", func(c *v1alpha1.DroverConfiguration) {
			c.Metadata.Unprotected = v1alpha1.Protected{
				Labels:      []string{"topology.kubernetes.io/zone", "topology.*"},
				Annotations: []string{"drover.dev/*"}, Taints: []string{"node.kubernetes.io/*", "medik8s.io/drain"},
			}
		}, "metadata.unprotected.annotations[0] metadata.unprotected.labels[1] metadata.unprotected.taints[1]"},
		{"several things at once", func(c *v1alpha1.DroverConfiguration) { c.Controllers, c.Log.Format = nil, "" }, "controllers log.format"},
	}
	for _, c := range slices.Concat(cases, rolloutFaults(), electionFaults(), webhookFaults()) {
		t.Run(c.name, func(t *testing.T) {
			config := Default()
			c.edit(config)
			var paths []string
			for _, fault := range Validate(config, known) {
				paths = append(paths, fault.Field)
			}
			slices.Sort(paths)
			if got := strings.Join(paths, " "); got != c.paths {
				t.Errorf("faults at %q, want %q", got, c.paths)
			}
		})
	}
}

func rolloutFaults() []faultOf {
	return []faultOf{
		{"the roll-out of groups", func(c *v1alpha1.DroverConfiguration) {
			c.NodeGroups.Rollout = &droverv1alpha1.Rollout{
				MaxInFlight: new(intstr.FromString("101%")), FirstWave: new(int32(0)), Pause: duration(8 * 24 * time.Hour), MinReadySeconds: -1,
				ReleaseDelay: duration(-time.Second),
				StopWhen:     &droverv1alpha1.StopConditions{NotReady: new(intstr.FromInt32(0)), PendingPods: new(int32(0))},
				NoExecute: &droverv1alpha1.NoExecute{
					Policy: "Off", MaxPodsPerNode: new(int32(-1)), MaxPodsPerWave: new(int32(1_000_001)), Timeout: duration(0), OnTimeout: "Wait",
				},
			}
		}, "nodeGroups.rollout.firstWave nodeGroups.rollout.maxInFlight nodeGroups.rollout.minReadySeconds " +
			"nodeGroups.rollout.noExecute.maxPodsPerNode nodeGroups.rollout.noExecute.maxPodsPerWave nodeGroups.rollout.noExecute.onTimeout " +
			"nodeGroups.rollout.noExecute.policy nodeGroups.rollout.noExecute.timeout nodeGroups.rollout.pause " +
			"nodeGroups.rollout.releaseDelay nodeGroups.rollout.stopWhen.notReady nodeGroups.rollout.stopWhen.pendingPods"},
		{"a first wave above the others", func(c *v1alpha1.DroverConfiguration) {
			c.NodeGroups.Rollout = &droverv1alpha1.Rollout{FirstWave: new(int32(3)), MaxInFlight: new(intstr.FromInt32(2))}
		}, "nodeGroups.rollout.firstWave"},
		{"a roll-out that proceeds without a timeout", func(c *v1alpha1.DroverConfiguration) {
			c.NodeGroups.Rollout = &droverv1alpha1.Rollout{NoExecute: &droverv1alpha1.NoExecute{OnTimeout: droverv1alpha1.TimeoutProceed}}
		}, "nodeGroups.rollout.noExecute.timeout"},
	}
}

func webhookFaults() []faultOf {
	address := func(address string) func(*v1alpha1.DroverConfiguration) {
		return func(c *v1alpha1.DroverConfiguration) { c.Webhook.BindAddress = new(address) }
	}
	return []faultOf{
		{"no webhook", address("0"), ""},
		{"webhook on one address", address("[::1]:9443"), ""},
		{"webhook without a port", address("localhost"), "webhook.bindAddress"},
		{"webhook on any port", address(":0"), "webhook.bindAddress"},
		{"webhook on a port by name", address(":https"), "webhook.bindAddress"},
		{"webhook on no port that there is", address(":65536"), "webhook.bindAddress"},
		{"certificates from elsewhere", func(c *v1alpha1.DroverConfiguration) {
			c.Webhook.Certificates, c.Webhook.CertDir = CertificatesFiles, "/certs"
		}, ""},
		{"certificates from nowhere", func(c *v1alpha1.DroverConfiguration) { c.Webhook.Certificates = "" }, "webhook.certificates"},
		{"names of the webhook's objects", func(c *v1alpha1.DroverConfiguration) {
			c.Webhook.SecretName, c.Webhook.ServiceName, c.Webhook.ValidatingConfigurationName = "", "A", "a_b"
		}, "webhook.secretName webhook.serviceName webhook.validatingConfigurationName"},
		{"names of the webhook", func(c *v1alpha1.DroverConfiguration) {
			c.Webhook.ExtraNames = []string{"127.0.0.1", "::1", "drover.example.com", "a b", ""}
		}, "webhook.extraNames[3] webhook.extraNames[4]"},
	}
}

func electionFaults() []faultOf {
	times := func(lease, renew, retry time.Duration) func(*v1alpha1.DroverConfiguration) {
		return func(c *v1alpha1.DroverConfiguration) {
			c.LeaderElection.LeaseDuration, c.LeaderElection.RenewDeadline, c.LeaderElection.RetryPeriod = duration(lease), duration(renew), duration(retry)
		}
	}
	return []faultOf{
		{"lease as short as the deadline", times(10*time.Second, 10*time.Second, time.Second), "leaderElection.leaseDuration"},
		{"deadline within the jitter of one retry", times(15*time.Second, 2400*time.Millisecond, 2*time.Second), "leaderElection.renewDeadline"},
		{"no retry period", times(15*time.Second, 10*time.Second, 0), "leaderElection.retryPeriod"},
		{"negative times", times(-1, -1, -1), "leaderElection.leaseDuration leaderElection.renewDeadline leaderElection.retryPeriod"},
		{"names", func(c *v1alpha1.DroverConfiguration) { c.LeaderElection.Name, c.LeaderElection.Namespace = "", "a.b" },
			"leaderElection.name leaderElection.namespace"},
		{"none of it matters when it is off", func(c *v1alpha1.DroverConfiguration) {
			times(0, 0, 0)(c)
			c.LeaderElection.Name, c.LeaderElection.Enabled = "", new(false)
		}, ""},
	}
}

// TestParse_Switches: YAML takes On and Off for true and false.
func TestParse_Switches(t *testing.T) {
	for text, want := range map[string]v1alpha1.Maintenance{
		"{}":                                   {ControlPlaneGuard: "Auto", Force: On, OutOfService: On},
		"{force: Off, controlPlaneGuard: Off}": {ControlPlaneGuard: Off, Force: Off, OutOfService: On},
		`{force: "Off", outOfService: Off}`:    {ControlPlaneGuard: "Auto", Force: Off, OutOfService: Off},
		"{force: true, outOfService: false}":   {ControlPlaneGuard: "Auto", Force: On, OutOfService: Off},
		"{force: On, outOfService: \"On\"}":    {ControlPlaneGuard: "Auto", Force: On, OutOfService: On},
	} {
		config, err := Parse([]byte("apiVersion: config.drover.dev/v1alpha1\nkind: DroverConfiguration\nmaintenance: " + text + "\n"))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		got := v1alpha1.Maintenance{
			ControlPlaneGuard: config.Maintenance.ControlPlaneGuard, Force: config.Maintenance.Force, OutOfService: config.Maintenance.OutOfService,
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", text, diff)
		}
	}
}

func TestAdoptionNamespaces(t *testing.T) {
	for name, c := range map[string]struct {
		namespace string
		setting   []string
		want      []string
	}{
		"one namespace":                {"machines", nil, []string{"machines"}},
		"all namespaces":               {"", nil, []string{DefaultNamespace}},
		"all namespaces, and some may": {"", []string{"a", "b"}, []string{"a", "b"}},
		"none may":                     {"machines", []string{}, []string{}},
	} {
		config := Default()
		config.Namespace, config.Machines.AdoptionNamespaces = &c.namespace, c.setting
		if diff := cmp.Diff(c.want, AdoptionNamespaces(config)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

func TestEnabled(t *testing.T) {
	for _, c := range []struct {
		controllers string
		want        bool
	}{
		{"*", true},
		{"metadata", true},
		{"maintenance", false},
		{"-metadata", false},
		{"-maintenance", false},
		{"*,-metadata", false},
		{"-metadata,*", false},
		{"*,-maintenance", true},
		{"metadata,-metadata", true},
		{"-metadata,metadata", false},
		{"", false},
	} {
		if got := Enabled(strings.Split(c.controllers, ","), "metadata"); got != c.want {
			t.Errorf("--controllers=%s: %v", c.controllers, got)
		}
	}
}

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "drover.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func resolve(t *testing.T, args ...string) (*v1alpha1.DroverConfiguration, error) {
	t.Helper()
	set := pflag.NewFlagSet("drover", pflag.ContinueOnError)
	flags := AddFlags(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return flags.Resolve(known)
}

// The help shows the defaults of the flags: a flag that is given with its default changes nothing.
func TestAddFlags_HaveTheDefaults(t *testing.T) {
	set := pflag.NewFlagSet("drover", pflag.ContinueOnError)
	AddFlags(set)
	var args []string
	set.VisitAll(func(flag *pflag.Flag) {
		value := flag.DefValue
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			value = strings.Join(list.GetSlice(), ",")
		}
		args = append(args, "--"+flag.Name+"="+value)
	})
	config, err := resolve(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), config, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestEachFlagCountsOverTheFile(t *testing.T) {
	file := write(t, head+"namespace: from-file\nmetadata: {workers: 7, writesPerSecond: 7}\nlog: {format: text}\nmetrics: {certDir: /file}\n"+
		"leaderElection: {name: name}\nwebhook: {secretName: secret}")
	args := []string{
		"--config=" + file, "--controllers=metadata", "--namespace=", "--metadata-workers=3", "--metadata-writes-burst=5", "--leader-elect=false",
		"--leader-elect-namespace=ns", "--leader-elect-lease-duration=3s", "--leader-elect-renew-deadline=2s",
		"--webhook-bind-address=0", "--webhook-certificates=Files", "--webhook-cert-dir=/certs", "--webhook-extra-names=a,::1",
		"--machines-adoption-namespaces=a,b", "--machines-remediation-template-kinds=RebootTemplate.example.com",
		"--leader-elect-retry-period=1s", "--metrics-bind-address=0", "--health-probe-bind-address=:1", "-v=4",
	}
	got, err := resolve(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.Controllers, want.Namespace = []string{"metadata"}, new("")
	want.Metadata.Workers, want.Metadata.WritesPerSecond, want.Metadata.WritesBurst = new(3), new(7.0), new(5)
	want.LeaderElection = v1alpha1.LeaderElection{
		Enabled: new(false), Namespace: "ns", Name: "name",
		LeaseDuration: duration(3 * time.Second), RenewDeadline: duration(2 * time.Second), RetryPeriod: duration(time.Second),
	}
	want.Metrics = v1alpha1.Metrics{BindAddress: new("0"), Secure: new(true), CertDir: "/file", HTTP2: new(false)}
	want.Webhook.BindAddress, want.Webhook.Certificates, want.Webhook.CertDir = new("0"), "Files", "/certs"
	want.Webhook.SecretName, want.Webhook.ExtraNames = "secret", []string{"a", "::1"}
	want.Machines.AdoptionNamespaces = []string{"a", "b"}
	want.Machines.Remediation.TemplateKinds = []string{"RebootTemplate.example.com"}
	want.Health.BindAddress, want.Log = new(":1"), v1alpha1.Log{Format: "text", Verbosity: new(4)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestResolveSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a file that is not there": {[]string{"--config=" + filepath.Join(t.TempDir(), "none.yaml")}, "reading the configuration: "},
		"a bad file is named":      {[]string{"--config=" + write(t, "x: y")}, "drover.yaml: "},
		"a bad flag":               {[]string{"--maintenance-force=Maybe"}, `maintenance.force: Unsupported value: "Maybe": supported values: "On", "Off"`},
		"a bad capability": {[]string{"--controllers=*,-x"},
			`controllers[1]: Unsupported value: "-x": supported values: "*", "metadata", "maintenance"`},
		"a good flag does not hide a bad file": {[]string{"--namespace=a", "--config=" + write(t, head+"metadata: {workers: -1}")},
			"metadata.workers: Invalid value: -1: must be from 1 to 1000"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := resolve(t, c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
	if _, err := resolve(t, "--config="+write(t, head+"metadata: {workers: -1}"), "--metadata-workers=1"); err != nil {
		t.Errorf("a flag mends a bad value of the file: %v", err)
	}
}
