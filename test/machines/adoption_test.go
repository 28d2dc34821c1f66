package machines

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestAdoption_ExistingMachineSet: what `drover-sandbox pool create` makes without Drover is what the provider kwok would have made, so
// that a Drover which comes later makes and removes nothing, and goes on from there.
func TestAdoption_ExistingMachineSet(t *testing.T) {
	w := prepared(t)
	p := &harness.Pool{World: w, Name: "taken-over"}
	t.Cleanup(func() { removeSandboxPool(p) })
	err := cluster.CreatePool(t.Context(), env.Admin(), cluster.PoolOptions{
		Name: p.Name, Machines: 4, Labels: map[string]string{"example.com/team": "blue"}, NodeLabels: map[string]string{"example.com/foreign": "yes"},
		NodeTaints: []corev1.Taint{harness.Taint("example.com/foreign", "yes", corev1.TaintEffectPreferNoSchedule)},
	})
	if err != nil {
		t.Fatal(err)
	}
	before := p.Machines()
	nodes := map[string]types.UID{}
	for _, machine := range before {
		nodes[machine.Name] = w.Node(machine.Name).UID
	}
	mark := w.AuditMark()
	w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	w.Eventually("all Machines have the finalizer, and are ready", func() error { return takenOver(p) })
	for _, write := range w.Writes(mark) {
		if write.Verb == "create" || strings.HasPrefix(write.Verb, "delete") {
			t.Errorf("to take over it had to %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	for i, machine := range p.Runs(4) {
		was := &before[i]
		if machine.UID != was.UID || *machine.Spec.ProviderID != *was.Spec.ProviderID || machine.Status.NodeRef.UID != nodes[machine.Name] ||
			harness.JSON(machine.Status.ProviderStatus) != harness.JSON(was.Status.ProviderStatus) ||
			harness.JSON(machine.Labels) != harness.JSON(was.Labels) || harness.JSON(machine.Status.Addresses) != harness.JSON(was.Status.Addresses) {
			t.Errorf("the Machine was\n%s\nand is\n%s", harness.JSON(was), harness.JSON(machine))
		}
	}
	p.Scale(6)
	for _, machine := range p.Runs(6) {
		node := w.Node(machine.Name)
		if node.Labels[cluster.PoolLabel] != p.Name || node.Labels["example.com/foreign"] != "yes" || len(node.Spec.Taints) != 1 {
			t.Errorf("node %s has the labels %v and the taints %v", node.Name, node.Labels, node.Spec.Taints)
		}
	}
	p.Scale(2)
	p.Runs(2)
}

// takenOver says what is missing to all Machines being Drover's. None may leave the phase Running meanwhile.
func takenOver(p *harness.Pool) error {
	p.Helper()
	for _, machine := range p.Machines() {
		if *machine.Status.Phase != machinev1beta1.PhaseRunning {
			p.Errorf("machine %s is %s", machine.Name, harness.JSON(machine.Status))
		}
		ready := slices.ContainsFunc(machine.Status.Conditions, func(c machinev1beta1.Condition) bool {
			return c.Type == "Ready" && c.Status == corev1.ConditionTrue
		})
		if !ready || !slices.Contains(machine.Finalizers, machinev1beta1.MachineFinalizer) {
			return fmt.Errorf("machine %s has the finalizers %v and the conditions %s",
				machine.Name, machine.Finalizers, harness.JSON(machine.Status.Conditions))
		}
	}
	return nil
}

// removeSandboxPool removes the pool when no operator runs any more that would take the finalizers off.
func removeSandboxPool(p *harness.Pool) {
	ctx, cancel := context.WithTimeout(context.Background(), harness.Patience)
	defer cancel()
	var list machinev1beta1.MachineList
	err := p.Client.List(ctx, &list, client.InNamespace(cluster.MachineNamespace), client.MatchingLabels{cluster.MachineSetLabel: p.Name})
	for i := range list.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		err = errors.Join(err, client.IgnoreNotFound(p.Client.Patch(ctx, &list.Items[i], patch)))
	}
	if err := errors.Join(err, cluster.DeletePool(ctx, env.Admin(), cluster.PoolOptions{Name: p.Name})); err != nil {
		p.Error(err)
	}
}
