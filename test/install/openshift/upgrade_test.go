package openshift

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/install/helm"
	"github.com/drover-io/drover/test/openshift"
)

// TestPermissions_UpgradeGateAlone is TestPermissions_OneCapabilityAlone for the capability that needs OpenShift.
func TestPermissions_UpgradeGateAlone(t *testing.T) {
	gate := helm.Alone{Name: "upgrade", Controllers: "upgrade", Work: gated, Never: []string{
		"delete nodes", "create pods", "create pods/exec", "create pods/eviction", "delete pods", "get secrets drover-system", "get secrets databases",
		"patch machines.machine.openshift.io openshift-machine-api", "create leases.coordination.k8s.io drover-system-other",
	}}
	gate.Test(t, env)
	// The next test needs the CRDs of node-maintenance-operator.
	if err := harness.DeleteCRDs(t.Context(), env, "mutexrules.openshift-optional.skrzypek.io", "mutextargets.openshift-optional.skrzypek.io",
		"mutexrunconfigs.openshift-optional.skrzypek.io"); err != nil {
		t.Fatal(err)
	}
	kubectl(t, nil, "delete", "namespace", "medik8s-leases", harness.SystemNamespace, "--timeout=90s")
}

// gated upgrades a node behind the gate: its Job runs first.
func gated(w *harness.World) {
	s := w.Site()
	rule, run := objects(s)
	for _, object := range []client.Object{rule, run} {
		s.CreateWithCleanup(object)
	}
	s.Eventually("the run is looked at", func() error {
		if phase := read(s, run).Status.Phase; phase != v1alpha1.PhaseIdle {
			return fmt.Errorf("it is %q", phase)
		}
		return nil
	})
	if err := openshift.Upgrade(s.Context(), s.Client, "4.18.1"); err != nil {
		s.Fatal(err)
	}
	s.Eventually("the run is done", func() error {
		if status := read(s, run).Status; status.Phase != v1alpha1.PhaseDone {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
	jobs := &batchv1.JobList{}
	if err := s.Client.List(s.Context(), jobs, client.InNamespace(s.Name)); err != nil || len(jobs.Items) != 1 {
		s.Errorf("there are %d Jobs, want one: %v", len(jobs.Items), err)
	}
	// The run has a finalizer, which the operator removes.
	if err := s.Client.Delete(s.Context(), run); err != nil {
		s.Fatal(err)
	}
	s.Gone(run)
}

// objects are a rule and a run for one node in a pool of its own; OpenShift is played until the test ends.
func objects(s *harness.Site) (*v1alpha1.MutexRule, *v1alpha1.MutexRunConfig) {
	s.Helper()
	canary := harness.NewCanary(s.Name+"-canary", s.Name+"-isCanary")
	pool := openshift.NewPool(s.Name + "-pool")
	s.CreateWithCleanup(canary)
	s.CreateWithCleanup(pool)
	s.AddNode(func(node *corev1.Node) { node.Labels["node-role.kubernetes.io/"+pool.Name] = "" })
	s.AddNode() // the Job of a node runs on another one
	s.SimulateOpenShift(openshift.Options{ControlPlane: time.Second})
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: s.Name, Name: name} }
	s.CreateWithCleanup(&v1alpha1.MutexTarget{ObjectMeta: meta("target"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{pool.Name}}})
	rule := &v1alpha1.MutexRule{ObjectMeta: meta("rule"), Spec: v1alpha1.MutexRuleSpec{
		JobName: "job", JobNamespace: s.Name, JobSpec: job(s), Type: v1alpha1.RuleKubernetes,
	}}
	return rule, &v1alpha1.MutexRunConfig{ObjectMeta: meta("run"), Spec: v1alpha1.MutexRunConfigSpec{
		Canary: v1alpha1.Canary{Name: canary.Name}, MutexRules: []v1alpha1.Reference{{Name: "rule", Namespace: s.Name}},
		MutexTargets: []v1alpha1.Reference{{Name: "target"}},
	}}
}

// job is one whose pod kwok has finish.
func job(s *harness.Site) runtime.RawExtension {
	s.Helper()
	text, err := json.Marshal(batchv1.JobSpec{BackoffLimit: new(int32(0)), Template: corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{harness.CompletionDelay: "10ms"}},
		Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "check", Image: "sandbox.invalid/check"}},
			Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		},
	}})
	if err != nil {
		s.Fatal(err)
	}
	return runtime.RawExtension{Raw: text}
}

func read(s *harness.Site, run *v1alpha1.MutexRunConfig) *v1alpha1.MutexRunConfig {
	s.Helper()
	found := &v1alpha1.MutexRunConfig{}
	if err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(run), found); err != nil {
		s.Fatal(err)
	}
	return found
}
