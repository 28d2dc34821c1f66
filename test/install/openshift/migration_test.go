package openshift

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

// The tests of this file run in this order: the second takes over what the first has installed.

// TestMigration follows docs/install.md from the replaced operators to Drover, step by step: their objects exist, the operators are off, Drover
// takes over their CRDs, and continues what they had begun.
func TestMigration(t *testing.T) {
	w, h := harness.NewWorld(t, env), helm.New(t, env)
	kubectl(t, nil, "apply", "-k", folder(t, "config/crd/mutex"))
	s := w.Site()
	m := maintained(s)
	pool(w)
	kubectl(t, strings.NewReader(foreignWebhook), "apply", "-f", "-")
	gate := &medik8s.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Name: "refused"}, Spec: medik8s.NodeMaintenanceSpec{NodeName: m.Node}}
	s.Eventually("the webhook of node-maintenance-operator, which is off, refuses", func() error {
		// A trial: until the API server has heard of the webhook nothing refuses, and the object would be there.
		if err := w.Client.Create(t.Context(), gate.DeepCopy(), client.DryRunAll); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
			return fmt.Errorf("it says %w", err)
		}
		return nil
	})
	uid := m.Get().GetUID()

	// The replaced operators are off; their CRDs are taken over, when the user says so. Their webhook goes when Drover's exists: there is no
	// moment without a check.
	install := []string{"install", "drover", h.Chart, "--namespace", harness.SystemNamespace, "--create-namespace", "--set", "replicas=0"}
	h.Refused("cannot be imported into the current release", install...)
	h.Run(append(install, "--take-ownership")...)
	kubectl(t, nil, "get", "validatingwebhookconfiguration", "drover")
	kubectl(t, nil, "delete", "validatingwebhookconfiguration", "node-maintenance-operator")
	if got := m.Get().GetUID(); got != uid {
		t.Errorf("the NodeMaintenance is another one: %s, before %s", got, uid)
	}
	text := kubectl(t, nil, "get", "crd", "-o", "jsonpath={range .items[*]}{.metadata.name}={.metadata.annotations.meta\\.helm\\.sh/release-name} {end}")
	for _, crd := range []string{"nodemaintenances.nodemaintenance.medik8s.io=drover", "mutexrules.openshift-optional.skrzypek.io=drover",
		"machines.machine.openshift.io= "} {
		if !strings.Contains(text+" ", crd) {
			t.Errorf("%s is not among the CRDs %s", crd, text)
		}
	}

	// What they had begun goes on.
	kubectl(t, nil, "delete", "validatingwebhookconfiguration", "drover")
	operator := w.Operator(harness.Options{Args: []string{"--controllers=metadata,maintenance,maintenance-kubevirt,upgrade"}})
	for _, capability := range []string{"metadata", "maintenance", "maintenance-kubevirt", "upgrade"} {
		if err := operator.Says(t.Context(), "capability "+capability+": running"); err != nil {
			t.Fatal(err)
		}
	}
	m.Phase(medik8s.PhaseSucceeded)
	m.End()
	s.AwaitNode(m.Node, "giving back", func(node *corev1.Node) error {
		if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
			return fmt.Errorf("it is unschedulable=%t with taints %v", node.Spec.Unschedulable, node.Spec.Taints)
		}
		return nil
	})
	// MNMO's record says that the label is the pool's: it goes with it.
	harness.Update(w, w.Set, "old", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/new": "1"}
	})
	w.Nodes("old", "the labels", func(node *corev1.Node) error {
		if _, there := node.Labels["example.com/old"]; there || node.Labels["example.com/new"] != "1" || node.Labels["example.com/hand"] != "1" {
			return fmt.Errorf("node %s has %v", node.Name, node.Labels)
		}
		return nil
	})
}

// maintained is a node that node-maintenance-operator has drained, with its object.
func maintained(s *harness.Site) *harness.Maintenance {
	s.Helper()
	node := s.AddNode(func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Labels["remediation.medik8s.io/exclude-from-remediation"] = "true"
		n.Spec.Taints = []corev1.Taint{
			harness.Taint("node.kubernetes.io/unschedulable", "", corev1.TaintEffectNoSchedule),
			harness.Taint("medik8s.io/drain", "", corev1.TaintEffectNoSchedule),
		}
	})
	object := &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: node, Finalizers: []string{medik8s.Finalizer}}, Spec: medik8s.NodeMaintenanceSpec{NodeName: node},
	}
	m := &harness.Maintenance{World: s.World, Name: node, Node: node}
	m.Begin(object)
	object.Status = medik8s.NodeMaintenanceStatus{Phase: medik8s.PhaseSucceeded, DrainProgress: 100, LastUpdate: new(metav1.Now())}
	if err := s.Client.Status().Update(s.Context(), object); err != nil {
		s.Fatal(err)
	}
	kubectl(s.TB, nil, "create", "namespace", "medik8s-leases")
	s.TakeLease(node, "node-maintenance", time.Hour)
	return m
}

// pool makes a pool with Nodes as managed-node-metadata-operator leaves them.
func pool(w *harness.World) {
	w.Helper()
	w.Pool(cluster.PoolOptions{
		Name: "old", Machines: 2, Labels: map[string]string{"example.com/old": "1"}, CopyToNodes: true,
		NodeLabels: map[string]string{"example.com/hand": "1"}, NodeAnnotations: map[string]string{"managed.openshift.com/customlabels": "example.com/old"},
	})
}

// foreignWebhook is what node-maintenance-operator leaves when it is scaled to 0.
const foreignWebhook = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: node-maintenance-operator}
webhooks:
- name: vnodemaintenance.kb.io
  admissionReviewVersions: [v1]
  sideEffects: None
  clientConfig:
    service: {name: absent, namespace: default, path: /validate-nodemaintenance-medik8s-io-v1beta1-nodemaintenance}
  rules:
  - {apiGroups: [nodemaintenance.medik8s.io], apiVersions: [v1beta1], operations: [CREATE, UPDATE], resources: [nodemaintenances]}
`

// TestMigration_Machines: the CRDs stay the platform's; the capability waits until the machine-api-operator is off, and begins then.
func TestMigration_Machines(t *testing.T) {
	w, h := harness.NewWorld(t, env), helm.New(t, env)
	deployment := `
apiVersion: apps/v1
kind: Deployment
metadata: {name: machine-api-controllers, namespace: openshift-machine-api}
spec:
  replicas: 1
  selector: {matchLabels: {k8s-app: controller}}
  template:
    metadata: {labels: {k8s-app: controller}}
    spec: {containers: [{name: machine-controller, image: sandbox.invalid/mao}]}
`
	kubectl(t, strings.NewReader(deployment), "apply", "-f", "-")
	h.Run("upgrade", "--install", "drover", h.Chart, "--namespace", harness.SystemNamespace, "--create-namespace", "--take-ownership",
		"--set", "replicas=0", "--set", "capabilities.machines=true")
	for _, platforms := range []string{"crd/machinesets.machine.openshift.io", "namespace/openshift-machine-api"} {
		if text := kubectl(t, nil, "get", platforms, "-o", "jsonpath={.metadata.annotations}"); strings.Contains(text, "helm") {
			t.Errorf("%s was taken over: %s", platforms, text)
		}
	}
	kubectl(t, nil, "delete", "validatingwebhookconfiguration", "drover")
	operator := w.Operator(harness.Options{Args: []string{"--controllers=machines"}})
	if err := operator.Says(t.Context(), "capability machines: off (OpenShift's machine-api-operator works here"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, nil, "scale", "deployment", "machine-api-controllers", "-n", "openshift-machine-api", "--replicas=0")
	if err := operator.Says(t.Context(), "capability machines: running"); err != nil {
		t.Fatal(err)
	}
	h.Run("uninstall", "drover", "--namespace", harness.SystemNamespace, "--wait")
	kubectl(t, nil, "delete", "deployment", "machine-api-controllers", "-n", "openshift-machine-api")
	var machines machinev1beta1.MachineList
	if err := w.Client.List(t.Context(), &machines, client.InNamespace(cluster.MachineNamespace)); err != nil {
		t.Errorf("the platform's CRD is gone: %v", err)
	}
}
