package install

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/test/install/helm"
)

// configKey is the configuration file. It names what is on, where config/ says "*".
const configKey = "ConfigMap drover-system/drover"

func TestChart_Lint(t *testing.T) {
	h := helm.New(t, nil)
	for _, args := range [][]string{{}, everything(), helm.Only("machines")} {
		h.Run(append([]string{"lint", "--strict", h.Chart}, args...)...)
	}
}

// everything turns on all that there is.
func everything() []string {
	var args []string
	for _, value := range []string{
		"capabilities.machines=true", "metrics.serviceMonitor.enabled=true", "metrics.prometheusRule.enabled=true", "metrics.dashboards.enabled=true",
		"metrics.readers[0].name=prometheus-k8s", "metrics.readers[0].namespace=monitoring", "networkPolicy.enabled=true", "kubemark.enabled=true",
		"kubemark.image=example.com/kubemark", "kwok.enabled=true", "vsphere.enabled=true", "webhook.certificates=cert-manager",
	} {
		args = append(args, "--set", value)
	}
	return args
}

func TestChart_EqualsKustomize(t *testing.T) {
	for folder, args := range map[string][]string{
		"config/default":           openShift(),
		"config/kubernetes":        plainKubernetes(),
		"config/overlays/metadata": helm.Only("metadata"), "config/overlays/maintenance": helm.Only("maintenance"),
		"config/overlays/node-groups": helm.Only("node-groups"), "config/overlays/autoscaling": helm.Only("autoscaling"),
		"config/overlays/machines": helm.Only("machines"), "config/overlays/upgrade": helm.Only("upgrade"),
	} {
		t.Run(folder, func(t *testing.T) {
			// The namespace of the release is the user's. Of a Deployment without the webhook the chart has no port for it.
			rendered, want := helm.New(t, nil).Template(args...), helm.Kustomize(t, env, folder)
			if rendered["Service drover-system/drover-webhook"] == nil {
				withoutWebhookPort(t, want["Deployment drover-system/drover"])
			}
			rendered.Equal(t, want, configKey, "Namespace drover-system")
		})
	}
}

func withoutWebhookPort(t *testing.T, deployment *unstructured.Unstructured) {
	t.Helper()
	containers, _, err := unstructured.NestedSlice(deployment.Object, "spec", "template", "spec", "containers")
	if err != nil || len(containers) != 1 {
		t.Fatal(len(containers), err)
	}
	container, ok := containers[0].(map[string]any)
	if !ok {
		t.Fatal("the container is no object")
	}
	ports, _, err := unstructured.NestedSlice(container, "ports")
	if err != nil {
		t.Fatal(err)
	}
	container["ports"] = slices.DeleteFunc(ports, func(port any) bool {
		fields, ok := port.(map[string]any)
		return ok && fields["name"] == "webhook"
	})
	if err := unstructured.SetNestedSlice(deployment.Object, containers, "spec", "template", "spec", "containers"); err != nil {
		t.Fatal(err)
	}
}

// TestChart_RolesPerCapability: a capability has exactly the roles whose label names it.
func TestChart_RolesPerCapability(t *testing.T) {
	h := helm.New(t, nil)
	for capability, own := range map[string][]string{
		"metadata": {"metadata"}, "maintenance": {"maintenance", "webhook"}, "machines": {"machines"}, "upgrade": {"upgrade"},
		"autoscaling": {"autoscaling"},
	} {
		roles, labels := h.Template(helm.Only(capability)...), map[string]int{}
		for _, key := range roles.Keys("ClusterRole", "Role") {
			label := roles[key].GetLabels()["drover.dev/capability"]
			if label == "" && key != "ClusterRole drover-metrics-reader" {
				t.Errorf("%s does not say whose it is", key)
			}
			labels[label]++
		}
		for label := range labels {
			if !slices.Contains(append(own, "base", ""), label) {
				t.Errorf("with %s alone there are roles of %s", capability, label)
			}
		}
		for _, label := range own {
			if labels[label] == 0 {
				t.Errorf("with %s alone there are no roles of %s", capability, label)
			}
		}
		for _, key := range roles.Keys("ClusterRoleBinding", "RoleBinding") {
			kind, _, _ := unstructured.NestedString(roles[key].Object, "roleRef", "kind")
			if role := kind + strings.TrimPrefix(strings.TrimPrefix(key, "Cluster"), "RoleBinding"); roles[role] == nil {
				t.Errorf("with %s alone %s binds nothing: there is no %s", capability, key, role)
			}
		}
	}
}

// TestChart_ForceSwitchedOff: without maintenance.force there is no right to delete Pods, however the word is written.
func TestChart_ForceSwitchedOff(t *testing.T) {
	h := helm.New(t, nil)
	for argument, granted := range map[string]bool{
		"capabilities.maintenance=true": true, "config.maintenance.force=On": true, "config.maintenance.force=Off": false,
		"config.maintenance.force=false": false,
	} {
		objects := h.Template("--set", argument)
		if may := objects.Grants(t, "nowhere")["delete pods"]; may != granted {
			t.Errorf("with %s Drover may delete Pods: %v", argument, may)
		}
		if bound := objects["ClusterRoleBinding drover-maintenance-force"] != nil; bound != granted {
			t.Errorf("with %s there is the binding of the role: %v", argument, bound)
		}
	}
}

// TestChart_OtherNamespaces: the roles follow the namespaces that the values name.
func TestChart_OtherNamespaces(t *testing.T) {
	h := helm.New(t, nil)
	all := h.Template("--set", "config.namespace=", "--set", "capabilities.machines=true,capabilities.upgrade=true",
		"--set", "namespaces.leases.name=leases", "--set", "config.leaderElection.namespace=elections", "--set", "config.leaderElection.name=one")
	for _, key := range []string{
		"ClusterRole drover-metadata-everywhere", "ClusterRole drover-machines-everywhere", "Role leases/drover-node-leases", "Namespace leases",
		"Role leases/drover-machine-leases", "Role leases/drover-upgrade-leases", "Role elections/drover-leader-election",
	} {
		if all[key] == nil {
			t.Errorf("there is no %s", key)
		}
	}
	for _, key := range []string{"ClusterRoleBinding drover-metadata-everywhere", "RoleBinding elections/drover-leader-election"} {
		name, _, _ := unstructured.NestedString(all[key].Object, "roleRef", "name")
		subjects, _, _ := unstructured.NestedSlice(all[key].Object, "subjects")
		if !strings.HasSuffix(key, name) || !strings.Contains(fmt.Sprint(subjects), "namespace:drover-system") {
			t.Errorf("%s is %v", key, all[key].Object)
		}
	}
	if !all.Grants(t, "elections")["update leases.coordination.k8s.io one"] {
		t.Error("the lease may not be renewed")
	}
	for key, object := range all {
		if object.GetNamespace() == "openshift-machine-api" || object.GetName() == "openshift-machine-api" {
			t.Errorf("%s is there", key)
		}
	}
	if env := fmt.Sprint(all["Deployment drover-system/drover"].Object); !strings.Contains(env, "map[name:LEASE_NAMESPACE value:leases]") {
		t.Error("the operator does not know the namespace of the leases")
	}
	if h.Template("--set", "config.namespace=pools", "--set", "capabilities.machines=true")["Namespace pools"] == nil {
		t.Error("the namespace of machines is not made")
	}
}

// configuration is the configuration file of the objects, as the operator reads it.
func configuration(t *testing.T, objects helm.Objects) *v1alpha1.DroverConfiguration {
	t.Helper()
	text, _, err := unstructured.NestedString(objects[configKey].Object, "data", "config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if faults := config.Validate(parsed, operator.CapabilityNames()); len(faults) > 0 {
		t.Fatalf("%v\n%s", faults, text)
	}
	return parsed
}

func TestChart_OperatorReadsConfiguration(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		edit func(*v1alpha1.DroverConfiguration)
	}{
		"default": {nil, func(c *v1alpha1.DroverConfiguration) {
			c.Controllers = []string{"node-groups", "maintenance", "maintenance-kubevirt"}
		}},
		"one alone": {helm.Only("machines"), func(c *v1alpha1.DroverConfiguration) { c.Controllers = []string{"machines"} }},
		"auto on plain Kubernetes": {autos(), func(c *v1alpha1.DroverConfiguration) {
			c.Controllers = []string{"metadata", "node-groups", "maintenance", "maintenance-kubevirt", "machines", "autoscaling"}
		}},
		"auto on OpenShift": {append(autos(), openShift()...), func(c *v1alpha1.DroverConfiguration) {
			c.Controllers = []string{"metadata", "node-groups", "maintenance", "maintenance-kubevirt", "upgrade"}
		}},
		"what the user says counts": {[]string{"--set", "capabilities.metadata=true,config.log.verbosity=4",
			"--set", "config.controllers={metadata,maintenance}", "--set-json", "config.drain.requestsPerSecond=12.5", "--set", "config.namespace="},
			func(c *v1alpha1.DroverConfiguration) {
				c.Controllers, c.Log.Verbosity, c.Drain.RequestsPerSecond, c.Namespace = []string{"metadata", "maintenance"}, new(4), new(12.5), new("")
			}},
		"without webhook": {append(helm.Only("maintenance"), "--set", "webhook.enabled=false"), func(c *v1alpha1.DroverConfiguration) {
			c.Controllers, c.Webhook.BindAddress = []string{"maintenance", "maintenance-kubevirt"}, new("0")
		}},
		"with cert-manager": {append(helm.Only("maintenance"), "--set", "webhook.certificates=cert-manager"), func(c *v1alpha1.DroverConfiguration) {
			c.Controllers = []string{"maintenance", "maintenance-kubevirt"}
			c.Webhook.Certificates, c.Webhook.CertDir = "Files", "/etc/drover-webhook"
		}},
	} {
		t.Run(name, func(t *testing.T) {
			want := config.Default()
			c.edit(want)
			if diff := cmp.Diff(want, configuration(t, helm.New(t, nil).Template(c.args...))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// openShift says which APIs of OpenShift a cluster has.
func openShift() (args []string) {
	for _, version := range []string{"config.openshift.io/v1", "machineconfiguration.openshift.io/v1", "machine.openshift.io/v1beta1"} {
		args = append(args, "--api-versions", version)
	}
	return args
}

func autos() []string {
	var args []string
	for _, capability := range []string{"metadata", "nodeGroups", "maintenance", "machines", "autoscaling", "upgrade"} {
		args = append(args, "--set", fmt.Sprintf("capabilities.%s=auto", capability))
	}
	return args
}

// TestChart_PrometheusTokenSecret: it is given a token, and the alerts ask for the job it knows.
func TestChart_PrometheusTokenSecret(t *testing.T) {
	h := helm.New(t, nil)
	objects := h.Template("--set", "metrics.serviceMonitor.enabled=true", "--set", "metrics.serviceMonitor.token=secret",
		"--set", "metrics.prometheusRule.enabled=true", "--set", "metrics.prometheusRule.job=openshift-x/drover")
	for _, key := range []string{
		"ServiceAccount drover-system/drover-metrics-scraper", "Secret drover-system/drover-metrics-scraper", "ClusterRoleBinding drover-metrics-scraper",
	} {
		if objects[key] == nil {
			t.Errorf("there is no %s", key)
		}
	}
	monitor := fmt.Sprint(objects["ServiceMonitor drover-system/drover"].Object)
	if strings.Contains(monitor, "bearerTokenFile") || !strings.Contains(monitor, "credentials:map[key:token name:drover-metrics-scraper]") {
		t.Error(monitor)
	}
	rules := fmt.Sprint(objects["PrometheusRule drover-system/drover"].Object)
	if strings.Contains(rules, `job="drover-metrics"`) || !strings.Contains(rules, `up{job="openshift-x/drover"} == 0`) {
		t.Error(rules)
	}
	own := h.Template("--set", "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.token=file,metrics.certificates=openshift")
	if own["Secret drover-system/drover-metrics-scraper"] != nil {
		t.Error("there is a Secret, although no value asks for one")
	}
}

// TestMetrics_PrometheusVerifiesTheCertificate: wherever one is known, which the operator serves then.
func TestMetrics_PrometheusVerifiesTheCertificate(t *testing.T) {
	h := helm.New(t, nil)
	const name = "serverName:drover-metrics.drover-system.svc"
	for source, c := range map[string]struct {
		args    []string
		tls     string
		volume  string
		brought []string
	}{
		"self-signed": {tls: "tlsConfig:map[insecureSkipVerify:true]"},
		"cert-manager": {
			tls: "tlsConfig:map[ca:map[secret:map[key:ca.crt name:drover-metrics-tls]] " + name + "]", volume: "drover-metrics-tls",
			brought: []string{"Certificate drover-system/drover-metrics", "Issuer drover-system/drover-metrics"},
		},
		"openshift": {
			args: []string{"--set", "metrics.secretName=serving"}, volume: "serving",
			tls:     "tlsConfig:map[ca:map[configMap:map[key:service-ca.crt name:drover-metrics-authority]] " + name + "]",
			brought: []string{"ConfigMap drover-system/drover-metrics-authority"},
		},
		"secret": {
			args: []string{"--set", "metrics.secretName=own"}, volume: "own",
			tls: "tlsConfig:map[ca:map[secret:map[key:ca.crt name:own]] " + name + "]",
		},
	} {
		objects := h.Template(append([]string{"--set", "metrics.serviceMonitor.enabled=true", "--set", "metrics.certificates=" + source}, c.args...)...)
		if monitor := fmt.Sprint(objects["ServiceMonitor drover-system/drover"].Object); !strings.Contains(monitor, c.tls) {
			t.Errorf("%s: want %s in %s", source, c.tls, monitor)
		}
		folder, mount := "", fmt.Sprint(objects["Deployment drover-system/drover"].Object)
		if c.volume != "" {
			folder = "/etc/drover-metrics"
			if !strings.Contains(mount, "map[mountPath:/etc/drover-metrics name:metrics readOnly:true]") ||
				!strings.Contains(mount, "map[name:metrics secret:map[secretName:"+c.volume+"]]") {
				t.Errorf("%s: the Secret %s is not mounted: %s", source, c.volume, mount)
			}
		}
		if got := configuration(t, objects).Metrics.CertDir; got != folder {
			t.Errorf("%s: the operator reads its certificate from %q, want %q", source, got, folder)
		}
		for _, key := range c.brought {
			if objects[key] == nil {
				t.Errorf("%s: there is no %s", source, key)
			}
		}
	}
}

// TestNotes_SayThatTheNamespaceIsNotLabelled: Helm cannot label it. Without a cluster it cannot know whether a user has labelled it.
func TestNotes_SayThatTheNamespaceIsNotLabelled(t *testing.T) {
	h := helm.New(t, nil)
	said := h.Run("install", "drover", h.Chart, "--namespace", "somewhere", "--dry-run=client")
	const label = "kubectl label namespace somewhere pod-security.kubernetes.io/enforce=restricted"
	if !strings.Contains(said, label) {
		t.Errorf("the notes do not say %q", label)
	}
}

// TestNotes_WarnOfTheTagLatest: an image of that tag is another one tomorrow; a digest or a version is not.
func TestNotes_WarnOfTheTagLatest(t *testing.T) {
	h := helm.New(t, nil)
	for _, c := range []struct {
		value string
		warns bool
	}{
		{"image.tag=latest", true}, {"image.tag=v1.2.3", false}, {"image.digest=sha256:" + strings.Repeat("0", 64), false},
	} {
		said := h.Run("install", "drover", h.Chart, "--namespace", "somewhere", "--dry-run=client", "--set", c.value)
		if warns := strings.Contains(said, "has the tag latest"); warns != c.warns {
			t.Errorf("%s: the notes warn: %t, want %t:\n%s", c.value, warns, c.warns, said)
		}
	}
}

// TestChart_HostNetworkRollout: where every node has its ports taken, a Pod goes before the next comes.
func TestChart_HostNetworkRollout(t *testing.T) {
	strategy := func(args ...string) string {
		found, _, err := unstructured.NestedMap(helm.New(t, nil).Template(args...)["Deployment drover-system/drover"].Object, "spec", "strategy")
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprint(found)
	}
	if got := strategy("--set", "hostNetwork=true"); got != "map[rollingUpdate:map[maxSurge:0 maxUnavailable:1]]" {
		t.Error(got)
	}
	if got := strategy(); got != "map[]" {
		t.Error(got)
	}
}

func TestChart_InvalidValues(t *testing.T) {
	h := helm.New(t, nil)
	for text, value := range map[string]string{ //nolint:gosec // the names of Secrets are none
		"'/capabilities/metadata'": "capabilities.metadata=sometimes", "additional properties 'metadta' not allowed": "capabilities.metadta=true",
		"'/config/metadata/workers': got string, want integer": "config.metadata.workers=many",
		"additional properties 'worker' not allowed":           "config.metadata.worker=3",
		"value must be one of 'json', 'text'":                  "config.log.format=xml",
		"'/config/machines/nodeDrainTimeout'":                  "config.machines.nodeDrainTimeout=15",
		"'/image/digest'":                                      "image.digest=sha256:abc", "'/replicas': minimum": "replicas=-1",
		"value must be one of 'managed', 'cert-manager', 'secret'": "webhook.certificates=none",
		"webhook.caBundle: the authority of the certificate":       "webhook.certificates=secret",
		"kwok.enabled: the provider is of use with":                "kwok.enabled=true",
		"vsphere.enabled: the provider is of use with":             "vsphere.enabled=true",
		"metrics.secretName: name the Secret":                      "metrics.certificates=secret",
		"shows the token of its own service account":               "metrics.serviceMonitor.enabled=true,metrics.serviceMonitor.token=file",
		"both say where the certificate is":                        "metrics.certificates=openshift,config.metrics.certDir=/certs",
		"kubemark.enabled: the provider is of use with":            "kubemark.enabled=true,kubemark.image=kubemark",
		"kubemark.image: name the image that has kubemark":         "kubemark.enabled=true,capabilities.machines=true",
	} {
		h.Refused(text, "template", "drover", h.Chart, "--set", value)
	}
	for text, args := range map[string][]string{
		"config.controllers names no maintenance": {"--set", "capabilities.metadata=true", "--set", "config.controllers={metadata}"},
		"turns machines on, and it would have no permissions": {
			"--set", "capabilities.metadata=true", "--set", "config.controllers={metadata,maintenance,machines}",
		},
		"turns autoscaling on, and it would have no permissions": {"--set", "capabilities.metadata=true", "--set", "config.controllers={*,-machines}"},
		"turns upgrade on, and it would have no permissions": {
			"--set", "capabilities.metadata=true", "--set", "capabilities.upgrade=false", "--set", "config.controllers={*,-machines,-autoscaling}",
		},
		"vsphere.secrets: name the Secrets": {"--set", "capabilities.machines=true,vsphere.enabled=true", "--set-json", "vsphere.secrets=[]"},
		"say webhook.enabled=false instead": {"--set-string", "config.webhook.bindAddress=0"},
		"the alerts would say that Drover is absent": {
			"--set-string", "config.metrics.bindAddress=0", "--set", "metrics.prometheusRule.enabled=true",
		},
	} {
		h.Refused(text, append([]string{"template", "drover", h.Chart}, args...)...)
	}
	h.Refused("capabilities: turn at least one on", append([]string{"template", "drover", h.Chart}, helm.Only("none")...)...)
}
