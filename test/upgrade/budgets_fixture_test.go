package upgrade

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// unhealthy is a condition that only these tests set. The Node stays Ready, so that its remediation needs a place in the budget.
const unhealthy = "RaceUnhealthy"

// taintKey is the key of the taint that the group declares.
const taintKey = "example.com/race"

// budgetRace is a NodeGroup of two MachineSets, with what every capability needs to disrupt its Nodes.
type budgetRace struct {
	*harness.Site

	// replaced is the MachineSet whose template changes, steady the other one.
	replaced, steady *harness.Pool
}

// newBudgetRace makes two MachineSets of so many Machines each, a MachineConfigPool of their Nodes, a MutexRunConfig that gates its upgrades, a
// MachineHealthCheck, and a NodeGroup of all Nodes with a budget.
func newBudgetRace(t *testing.T, machines int32, budget int32) *budgetRace {
	t.Helper()
	shared.Pause(t)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	f := &budgetRace{Site: harness.NewWorld(t, env).Site()}
	f.makeUpgrades()
	f.replaced, f.steady = f.pool("replaced", machines), f.pool("steady", machines)
	f.CreateWithCleanup(f.newHealthCheck())
	f.CreateWithCleanup(f.newGroup(budget))
	return f
}

// on returns the fixture for a part of the test.
func (f *budgetRace) on(t *testing.T) *budgetRace {
	t.Helper()
	world := harness.NewWorld(t, env)
	return &budgetRace{
		Site:     &harness.Site{World: world, Name: f.Name},
		replaced: &harness.Pool{World: world, Name: f.replaced.Name}, steady: &harness.Pool{World: world, Name: f.steady.Name},
	}
}

func (f *budgetRace) pool(name string, machines int32) *harness.Pool {
	f.Helper()
	return f.MakePool(f.Name+"-"+name, machines, func(_ *machinev1beta1.MachineSet, spec *kwok.ProviderSpec) { f.complete(spec) })
}

// complete gives Nodes the labels in the selectors of Pods and MachineConfigPools.
func (f *budgetRace) complete(spec *kwok.ProviderSpec) {
	spec.Zone = "zone-a"
	spec.Labels = map[string]string{
		// Without the workers' label: the machine-config-operator would update a new Node with the workers before Drover knows of it.
		harness.SiteLabel: f.Name, openshift.NodeRoleLabel(f.Name): "",
	}
}

// makeUpgrades makes what gates the upgrades of the Nodes, and starts the machine-config simulator.
func (f *budgetRace) makeUpgrades() {
	f.Helper()
	canary := harness.NewCanary(f.Name+"-canary", f.Name+"-isCanary")
	canary.Spec.NodeSelector.MatchLabels = map[string]string{openshift.NodeRoleLabel(f.Name): ""}
	f.CreateWithCleanup(canary)
	f.CreateWithCleanup(openshift.NewPool(f.Name))
	// On a real cluster the control plane takes an hour; a run that is not faster than that is late.
	f.SimulateOpenShift(openshift.Options{ControlPlane: 2 * time.Second})
	named := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: f.Name, Name: name} }
	f.CreateWithCleanup(&mutex.MutexTarget{ObjectMeta: named("target"), Spec: mutex.MutexTargetSpec{MachineConfigPools: []string{f.Name}}})
	f.CreateWithCleanup(&mutex.MutexRule{ObjectMeta: named("rule"), Spec: mutex.MutexRuleSpec{
		JobName: "job", JobNamespace: f.Name, JobSpec: harness.ManagedJob("1ms"), Type: mutex.RuleKubernetes,
	}})
	f.CreateWithCleanup(&mutex.MutexRunConfig{ObjectMeta: named("run"), Spec: mutex.MutexRunConfigSpec{
		Canary: mutex.Canary{Name: f.Name + "-canary"}, MutexRules: []mutex.Reference{{Name: "rule", Namespace: f.Name}},
		MutexTargets: []mutex.Reference{{Name: "target"}},
	}})
}

func (f *budgetRace) newHealthCheck() *machinev1beta1.MachineHealthCheck {
	return &machinev1beta1.MachineHealthCheck{
		ObjectMeta: harness.Meta(f.Name),
		Spec: machinev1beta1.MachineHealthCheckSpec{
			Selector: metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key: cluster.MachineSetLabel, Operator: metav1.LabelSelectorOpIn, Values: []string{f.replaced.Name, f.steady.Name},
			}}},
			UnhealthyConditions: []machinev1beta1.UnhealthyCondition{{Type: unhealthy, Status: corev1.ConditionTrue}},
		},
	}
}

func (f *budgetRace) newGroup(budget int32) *v1alpha1.NodeGroup {
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: f.Name}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{
		Namespace: cluster.MachineNamespace, Names: []string{f.replaced.Name, f.steady.Name},
	}
	group.Spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(budget)), PersonMaintenance: v1alpha1.PersonQueue}
	group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	// Nodes that reboot for their upgrade are not what is wrong with a taint.
	group.Spec.Rollout = &v1alpha1.Rollout{StopWhen: &v1alpha1.StopConditions{NotReady: new(intstr.FromString("100%"))}}
	group.Spec.Metadata = &v1alpha1.Metadata{Taints: newTaint(-1)}
	return group
}

// newTaint returns the taint of a round. Pods that have come in the round before do not tolerate it.
func newTaint(round int) []v1alpha1.Taint {
	return []v1alpha1.Taint{{Key: taintKey, Value: valueOf(round), Effect: corev1.TaintEffectNoExecute}}
}

func valueOf(round int) string { return fmt.Sprintf("round%d", round) }

// group reads the NodeGroup.
func (f *budgetRace) group() *v1alpha1.NodeGroup {
	f.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := f.Client.Get(f.Context(), client.ObjectKey{Name: f.Name}, group); err != nil {
		f.Fatal(err)
	}
	return group
}

// healthCheck reads the MachineHealthCheck.
func (f *budgetRace) healthCheck() *machinev1beta1.MachineHealthCheck {
	f.Helper()
	check := f.newHealthCheck()
	if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(check), check); err != nil {
		f.Fatal(err)
	}
	return check
}

// upgrades reads the MutexRunConfig.
func (f *budgetRace) upgrades() *mutex.MutexRunConfig {
	f.Helper()
	run := &mutex.MutexRunConfig{}
	if err := f.Client.Get(f.Context(), client.ObjectKey{Namespace: f.Name, Name: "run"}, run); err != nil {
		f.Fatal(err)
	}
	return run
}

// machines lists the Machines of both MachineSets.
func (f *budgetRace) machines() []machinev1beta1.Machine {
	f.Helper()
	return append(f.replaced.Machines(), f.steady.Machines()...)
}

// nodes lists the Nodes of both MachineSets.
func (f *budgetRace) nodes() []corev1.Node {
	f.Helper()
	var nodes corev1.NodeList
	if err := f.Client.List(f.Context(), &nodes, client.MatchingLabels{harness.SiteLabel: f.Name}); err != nil {
		f.Fatal(err)
	}
	return nodes.Items
}

// deploy replaces the Pods of the previous round. The new Pods tolerate the taint that the Nodes have now, but not the next one.
func (f *budgetRace) deploy(round int, count int32) {
	f.Helper()
	name := fmt.Sprintf("app%d", round)
	labels := map[string]string{harness.AppLabel: name}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: f.Name, Name: name}, Spec: appsv1.DeploymentSpec{
		Replicas: &count, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				Containers: []corev1.Container{{Name: "workload", Image: "sandbox.invalid/workload"}}, AutomountServiceAccountToken: new(false),
				NodeSelector: map[string]string{harness.SiteLabel: f.Name},
				Tolerations:  []corev1.Toleration{{Key: taintKey, Operator: corev1.TolerationOpEqual, Value: valueOf(round - 1)}},
			},
		},
	}}
	f.CreateWithCleanup(deployment)
	f.Running(name, int(count), true)
}

// fail makes the Node of a Machine unhealthy.
func (f *budgetRace) fail(node string) {
	f.Helper()
	f.Eventually("the condition of Node "+node, func() error {
		now := f.Node(node)
		now.Status.Conditions = append(now.Status.Conditions, corev1.NodeCondition{
			Type: unhealthy, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		})
		return f.Client.Status().Update(f.Context(), now)
	})
}

// setTemplate changes the template of the MachineSet whose Machines are replaced.
func (f *budgetRace) setTemplate(round int) {
	f.Helper()
	harness.Update(f.World, f.World.Set, f.replaced.Name, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = harness.KwokProviderSpec(func(spec *kwok.ProviderSpec) {
			f.complete(spec)
			spec.InstanceType = valueOf(round)
		})
	})
}

// declare changes the taint of the group.
func (f *budgetRace) declare(round int) {
	f.Helper()
	harness.Update(f.World, func(string) *v1alpha1.NodeGroup { return f.group() }, f.Name, func(group *v1alpha1.NodeGroup) {
		group.Spec.Metadata.Taints = newTaint(round)
	})
}

// upgrade starts an upgrade, and waits until Drover has paused the MachineConfigPool.
func (f *budgetRace) upgrade(round int) {
	f.Helper()
	if err := openshift.Upgrade(f.Context(), f.Client, versionOf(round)); err != nil {
		f.Fatal(err)
	}
	f.Eventually("the upgrade is gated", func() error {
		// Nodes may have to wait for the budget.
		if run := f.upgrades(); run.Status.Version != versionOf(round) || !meta.IsStatusConditionTrue(run.Status.Conditions, plan.ConditionPaused) {
			return fmt.Errorf("the run is %s", harness.JSON(run.Status))
		}
		return nil
	})
}

func versionOf(round int) string { return fmt.Sprintf("4.17.%d", round+1) }
