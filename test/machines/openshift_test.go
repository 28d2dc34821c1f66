package machines

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/openshift"
	"github.com/drover-io/drover/test/harness"
)

// openShift makes the control plane one of OpenShift, as far as Drover looks at it, until the test ends.
func openShift(w *harness.World, t *testing.T) client.Client {
	t.Helper()
	folder := filepath.Join(harness.OpenShiftAPI(t), "config/v1/zz_generated.crd-manifests")
	files := []string{
		"-f", filepath.Join(folder, "0000_00_cluster-version-operator_01_clusteroperators.crd.yaml"),
		"-f", filepath.Join(folder, "0000_10_config-operator_01_infrastructures-Default.crd.yaml"),
	}
	if output, err := harness.Kubectl(t.Context(), env, nil, append([]string{"apply", "--server-side"}, files...)...); err != nil {
		t.Fatal(err, output)
	}
	clients, err := kubernetes.NewForConfig(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	w.Cleanup(func() {
		// A busy API server takes its time to clean up after a CRD: more than a minute has been seen.
		ctx, cancel := context.WithTimeout(context.Background(), 4*harness.Patience)
		defer cancel()
		if output, err := harness.Kubectl(ctx, env, nil, append([]string{"delete", "--wait=false"}, files...)...); err != nil {
			t.Error(err, output)
		}
		err := harness.WaitLonger(ctx, 4*harness.Patience, time.Second, func() error {
			if _, err := clients.Discovery().ServerResourcesForGroupVersion("config.openshift.io/v1"); !apierrors.IsNotFound(err) {
				return fmt.Errorf("the group is served still (%w)", err)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	scheme := runtime.NewScheme()
	if err := configv1.Install(scheme); err != nil {
		t.Fatal(err)
	}
	admin, err := client.New(env.Admin(), client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	return admin
}

func TestOpenShift_Machines(t *testing.T) {
	w := prepared(t)
	admin := openShift(w, t)
	name := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	w.Eventually("the Infrastructure object", func() error { return admin.Create(t.Context(), name.DeepCopy()) })
	status := client.RawPatch(types.MergePatchType, []byte(
		`{"status":{"infrastructureName":"blue-x7k2p","infrastructureTopology":"HighlyAvailable","controlPlaneTopology":"HighlyAvailable"}}`))
	if err := admin.Status().Patch(t.Context(), name, status); err != nil {
		t.Fatal(err)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=metadata,machines"}})
	p := w.MakePool("openshift", 1, nil)
	if got := p.Runs(1)[0].Labels[plan.LabelCluster]; got != "blue-x7k2p" {
		t.Errorf("the Machine's cluster is %q", got)
	}
	w.Eventually("the ClusterOperator says that Machines are made", func() error {
		report := &configv1.ClusterOperator{}
		if err := admin.Get(t.Context(), types.NamespacedName{Name: openshift.OperatorName}, report); err != nil {
			return err
		}
		states := map[configv1.ClusterStatusConditionType]configv1.ConditionStatus{}
		for _, condition := range report.Status.Conditions {
			states[condition.Type] = condition.Status
		}
		if states[configv1.OperatorAvailable] != configv1.ConditionTrue || states[configv1.OperatorDegraded] != configv1.ConditionFalse {
			return fmt.Errorf("it says %v", states)
		}
		return nil
	})
	refusesWithoutProviderSpec(w, admin)
	keepsFailureDomains(w, admin)
}

// keepsFailureDomains: a failure domain that a Machine, a MachineSet or the ControlPlaneMachineSet uses stays in the Infrastructure; the API server
// answers with machine-api-operator's messages. Labels that belong to no failure domain do not deny anything.
func keepsFailureDomains(w *harness.World, admin client.Client) {
	w.Helper()
	definition := filepath.Join(harness.OpenShiftAPI(w),
		"machine/v1/zz_generated.crd-manifests/0000_10_control-plane-machine-set_01_controlplanemachinesets-Default.crd.yaml")
	kubectl := func(in io.Reader, args ...string) {
		w.Helper()
		if output, err := harness.Kubectl(context.WithoutCancel(w.Context()), env, in, args...); err != nil {
			w.Fatal(err, output)
		}
	}
	// https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-format-library: 1.32 and later.
	output, err := harness.Kubectl(w.Context(), env, nil, "apply", "--server-side", "-f", definition)
	if err != nil && strings.Contains(output+err.Error(), "undeclared reference to 'format'") {
		w.Skip("this version of Kubernetes does not have the CEL library that OpenShift's ControlPlaneMachineSets use; all but that has passed")
	}
	if err != nil {
		w.Fatal(err, output)
	}
	w.Cleanup(func() { kubectl(nil, "delete", "--wait=false", "-f", definition) })
	kubectl(nil, "wait", "--for=condition=Established", "--timeout=60s", "-f", definition)
	const policies = "../../config/vsphere/openshift/admission.yaml"
	kubectl(nil, "apply", "--server-side", "--force-conflicts", "-f", policies)
	// They may have been made before the API server knew what their parameters are.
	kubectl(nil, "annotate", "--overwrite", "-f", policies, "test.drover.dev/looked-at=again")
	w.Cleanup(func() { kubectl(nil, "delete", "--wait=false", "-f", policies) })
	kubectl(strings.NewReader(controlPlane), "create", "-f", "-")
	set, machine := harness.NewMachineSet("spread", 0), harness.NewMachine("spread")
	set.Spec.Template.Labels[plan.LabelRegion], set.Spec.Template.Labels[plan.LabelZone] = "r", "of-a-set"
	machine.Labels = map[string]string{plan.LabelRegion: "r", plan.LabelZone: "of-a-machine"}
	stray := harness.NewMachine("stray")
	stray.Labels = map[string]string{plan.LabelRegion: "elsewhere", plan.LabelZone: "elsewhere"}
	for _, object := range []client.Object{set, machine, stray} {
		w.CreateWithCleanup(object)
	}
	ask := func(zones []string, options ...client.PatchOption) error {
		var domains []string
		for _, zone := range zones {
			domains = append(domains, fmt.Sprintf(`{"name": %q, "region": "r", "zone": %[1]q, "server": "vcenter", "topology": {"datacenter": "d",
				"computeCluster": "/d/host/c", "datastore": "/d/datastore/s", "networks": ["n"]}}`, zone))
		}
		patch := fmt.Sprintf(`{"spec":{"platformSpec":{"type":"VSphere","vsphere":{"vcenters":[{"server":"vcenter","datacenters":["d"]}],
			"failureDomains":[%s]}}}}`, strings.Join(domains, ","))
		return admin.Patch(w.Context(), &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}},
			client.RawPatch(types.MergePatchType, []byte(patch)), options...)
	}
	all := []string{"of-a-machine", "of-a-set", "of-masters", "of-none"}
	w.Eventually("failure domains are added", func() error { return ask(all) })
	const removes = "Infrastructure update would remove vSphere failure domain"
	for zone, want := range map[string]string{
		"of-a-machine": removes + " (region=r, zone=of-a-machine) that is still in use by Machine 'spread'",
		"of-a-set":     removes + " (region=r, zone=of-a-set) that is still in use by MachineSet 'spread'",
		"of-masters":   removes + "(s) still referenced by ControlPlaneMachineSet 'cluster': [of-masters]",
		"of-none":      "",
	} {
		w.Eventually("the failure domain "+zone+" is removed", func() error {
			left := slices.DeleteFunc(slices.Clone(all), func(other string) bool { return other == zone })
			if err := ask(left, client.DryRunAll); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				return fmt.Errorf("the answer is %w", cmp.Or(err, errors.New("yes")))
			}
			return nil
		})
	}
}

// controlPlane is a ControlPlaneMachineSet in the failure domain of-masters.
const controlPlane = `
apiVersion: machine.openshift.io/v1
kind: ControlPlaneMachineSet
metadata: {name: cluster, namespace: openshift-machine-api}
spec:
  replicas: 3
  state: Inactive
  selector: {matchLabels: {machine.openshift.io/cluster-api-machine-role: master, machine.openshift.io/cluster-api-machine-type: master}}
  template:
    machineType: machines_v1beta1_machine_openshift_io
    machines_v1beta1_machine_openshift_io:
      failureDomains: {platform: VSphere, vsphere: [{name: of-masters}]}
      metadata:
        labels:
          machine.openshift.io/cluster-api-machine-role: master
          machine.openshift.io/cluster-api-machine-type: master
          machine.openshift.io/cluster-api-cluster: blue
      spec: {providerSpec: {value: {}}}
`

// refusesWithoutProviderSpec: on the platforms that have a provider of OpenShift's, in the words that its tests look for.
func refusesWithoutProviderSpec(w *harness.World, admin client.Client) {
	w.Helper()
	platform := func(name string) {
		w.Helper()
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"platformStatus":{"type":%q}}}`, name))
		if err := admin.Status().Patch(w.Context(), &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}, patch); err != nil {
			w.Fatal(err)
		}
	}
	// The policy was made before the API server knew what its parameter is.
	if output, err := harness.Kubectl(w.Context(), env, nil, "annotate", "--overwrite", "validatingadmissionpolicy", "drover-provider-spec",
		"test.drover.dev/looked-at=again"); err != nil {
		w.Fatal(err, output)
	}
	set, machine := harness.NewMachineSet("bare", 1), harness.NewMachine("bare")
	set.Spec.Template.Spec.ProviderSpec.Value, machine.Spec.ProviderSpec.Value = nil, nil
	platform("AWS")
	for _, object := range []client.Object{set, machine} {
		w.Eventually(fmt.Sprintf("a %T without providerSpec is refused", object), func() error {
			err := w.Client.Create(w.Context(), object, client.DryRunAll)
			if err == nil || !strings.Contains(err.Error(), "denied request: providerSpec.value: Required value: a value must be provided") {
				return fmt.Errorf("the answer is %w", cmp.Or(err, errors.New("yes")))
			}
			object.SetResourceVersion("")
			return nil
		})
	}
	// Other problems are named with it, and always in one message.
	wrong := set.DeepCopy()
	wrong.Spec.Template.Labels = nil
	for range 10 {
		want := "denied request: [spec.template.metadata.labels: Invalid value: `selector` does not match template `labels`, " +
			"providerSpec.value: Required value: a value must be provided]"
		if err := w.Client.Create(w.Context(), wrong.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), want) {
			w.Errorf("the answer is %v, want %q", err, want)
		}
	}
	platform("BareMetal")
	for _, object := range []client.Object{set, machine} {
		w.Eventually("nothing is asked where a provider may need none", func() error {
			object.SetResourceVersion("")
			return w.Client.Create(w.Context(), object, client.DryRunAll)
		})
	}
}

// No user has configured Drover in place of OpenShift's own operator.
func TestOpenShift_CapabilityOffByDefault(t *testing.T) {
	w := prepared(t)
	openShift(w, t)
	operator := w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	if err := operator.Says(t.Context(), "capability machines: off (this is OpenShift"); err != nil {
		t.Error(err)
	}
}
