package attacks

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestKubelet_FloodOfConditions: a kubelet that writes thousands of conditions into the status of its Node, again and again, takes little memory, and
// a MachineHealthCheck sees the Nodes of others.
func TestKubelet_FloodOfConditions(t *testing.T) {
	harness.TestAllOnly(t, "a minute of large writes")
	const writes, conditions, allowed = 40, 20_000, 200 << 20
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	token, err := harness.MetricsToken(t.Context(), env, w.Client)
	if err != nil {
		t.Fatal(err)
	}
	operator := w.Operator(harness.Options{Args: []string{"--controllers=metadata,machines", "-v=0"}})
	machines := w.MakePool("flooded", 1, nil).Runs(1)
	check := breaking("flooded")
	w.CreateWithCleanup(check)
	name := w.Site().AddNode()
	config, err := env.AsNode(name)
	if err != nil {
		t.Fatal(err)
	}
	kubelet := harness.ClientFor(t, config)
	before := use(t, operator, token)
	attack(t, "kubelet with its node's certificate", fmt.Sprintf("writes %d conditions %d times", conditions, writes), func(t *testing.T) string {
		for round := range writes {
			node := w.Node(name)
			node.ResourceVersion, node.ManagedFields, node.Status.Conditions = "", nil, make([]corev1.NodeCondition, conditions)
			for i := range node.Status.Conditions {
				node.Status.Conditions[i] = corev1.NodeCondition{
					Type: corev1.NodeConditionType(fmt.Sprintf("c%05d", i)), Status: []corev1.ConditionStatus{"True", "False"}[round%2],
				}
			}
			if err := kubelet.Status().Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
		}
		breakNode(w, machines[0].Status.NodeRef.Name)
		w.Eventually("the MachineHealthCheck sees the broken Node", func() error {
			now := &machinev1beta1.MachineHealthCheck{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), now); err != nil {
				return err
			}
			if now.Status.CurrentHealthy == nil || *now.Status.CurrentHealthy != 0 {
				return fmt.Errorf("it is %s", harness.JSON(now.Status))
			}
			return nil
		})
		after := use(t, operator, token)
		if growth := after.peak - before.peak; growth > allowed {
			t.Errorf("the process has grown by %s MiB, at most %s are allowed", mib(growth), mib(allowed))
		}
		return "Drover reads the first 64 conditions; " + after.since(before)
	})
}

// breaking returns a MachineHealthCheck of a MachineSet that takes a Node for unhealthy when its condition Broken is True, and remediates nothing.
func breaking(set string) *machinev1beta1.MachineHealthCheck {
	check := newHealthCheck(set, "", "")
	check.Spec.RemediationTemplate = nil
	check.Spec.Selector.MatchLabels = map[string]string{cluster.MachineSetLabel: set}
	check.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{{Type: "Broken", Status: corev1.ConditionTrue}}
	return check
}

func breakNode(w *harness.World, name string) {
	w.Helper()
	node := w.Node(name)
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: "Broken", Status: corev1.ConditionTrue})
	if err := w.Client.Status().Update(w.Context(), node); err != nil {
		w.Fatal(err)
	}
}
