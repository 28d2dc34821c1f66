package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

const kubelet = "kubelet with the certificate of its Node"

// annotate returns a merge patch that sets an annotation.
func annotate(key, value string) client.Patch {
	return client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":"`+value+`"}}}`))
}

// TestKubelet_RecordsOfItsNode: NodeRestriction lets a kubelet write every annotation of its own Node.
func TestKubelet_RecordsOfItsNode(t *testing.T) {
	w := harness.NewWorld(t, env)
	site := w.Site()
	name := site.AddNode()
	config, err := env.AsNode(name)
	if err != nil {
		t.Fatal(err)
	}
	node, asKubelet := w.Node(name), harness.ClientFor(t, config)
	records := []string{
		ownership.AnnotationRecord, drain.AnnotationCordon, "upgrade.drover.dev/released", "upgrade.drover.dev/anything", "drover.dev/paused",
		ownership.AnnotationCustomLabels, "machine.openshift.io/machine",
	}
	w.Eventually("the policy is in force", func() error {
		if err := asKubelet.Patch(t.Context(), node, annotate(records[0], "x"), client.DryRunAll); err == nil {
			return errors.New("the kubelet may write a record")
		}
		return nil
	})
	for _, key := range records {
		attack(t, kubelet, "writes "+key, func(t *testing.T) string {
			return denied(t, asKubelet.Patch(t.Context(), w.Node(name), annotate(key, "forged")))
		})
		attack(t, kubelet, "writes "+key+" with its status", func(t *testing.T) string {
			return denied(t, asKubelet.Status().Patch(t.Context(), w.Node(name), annotate(key, "forged")))
		})
		w.Merge(w.Node(name), `{"metadata":{"annotations":{"`+key+`":"an administrator's"}}}`)
		attack(t, kubelet, "changes "+key, func(t *testing.T) string {
			return denied(t, asKubelet.Patch(t.Context(), w.Node(name), annotate(key, "forged")))
		})
		attack(t, kubelet, "removes "+key, func(t *testing.T) string {
			remove := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+key+`":null}}}`))
			return denied(t, asKubelet.Patch(t.Context(), w.Node(name), remove))
		})
	}
	const version = "machineconfiguration.openshift.io/release-image-version"
	attack(t, kubelet, "labels its Node with the version of the upgrade", func(t *testing.T) string {
		done := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+version+`":"4.19.0"}}}`))
		return denied(t, asKubelet.Patch(t.Context(), w.Node(name), done))
	})
	for _, key := range []string{"mutexrule.openshift-optional.skrzypek.io/rule.ns", "upgrade.drover.dev/run", version} {
		w.Merge(w.Node(name), `{"metadata":{"labels":{"`+key+`":"true"}}}`)
		attack(t, kubelet, "removes the label "+key, func(t *testing.T) string {
			remove := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+key+`":null}}}`))
			return denied(t, asKubelet.Patch(t.Context(), w.Node(name), remove))
		})
	}
	for attempt, text := range map[string]string{
		"has the garbage collector delete its Node, to register it again with other labels": goneOwner,
		"keeps its Node when its Machine is deleted, by a finalizer":                        `{"metadata":{"finalizers":["example.com/mine"]}}`,
	} {
		attack(t, kubelet, attempt, func(t *testing.T) string {
			return denied(t, asKubelet.Patch(t.Context(), w.Node(name), client.RawPatch(types.MergePatchType, []byte(text))))
		})
	}
	// What kubelets do write goes on beside the records.
	attach := annotate("volumes.kubernetes.io/controller-managed-attach-detach", "true")
	if err := asKubelet.Status().Patch(t.Context(), w.Node(name), attach); err != nil {
		t.Error(err)
	}
	heartbeat := client.RawPatch(types.StrategicMergePatchType, []byte(
		`{"status":{"conditions":[{"type":"Ready","status":"True","reason":"KubeletReady"}]}}`))
	if err := asKubelet.Status().Patch(t.Context(), w.Node(name), heartbeat); err != nil {
		t.Error(err)
	}
	// The machine-config-daemon writes with the kubelet's credentials.
	for _, key := range []string{"example.com/mine", version, "machineconfiguration.openshift.io/state"} {
		if err := asKubelet.Patch(t.Context(), w.Node(name), annotate(key, "yes")); err != nil {
			t.Error(err)
		}
	}
}

// TestKubelet_RegistersWithRecords: a kubelet creates the Node that its certificate names, with a record of Drover on it, and without one.
func TestKubelet_RegistersWithRecords(t *testing.T) {
	const name = "registers-with-records"
	w := harness.NewWorld(t, env)
	config, err := env.AsNode(name)
	if err != nil {
		t.Fatal(err)
	}
	asKubelet := harness.ClientFor(t, config)
	attack(t, kubelet, "registers with a forged cordon record", func(t *testing.T) string {
		node := builder.Node(name)
		node.Annotations[drain.AnnotationCordon] = `{"by":"x"}`
		return denied(t, asKubelet.Create(t.Context(), node))
	})
	node := builder.Node(name)
	node.Annotations["example.com/mine"] = "yes"
	if err := asKubelet.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Delete(t.Context(), node); err != nil {
		t.Error(err)
	}
}

// TestKubelet_RecordsFromBeforeThePolicy: where the policy is not there yet, or not wanted, a kubelet can write any record on its Node. Drover then
// asks the record on the Machine, which no kubelet can write.
func TestKubelet_RecordsFromBeforeThePolicy(t *testing.T) {
	const role = "node-role.kubernetes.io/infra"
	w := harness.NewWorld(t, env)
	withoutPolicy(t, w, "drover-node-records")
	w.Pool(cluster.PoolOptions{Name: "forged", Machines: 4})
	forgeries := map[string]map[string]string{
		"owns the entries":          {ownership.AnnotationRecord: `{"labels":["` + role + `"],"taints":["quarantine:NoSchedule"]}`},
		"has them from its Machine": {ownership.AnnotationRecord: `{"machine":{"labels":["` + role + `"],"taints":["quarantine:NoSchedule"]}}`},
		"removed them a moment ago": {ownership.AnnotationRecord: fmt.Sprintf(
			`{"released":{"label":{%q:{"at":%d}},"taint":{"quarantine:NoSchedule":{"at":%[2]d}}}}`, role, time.Now().Unix())},
		"owns the label as the managed-node-metadata-operator writes it": {ownership.AnnotationCustomLabels: role},
	}
	names := map[string]string{}
	for i, what := range slices.Sorted(maps.Keys(forgeries)) {
		name := fmt.Sprintf("forged-%d", i)
		names[what] = name
		w.Merge(w.Node(name), `{"metadata":{"labels":{"`+role+`":""}},"spec":{"taints":[{"key":"quarantine","effect":"NoSchedule"}]}}`)
		config, err := env.AsNode(name)
		if err != nil {
			t.Fatal(err)
		}
		forged, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": forgeries[what]}})
		if err != nil {
			t.Fatal(err)
		}
		asKubelet := harness.ClientFor(t, config)
		w.Eventually("the kubelet writes its record", func() error {
			return asKubelet.Patch(t.Context(), w.Node(name), client.RawPatch(types.MergePatchType, forged))
		})
	}
	w.Operator(harness.Options{Args: []string{"--controllers=metadata"}})
	harness.Update(w, w.Set, "forged", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	})
	w.Nodes("forged", "the label", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
	})
	for what, name := range names {
		attack(t, kubelet, "writes that Drover "+what+", to have a quarantine taint and a role removed", func(t *testing.T) string {
			node := w.Node(name)
			if _, labelled := node.Labels[role]; !labelled {
				t.Errorf("the label is gone: %v", node.Labels)
			}
			if err := harness.Has(node, nil, nil, "quarantine=:NoSchedule"); err != nil {
				t.Error(err)
			}
			return "the record on the Machine does not name them"
		})
	}
}

// withoutPolicy removes a policy from the API server until the test ends.
func withoutPolicy(t *testing.T, w *harness.World, name string) {
	t.Helper()
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	binding.Name = name
	if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	if err := w.Client.Delete(t.Context(), binding.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		binding.ResourceVersion = ""
		if err := w.Client.Create(context.WithoutCancel(t.Context()), binding); err != nil {
			t.Error(err)
		}
	})
}
