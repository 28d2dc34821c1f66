package machines

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/harness"
)

// condition waits until a condition of a Machine has a reason, or is True.
func condition(p *harness.Pool, name, kind, want string) {
	p.Helper()
	p.Eventually(fmt.Sprintf("%s of Machine %s is %s", kind, name, want), func() error {
		found := status.MachineCondition(p.Machine(name).Status.Conditions, machinev1beta1.ConditionType(kind))
		if found == nil || found.Reason != want && (want != "True" || found.Status != corev1.ConditionTrue) {
			return fmt.Errorf("it is %s", harness.JSON(found))
		}
		return nil
	})
}

func TestDeletion_DrainBlockedByBudgetDelaysNoOther(t *testing.T) {
	w := besideOthers(t)
	s := w.Site()
	p := w.MakePool("drained", 2, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Labels = map[string]string{harness.SiteLabel: s.Name}
	})
	p.Runs(2)
	s.Deployment("app", harness.Pods{Replicas: 2})
	budget := builder.PodDisruptionBudget(s.Name, "app", map[string]string{"app": "app"}, harness.MaxUnavailable(0))
	if err := w.Client.Create(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	var blocked string
	for _, pod := range s.Pods("app") {
		blocked = pod.Spec.NodeName
	}
	p.DeleteMachine(blocked)
	condition(p, blocked, "Drained", "Draining")
	if !w.Node(blocked).Spec.Unschedulable || w.Holder(blocked) != "drover-machines" {
		t.Errorf("the node is cordoned: %v, its lease is held by %q", w.Node(blocked).Spec.Unschedulable, w.Holder(blocked))
	}
	// Its place is taken at once, and others come and go meanwhile.
	other := w.MakePool("drained-other", 1, nil)
	name := other.Runs(1)[0].Name
	begun := other.DeleteMachine(name)
	other.Gone(name)
	t.Logf("another Machine was gone %s after its deletion", time.Since(begun).Round(time.Millisecond))
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxUnavailable":1}}`))
	if err := w.Client.Patch(t.Context(), budget, patch); err != nil {
		t.Fatal(err)
	}
	p.Gone(blocked)
	w.NoLease(blocked)
	p.Runs(2)
}

// TestDeletion_LifecycleHooks is "pause lifecycle actions when present" of machine-api-operator's suite.
func TestDeletion_LifecycleHooks(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("hooked", 1, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) {
		set.Spec.Template.Spec.LifecycleHooks = machinev1beta1.LifecycleHooks{
			PreDrain:     []machinev1beta1.LifecycleHook{{Name: "TestPreDrain", Owner: "test"}},
			PreTerminate: []machinev1beta1.LifecycleHook{{Name: "TestPreTerminate", Owner: "test"}},
		}
	})
	name := p.Runs(1)[0].Name
	p.DeleteMachine(name)
	condition(p, name, "Drainable", "HookPresent")
	condition(p, name, "Ready", "Deleting")
	if w.Node(name).Spec.Unschedulable {
		t.Error("the node is cordoned although the drain is held up")
	}
	unhook := func(list string) {
		patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"lifecycleHooks":{%q:null}}}`, list))
		if err := w.Client.Patch(t.Context(), w.Machine(name), patch); err != nil {
			t.Fatal(err)
		}
	}
	unhook("preDrain")
	condition(p, name, "Drained", "True")
	condition(p, name, "Terminable", "HookPresent")
	if w.Node(name).DeletionTimestamp != nil {
		t.Error("the Node was deleted before the hook was gone")
	}
	unhook("preTerminate")
	p.Gone(name)
}

func TestDeletion_MachineNeverBooted(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("never", 1, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) { spec.Failure.NeverBoots = true })
	var name string
	w.Eventually("the Machine waits for its Node", func() error {
		machines := p.Machines()
		if len(machines) != 1 || machines[0].Status.Phase == nil || *machines[0].Status.Phase != machinev1beta1.PhaseProvisioned {
			return fmt.Errorf("there are %s", harness.JSON(machines))
		}
		name = machines[0].Name
		return nil
	})
	p.Scale(0)
	p.Gone(name)
}

func TestMachine_ProviderErrorInStatus(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("refused", 1, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) {
		spec.Failure.Create = machinev1beta1.InvalidConfigurationMachineError
	})
	w.Eventually("the Machine is Failed", func() error {
		machines := p.Machines()
		if len(machines) != 1 || machines[0].Status.ErrorReason == nil ||
			*machines[0].Status.ErrorReason != machinev1beta1.InvalidConfigurationMachineError || *machines[0].Status.Phase != machinev1beta1.PhaseFailed {
			return fmt.Errorf("there are %s", harness.JSON(machines))
		}
		return nil
	})
	p.Scale(0)
	p.Runs(0)
}
