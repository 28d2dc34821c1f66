package openshift

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/internal/operator"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// TestBundle_Installs: what hack/bundle.sh writes passes the validators of the Operator Lifecycle Manager and its API, and grants what config/ does.
func TestBundle_Installs(t *testing.T) {
	dist := t.TempDir()
	script := folder(t, "hack/bundle.sh")
	run := exec.CommandContext(t.Context(), script)
	run.Env = append(os.Environ(), "DIST="+dist, "VERSION=v1.2.3", "IMAGE=registry.example.com/drover:v1.2.3", "REPLACES=v1.2.2")
	if output, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	bundle := filepath.Join(dist, "bundle")
	csv := decode(t, filepath.Join(bundle, "manifests/drover.clusterserviceversion.yaml"))

	crd := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/operator-framework/api")
	crd.Dir = folder(t, "tools/operator-verify")
	module, err := crd.Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(strings.TrimSpace(string(module)), "crds/operators.coreos.com_clusterserviceversions.yaml")
	kubectl(t, nil, "apply", "--server-side", "-f", file)
	t.Cleanup(func() {
		if output, err := harness.Kubectl(context.Background(), env, nil, "delete", "--wait=false", "-f", file); err != nil {
			t.Error(err, output)
		}
	})
	harness.NewWorld(t, env).Eventually("the CRD is served", func() error {
		_, err := harness.Kubectl(t.Context(), env, nil, "get", "clusterserviceversions")
		return err
	})
	kubectl(t, nil, "apply", "-k", folder(t, "config/crd/mutex"))
	kubectl(t, nil, "apply", "-k", folder(t, "config/crd/nodegroup"))
	csv.SetNamespace("default")
	for _, objects := range []any{csv.Object, samples(t, csv)} {
		text, err := yaml.Marshal(objects)
		if err != nil {
			t.Fatal(err)
		}
		kubectl(t, strings.NewReader(strings.ReplaceAll(string(text), "namespace: drover-system", "namespace: default")),
			"create", "--dry-run=server", "--validate=strict", "-f", "-")
	}
	permissions(t, csv)
	leastRights(t, bundle)
	deployed(t, csv)
	packaged(t, bundle)
}

func decode(t testing.TB, path string) *unstructured.Unstructured {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &object.Object); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return object
}

// samples are the examples that the console shows, as a list.
func samples(t *testing.T, csv *unstructured.Unstructured) map[string]any {
	t.Helper()
	var all []any
	if err := json.Unmarshal([]byte(csv.GetAnnotations()["alm-examples"]), &all); err != nil || len(all) != 6 {
		t.Fatalf("%d examples: %v", len(all), err)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": all}
}

// permissions compares what the bundle grants with the roles of config/default. It leaves out the roles for the certificate, and the roles for the
// gate, which is off.
func permissions(t *testing.T, csv *unstructured.Unstructured) {
	t.Helper()
	roles := helm.Kustomize(t, env, "config/default")
	for key := range roles {
		if strings.Contains(key, "drover-webhook-certificates") || strings.Contains(key, "drover-upgrade") {
			delete(roles, key)
		}
	}
	everywhere := roles.Grants(t, "openshift-machine-api")
	own := map[string]bool{}
	for _, namespace := range []string{harness.SystemNamespace, "medik8s-leases"} {
		for grant := range roles.Grants(t, namespace) {
			if !roles.Grants(t, "nowhere")[grant] {
				own[grant] = true
			}
		}
	}
	for field, want := range map[string]map[string]bool{"clusterPermissions": everywhere, "permissions": own} {
		list, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", field)
		if err != nil || len(list) != 1 {
			t.Fatalf("%s: %d, %v", field, len(list), err)
		}
		role := &rbacv1.ClusterRole{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list[0].(map[string]any), role); err != nil { //nolint:errcheck // it panics
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, rule := range role.Rules {
			for _, grant := range helm.Expand(rule.APIGroups, rule.Resources, rule.ResourceNames, rule.Verbs) {
				got[grant] = true
			}
		}
		if diff := cmp.Diff(slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got))); diff != "" {
			t.Errorf("%s: %s", field, diff)
		}
	}
}

// leastRights: nothing in the bundle has a right on leases or Secrets of the whole cluster.
func leastRights(t *testing.T, bundle string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(bundle, "manifests", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	checked := 0
	for _, file := range files {
		object := decode(t, file)
		all := []any{object.Object}
		switch object.GetKind() {
		case "ClusterServiceVersion":
			if all, _, err = unstructured.NestedSlice(object.Object, "spec", "install", "spec", "clusterPermissions"); err != nil {
				t.Fatal(err)
			}
		case "ClusterRole":
		default:
			continue
		}
		for _, one := range all {
			role := &rbacv1.ClusterRole{}
			if err := runtime.DefaultUnstructuredConverter.FromUnstructured(one.(map[string]any), role); err != nil { //nolint:errcheck // it panics
				t.Fatal(err)
			}
			for i := range role.Rules {
				checked++
				for _, resource := range []string{"*", "leases", "secrets"} {
					if slices.Contains(role.Rules[i].Resources, resource) {
						t.Errorf("%s: it grants %v on %s in the whole cluster", filepath.Base(file), role.Rules[i].Verbs, resource)
					}
				}
			}
		}
	}
	if checked < 10 {
		t.Errorf("there are %d rules for the whole cluster only", checked)
	}
}

// deployed looks at the Deployment, the related image and the webhooks.
func deployed(t *testing.T, csv *unstructured.Unstructured) {
	t.Helper()
	list, _, err := unstructured.NestedSlice(csv.Object, "spec", "install", "spec", "deployments")
	if err != nil || len(list) != 1 {
		t.Fatal(len(list), err)
	}
	deployment := helm.Kustomize(t, env, "config/default")["Deployment drover-system/drover"]
	want, _, _ := unstructured.NestedMap(deployment.Object, "spec")
	text := harness.JSON(want)
	// The leases of nodes are in Drover's own namespace.
	const before, lease = `"name":"OPERATOR_NAMESPACE","valueFrom":{"fieldRef":{"fieldPath":"metadata.namespace"}}}`,
		`,{"name":"LEASE_NAMESPACE","value":"$(OPERATOR_NAMESPACE)"}`
	if text = strings.Replace(text, before, before+lease, 1); !strings.Contains(text, lease) {
		t.Errorf("the Deployment has no such environment: %s", text)
	}
	const image = "registry.example.com/drover:v1.2.3"
	text = strings.Replace(text, "ghcr.io/drover-io/drover:latest", image, 1)
	got, ok := list[0].(map[string]any)
	if !ok || harness.JSON(got["spec"]) != text {
		t.Errorf("the Deployment is\n%s, want\n%s", harness.JSON(list), text)
	}
	images, _, _ := unstructured.NestedSlice(csv.Object, "spec", "relatedImages")
	if harness.JSON(images) != `[{"image":"`+image+`","name":"drover"}]` {
		t.Errorf("related images: %v", images)
	}
	if replaces, _, _ := unstructured.NestedString(csv.Object, "spec", "replaces"); replaces != "drover.v1.2.2" || csv.GetName() != "drover.v1.2.3" {
		t.Errorf("%s replaces %s", csv.GetName(), replaces)
	}
	hooks, _, _ := unstructured.NestedSlice(csv.Object, "spec", "webhookdefinitions")
	configured, _, _ := unstructured.NestedSlice(helm.Kustomize(t, env, "config/webhook")["ValidatingWebhookConfiguration drover"].Object, "webhooks")
	if len(hooks) != len(configured) || len(hooks) == 0 {
		t.Fatalf("%d webhooks, want %d", len(hooks), len(configured))
	}
	for i := range hooks {
		hook, _ := hooks[i].(map[string]any)
		other, _ := configured[i].(map[string]any)
		path, _, _ := unstructured.NestedString(other, "clientConfig", "service", "path")
		if hook["webhookPath"] != path || hook["generateName"] != other["name"] || hook["targetPort"] != "webhook" {
			t.Errorf("webhook %v, want one like %v", hook, other)
		}
	}
}

// packaged looks at what is beside the manifests.
func packaged(t *testing.T, bundle string) {
	t.Helper()
	text, _, _ := unstructured.NestedString(decode(t, filepath.Join(bundle, "manifests/drover_v1_configmap.yaml")).Object, "data", "config.yaml")
	parsed, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if faults := config.Validate(parsed, operator.CapabilityNames()); len(faults) > 0 || parsed.Webhook.Certificates != config.CertificatesFiles {
		t.Errorf("the configuration: %v, certificates %s", faults, parsed.Webhook.Certificates)
	}
	if config.Enabled(parsed.Controllers, "upgrade") || config.Enabled(parsed.Controllers, "machines") {
		t.Errorf("a bundle has no policies: %v must not be on", parsed.Controllers)
	}
	image, err := os.ReadFile(filepath.Join(bundle, "bundle.Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	labels, _, _ := unstructured.NestedStringMap(decode(t, filepath.Join(bundle, "metadata/annotations.yaml")).Object, "annotations")
	if len(labels) < 6 {
		t.Errorf("there are %d annotations", len(labels))
	}
	for key, value := range labels {
		if !strings.Contains(string(image), "LABEL "+key+"="+value+"\n") {
			t.Errorf("the image has no label %s=%s", key, value)
		}
	}
	entries, _, _ := unstructured.NestedSlice(decode(t, filepath.Join(bundle, "catalog/drover.yaml")).Object, "entries")
	want := `[{"defaultChannel":"stable","name":"drover","schema":"olm.package"},` +
		`{"entries":[{"name":"drover.v1.2.3","replaces":"drover.v1.2.2"}],"name":"stable","package":"drover","schema":"olm.channel"},` +
		`{"image":"ghcr.io/drover-io/drover-bundle:v1.2.3","schema":"olm.bundle"}]`
	if got := harness.JSON(entries); got != want {
		t.Errorf("the catalog is %s, want %s", got, want)
	}
}
