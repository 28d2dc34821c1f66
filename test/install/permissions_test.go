package install

import (
	"context"
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	autoscaling "github.com/drover-io/drover/api/autoscaling/v1beta1"
	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/config/crd"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
	sandbox "github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
)

func capabilities() []helm.Alone {
	return []helm.Alone{
		{Name: "metadata", Controllers: "metadata", Work: carry, Never: []string{
			"delete nodes", "delete pods", "create pods/eviction", "get secrets drover-system", "create jobs.batch", "patch nodes/status",
			"delete machines.machine.openshift.io openshift-machine-api", "create leases.coordination.k8s.io medik8s-leases",
		}},
		{Name: "node-groups", Controllers: "node-groups", Work: group, Never: []string{
			"delete nodes", "delete pods", "create pods/eviction", "get secrets drover-system", "patch nodes/status", "create nodegroups.drover.dev",
			"list machines.machine.openshift.io openshift-machine-api", "create leases.coordination.k8s.io medik8s-leases",
		}},
		{Name: "maintenance", Controllers: "maintenance,maintenance-kubevirt", Work: maintain, Never: []string{
			"create nodes", "delete nodes", "get secrets kube-system", "update secrets drover-system", "create jobs.batch", "create pods",
			"patch machines.machine.openshift.io openshift-machine-api", "delete leases.coordination.k8s.io kube-system",
		}},
		{Name: "machines", Controllers: "machines", Work: makeMachines, Never: []string{
			"delete pods", "get secrets drover-system", "create secrets drover-system", "create jobs.batch", "create pods kubemark-actuator",
			"patch nodemaintenances.nodemaintenance.medik8s.io", "create machines.machine.openshift.io default",
		}},
		{Name: "autoscaling", Controllers: "autoscaling", Work: bound, Never: []string{
			"list nodes", "list pods", "get secrets drover-system", "list machines.machine.openshift.io openshift-machine-api",
			"patch machinesets.machine.openshift.io default", "create machineautoscalers.autoscaling.openshift.io openshift-machine-api",
		}},
	}
}

// TestPermissions_OneCapabilityAlone: with the roles of the chart, an operator with one capability works without a refused request, and has
// no other permission. The capability upgrade has the same test on OpenShift.
func TestPermissions_OneCapabilityAlone(t *testing.T) {
	for _, c := range capabilities() {
		t.Run(c.Name, func(t *testing.T) {
			if c.Name == "metadata" || c.Name == "autoscaling" {
				platform(t)
			}
			c.Test(t, env)
			if err := clear(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// platform brings what OpenShift has.
func platform(t *testing.T) {
	t.Helper()
	if _, err := sandbox.InstallCRDs(t.Context(), env.Admin(), crd.Files, "."); err != nil {
		t.Fatal(err)
	}
	kubectl(t, nil, "create", "namespace", machines)
}

// group has a NodeGroup reach a Node.
func group(w *harness.World) {
	w.Helper()
	node := builder.Node("grouped", builder.WithNodeLabels(map[string]string{"example.com/pool": "a"}))
	w.CreateWithCleanup(node)
	declared := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "grouped"}}
	declared.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"example.com/pool": "a"}}
	declared.Spec.Metadata = &drover.Metadata{Labels: map[string]drover.LabelValue{"example.com/team": "blue"}}
	w.CreateWithCleanup(declared)
	w.Eventually("the Node carries what its group declares", func() error {
		return harness.Has(w.Node("grouped"), map[string]string{"example.com/team": "blue"}, nil)
	})
	if err := w.Client.Delete(w.Context(), declared); err != nil {
		w.Fatal(err)
	}
	w.Eventually("the group is gone", func() error {
		if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(declared), &drover.NodeGroup{}); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is still there: %w", err)
		}
		return nil
	})
}

// bound has a MachineAutoscaler bound a MachineSet, and deletes it.
func bound(w *harness.World) {
	w.Helper()
	w.CreateWithCleanup(harness.NewMachineSet("bound", 0))
	ma := &autoscaling.MachineAutoscaler{ObjectMeta: harness.Meta("bound"), Spec: autoscaling.MachineAutoscalerSpec{
		MaxReplicas:    3,
		ScaleTargetRef: autoscaling.CrossVersionObjectReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: "bound"},
	}}
	w.CreateWithCleanup(ma)
	has := func(count int) {
		w.Eventually(fmt.Sprintf("the MachineSet has %d annotations", count), func() error {
			if annotations := w.Set("bound").Annotations; len(annotations) != count {
				return fmt.Errorf("annotations %v", annotations)
			}
			return nil
		})
	}
	has(3)
	if err := w.Client.Delete(w.Context(), ma); err != nil {
		w.Fatal(err)
	}
	w.Gone(ma)
	has(0)
}

func carry(w *harness.World) {
	w.Pool(sandbox.PoolOptions{Name: "carried", Machines: 2})
	harness.Update(w, w.Set, "carried", func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
	})
	w.Nodes("carried", "the label", func(node *corev1.Node) error {
		return harness.Has(node, map[string]string{"example.com/team": "blue"}, nil)
	})
}

func maintain(w *harness.World) {
	s := w.Site()
	node := s.AddNode()
	s.Deployment("web", harness.Pods{Replicas: 2})
	m := w.Maintain(node, nil)
	m.Phase("Succeeded")
	m.End()
	older := w.MaintainKubevirt(node)
	older.Phase("Succeeded")
	older.End()
	w.ChangeNode(node, func(n *corev1.Node) {
		n.Annotations[drain.AnnotationCordon] = `{"by":"Machine/gone","object":"openshift-machine-api/gone","since":"2026-01-01T00:00:00Z"}`
	})
	orphaned := w.Maintain(node, nil)
	orphaned.Phase("Succeeded")
	orphaned.End()
}

func makeMachines(w *harness.World) {
	folder, err := harness.Folder("config/kwok")
	if err != nil {
		w.Fatal(err)
	}
	provider := func(verb string) {
		if output, err := harness.Kubectl(context.WithoutCancel(w.Context()), env, nil, verb, "-k", folder); err != nil {
			w.Error(err, output)
		}
	}
	provider("apply")
	defer provider("delete")
	w.Eventually("the API server's authorizer knows the provider's role", func() error {
		account := fmt.Sprintf("--as=system:serviceaccount:%s:drover", harness.SystemNamespace)
		output, err := harness.Kubectl(w.Context(), env, nil, "auth", "can-i", "create", "nodes", account)
		if err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	})
	pool := w.MakePool("made", 2, nil)
	pool.Runs(2)
	pool.Scale(1)
	pool.Runs(1)
	// No Machine may exist when the provider's role is deleted: a Machine that the operator creates at that moment would keep its finalizer, and so its
	// CRD.
	pool.Scale(0)
	pool.Runs(0)
}
