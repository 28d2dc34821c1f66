package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// maintenanceCRD is the CRD whose upgrade is looked at.
const maintenanceCRD = "nodemaintenances.nodemaintenance.medik8s.io"

// TestChart_InstallUpgradeRollback follows a release of the chart through its life. The Pods run on nodes that kwok plays, in a namespace that
// enforces the restricted Pod Security Standard.
func TestChart_InstallUpgradeRollback(t *testing.T) {
	w := harness.NewWorld(t, env)
	w.Site().AddNodes(2)
	h := helm.New(t, env)
	restrictedNamespace(w)
	before := inventory(t)

	// An old version of the chart, whose CRD has no columns.
	install := []string{"drover", older(t, h.Chart), "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m"}
	install = append(append(install, plainKubernetes()...), "--set", "capabilities.upgrade=true")
	said := h.Run(append([]string{"install"}, install...)...)
	for _, text := range []string{
		"On: metadata, node-groups, maintenance, maintenance-kubevirt, machines, autoscaling, upgrade.",
		"helm uninstall drover", "keeps the CRDs", "* NodeGroups: Drover releases", "* MutexRunConfigs: Drover restores", "has the tag latest",
	} {
		if !strings.Contains(said, text) {
			t.Errorf("the notes do not say %q:\n%s", text, said)
		}
	}
	if strings.Contains(said, "WARNING: namespace") {
		t.Errorf("the namespace is labelled, and the notes warn:\n%s", said)
	}
	if got := columns(w); got != 0 {
		t.Fatalf("the old CRD has %d columns", got)
	}
	running(w, 2)
	kept := kubectl(t, nil, "create", "-f", objects(t), "-o", "jsonpath={.metadata.name} {.metadata.uid} ")
	authority(t, "YXV0aG9yaXR5")
	first := kubectl(t, nil, "get", "pods", "-n", harness.SystemNamespace, "-o", "name")

	// The upgrade changes values and CRDs. What the operator has written of its own stays.
	upgrade := append([]string{"upgrade", "drover", h.Chart, "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m",
		"--set", "replicas=3", "--set", "config.log.verbosity=1"}, plainKubernetes()...)
	h.Run(upgrade...)
	running(w, 3)
	if got := columns(w); got == 0 {
		t.Error("the CRD was not upgraded: it has no columns")
	}
	if now := kubectl(t, nil, "get", "pods", "-n", harness.SystemNamespace, "-o", "name"); strings.Contains(now, strings.Fields(first)[0]) {
		t.Errorf("the configuration has changed, and a Pod is still the old one: %s, %s", first, now)
	}
	holdsAuthority(t)

	h.Run("rollback", "drover", "1", "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m")
	running(w, 2)
	holdsAuthority(t)
	if got := columns(w); got != 0 {
		t.Errorf("the CRD was not rolled back: it has %d columns", got)
	}
	if text := kubectl(t, nil, "get", "configmap", "drover", "-n", harness.SystemNamespace, "-o", "yaml"); strings.Contains(text, "verbosity") {
		t.Errorf("the configuration was not rolled back:\n%s", text)
	}
	h.Run(upgrade...)
	running(w, 3)

	h.Run("uninstall", "drover", "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m")
	left(w, before)
	if now := kubectl(t, nil, "get", "-f", objects(t), "-o", "jsonpath={range .items[*]}{.metadata.name} {.metadata.uid} {end}"); now != kept {
		t.Errorf("objects were made anew: %s, before %s", now, kept)
	}

	// What an uninstall has kept is taken again.
	h.Run(append([]string{"install", "drover", h.Chart, "--namespace", harness.SystemNamespace}, plainKubernetes()...)...)
	h.Run("uninstall", "drover", "--namespace", harness.SystemNamespace, "--wait", "--timeout", "3m")
	kubectl(t, nil, "delete", "-f", objects(t))
	if err := clear(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestChart_NamespaceOfMachinesIsMissing: a capability whose roles are in a namespace that does not exist is refused before anything is created.
func TestChart_NamespaceOfMachinesIsMissing(t *testing.T) {
	h := helm.New(t, env)
	for _, capability := range []string{"metadata", "autoscaling"} {
		h.Refused("there is no namespace absent for MachineSets and Machines", append([]string{"install", "drover", h.Chart, "--namespace",
			harness.SystemNamespace, "--dry-run=server", "--set", "config.namespace=absent"}, helm.Only(capability)...)...)
	}
}

// plainKubernetes are the values for a cluster that is no OpenShift.
func plainKubernetes() []string {
	return []string{"--set", "capabilities.machines=true,capabilities.autoscaling=true"}
}

// left waits until an uninstall has left what it keeps, and no more.
func left(w *harness.World, before map[string]bool) {
	w.Helper()
	want := []string{
		"Namespace medik8s-leases", "Namespace openshift-machine-api", "MutexTarget drover-system/kept", "MachineSet openshift-machine-api/kept",
	}
	for _, name := range crds {
		want = append(want, "CustomResourceDefinition "+name)
	}
	slices.Sort(want)
	w.Eventually("what an uninstall leaves", func() error {
		var more []string
		for _, key := range slices.Sorted(maps.Keys(inventory(w.TB))) {
			if !before[key] {
				more = append(more, key)
			}
		}
		if diff := cmp.Diff(want, more); diff != "" {
			return fmt.Errorf("it is not what it should be: %s", diff)
		}
		return nil
	})
}

// ofOthers are kinds whose objects come and go without any install, or belong to every namespace.
var ofOthers = []string{"Event", "Lease", "EndpointSlice", "Endpoints", "Pod", "ReplicaSet", "CSINode", "IPAddress", "APIService", "ComponentStatus"}

// inventory lists all objects of the cluster.
func inventory(t testing.TB) map[string]bool {
	t.Helper()
	client, err := discovery.NewDiscoveryClientForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	lists, err := client.ServerPreferredResources()
	if err != nil && !discovery.IsGroupDiscoveryFailedError(err) {
		t.Fatal(err)
	}
	objects, err := dynamic.NewForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, list := range lists {
		version, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			t.Fatal(err)
		}
		for _, resource := range list.APIResources {
			if !slices.Contains(resource.Verbs, "list") || slices.Contains(ofOthers, resource.Kind) {
				continue
			}
			all, err := objects.Resource(version.WithResource(resource.Name)).List(t.Context(), metav1.ListOptions{})
			if err != nil {
				continue // a CRD that is on its way
			}
			for i := range all.Items {
				if name := all.Items[i].GetName(); name != "kube-root-ca.crt" && name != "default" {
					found[helm.KeyOf(&all.Items[i])] = true
				}
			}
		}
	}
	return found
}

// restrictedNamespace makes the namespace of the release, as config/ has it.
func restrictedNamespace(w *harness.World) {
	w.Helper()
	folder, err := harness.Folder("config/manager")
	if err != nil {
		w.Fatal(err)
	}
	kubectl(w, nil, "apply", "-f", filepath.Join(folder, "namespace.yaml"))
}

// older returns a copy of the chart with an older version of a CRD.
func older(t *testing.T, chart string) string {
	t.Helper()
	copied := filepath.Join(t.TempDir(), "drover")
	if err := os.CopyFS(copied, os.DirFS(chart)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(copied, "files/crds/maintenance/nodemaintenance.medik8s.io_nodemaintenances.yaml")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	crd := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(text, &crd.Object); err != nil {
		t.Fatal(err)
	}
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	version, ok := versions[0].(map[string]any)
	if !ok || version["additionalPrinterColumns"] == nil {
		t.Fatal("the CRD has no columns")
	}
	delete(version, "additionalPrinterColumns")
	if err := unstructured.SetNestedSlice(crd.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.Marshal(crd.Object); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return copied
}

// columns counts the printer columns of the CRD in the API server, without NAME and AGE.
func columns(w *harness.World) int {
	w.Helper()
	text := kubectl(w, nil, "get", "crd", maintenanceCRD, "-o", "jsonpath={.spec.versions[0].additionalPrinterColumns[*].name}")
	return len(slices.DeleteFunc(strings.Fields(text), func(name string) bool { return name == "Age" }))
}

// running waits until the Deployment has as many Pods that are ready, and no others.
func running(w *harness.World, replicas int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%d replicas", replicas), func() error {
		list := &corev1.PodList{}
		text := kubectl(w, nil, "get", "pods", "-n", harness.SystemNamespace, "-o", "json")
		if err := json.Unmarshal([]byte(text), list); err != nil {
			return err
		}
		ready := 0
		for i := range list.Items {
			for _, condition := range list.Items[i].Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue && list.Items[i].DeletionTimestamp == nil {
					ready++
				}
			}
		}
		if ready != replicas || len(list.Items) != replicas {
			return fmt.Errorf("%d of %d Pods are ready", ready, len(list.Items))
		}
		return nil
	})
}

// objects are some of the kinds that the chart brings.
func objects(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "objects.yaml")
	text := `
apiVersion: openshift-optional.skrzypek.io/v1alpha1
kind: MutexTarget
metadata: {name: kept, namespace: drover-system}
spec: {machineConfigPools: [infra]}
---
apiVersion: machine.openshift.io/v1beta1
kind: MachineSet
metadata: {name: kept, namespace: openshift-machine-api}
spec:
  replicas: 0
  selector: {matchLabels: {pool: kept}}
  template: {metadata: {labels: {pool: kept}}, spec: {providerSpec: {}}}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// authority writes into the webhook's configuration what the operator writes there.
func authority(t *testing.T, bundle string) {
	t.Helper()
	const add = `{"op":"add","path":"/webhooks/%d/clientConfig/caBundle","value":%q}`
	patch := fmt.Sprintf("["+add+","+add+"]", 0, bundle, 1, bundle)
	kubectl(t, nil, "patch", "validatingwebhookconfiguration", "drover", "--type=json", "-p", patch, "--field-manager=drover")
}

func holdsAuthority(t *testing.T) {
	t.Helper()
	text := kubectl(t, nil, "get", "validatingwebhookconfiguration", "drover", "-o", "jsonpath={.webhooks[*].clientConfig.caBundle}")
	if text != "YXV0aG9yaXR5 YXV0aG9yaXR5" {
		t.Errorf("the webhook's authority is %q", text)
	}
}
