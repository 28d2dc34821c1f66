package cli

import (
	"context"
	"errors"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// gate is a run over the nodes n1 and n2, which have version 4.17.2, towards 4.17.3.
type gate struct {
	*fakeCluster

	run   *mutex.MutexRunConfig
	rule  *mutex.MutexRule
	pool  *mcfgv1.MachineConfigPool
	nodes []*corev1.Node
}

func newGate() *gate {
	raw := runtime.RawExtension{Raw: []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`)}
	named := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "numo", Name: name, UID: types.UID("uid-of-" + name), Generation: 1}
	}
	pool := func(name string) *mcfgv1.MachineConfigPool {
		return &mcfgv1.MachineConfigPool{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: mcfgv1.MachineConfigPoolSpec{
			NodeSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"pool": name}},
		}}
	}
	g := &gate{
		fakeCluster: &fakeCluster{}, pool: pool("infra"),
		run: &mutex.MutexRunConfig{ObjectMeta: named("run"), Spec: mutex.MutexRunConfigSpec{
			Canary: mutex.Canary{Name: "canary"}, MutexRules: []mutex.Reference{{Name: "a"}}, MutexTargets: []mutex.Reference{{Name: "target"}},
		}},
		rule: &mutex.MutexRule{
			ObjectMeta: named("a"), Spec: mutex.MutexRuleSpec{JobName: "job", JobNamespace: "numo", JobSpec: raw, CleanUpJobSpec: &raw},
			Status: mutex.Status{Conditions: []metav1.Condition{{
				Type: mutex.ConditionValid, Status: metav1.ConditionTrue, Reason: "ValidConfig", ObservedGeneration: 1,
			}}},
		},
	}
	canary := pool("canary")
	canary.Spec.NodeSelector = nil
	g.all = []client.Object{
		g.run, g.rule, g.pool, canary, &mutex.MutexTarget{ObjectMeta: named("target"), Spec: mutex.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
		&configv1.ClusterVersion{
			ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Version: "4.17.3"}},
			Status: configv1.ClusterVersionStatus{History: []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Version: "4.17.3"}}},
		},
		&mcfgv1.MachineConfig{ObjectMeta: metav1.ObjectMeta{Name: "rendered", Annotations: map[string]string{plan.LabelVersion: "4.17.3"}}},
	}
	for _, name := range []string{"n1", "n2"} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"pool": "infra", plan.LabelVersion: "4.17.2"},
			Annotations: map[string]string{plan.AnnotationCurrentConfig: "rendered"},
		}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		g.nodes, g.all = append(g.nodes, node), append(g.all, node)
	}
	return g
}

// have gives all nodes a version.
func (g *gate) have(version string) {
	for _, node := range g.nodes {
		node.Labels[plan.LabelVersion] = version
	}
}

// ended adds the Job of n1 before its upgrade.
func (g *gate) ended(how batchv1.JobConditionType) {
	spec, err := plan.ParseJobSpec(&g.rule.Spec.JobSpec)
	if err != nil {
		panic(err)
	}
	job := plan.NewJob(g.rule, spec, g.nodes[0], plan.JobID{
		Run: g.run.UID, Version: "4.17.3", Node: g.nodes[0].UID, Rule: client.ObjectKeyFromObject(g.rule), Kind: plan.BeforeUpgrade,
	})
	job.Status.Conditions = []batchv1.JobCondition{{Type: how, Status: corev1.ConditionTrue}}
	g.all = append(g.all, job)
}

// What upgrade plan says is what the operator would do, and no more.
func TestUpgradePlan(t *testing.T) {
	const pools = "Pools:"
	for name, c := range map[string]struct {
		set        func(g *gate)
		args       []string
		want, none []string
	}{
		"an upgrade": {
			func(*gate) {}, nil, []string{pools, "paused: false -> true", "1. n1 of MachineConfigPool infra, version 4.17.2", "Jobs before: numo/job-"},
			[]string{"nothing to do", "no node would start"},
		},
		"nothing to do": {
			func(g *gate) { g.have("4.17.3") }, nil,
			[]string{"nothing to do: all nodes of the targets have the version", "n2 of MachineConfigPool infra, version 4.17.3, Done"},
			[]string{pools, "Jobs"},
		},
		"no nodes": {func(g *gate) { g.pool.Spec.NodeSelector.MatchLabels["none"] = "" }, nil, []string{"have no nodes"}, []string{pools, "Nodes, in"}},
		"restore": {func(g *gate) {
			reservation := plan.Reserve(g.pool, client.ObjectKeyFromObject(g.run), g.run.UID)
			metav1.SetMetaDataAnnotation(&g.pool.ObjectMeta, plan.AnnotationReservation, reservation.Text())
			g.have("4.17.3")
		}, nil, []string{"nothing to do", "the run restores MachineConfigPools and nodes"}, []string{pools}},
		"clean-up outstanding": {func(g *gate) {
			g.ended(batchv1.JobComplete)
			g.have("4.17.3")
		}, nil, []string{"clean-up Jobs only", "n1 of MachineConfigPool infra, version 4.17.3, CleaningUp", "Jobs after: numo/job-"},
			[]string{pools, "Jobs before"}},
		"skipped nodes": {func(g *gate) {
			g.ended(batchv1.JobFailed)
			g.nodes[1].Labels[plan.LabelVersion] = "4.17.3"
			g.run.Spec.OnJobFailure.Action = mutex.FailureSkipNode
		}, nil, []string{"nothing to do: 1 nodes are skipped"}, []string{pools}},
		"suspended": {
			func(g *gate) { g.run.Spec.Suspend = true }, nil, []string{pools, "no node would start now: spec.suspend is set", "4.17.2, Pending"}, nil,
		},
		"aborted":   {func(g *gate) { g.run.Spec.Abort = true }, nil, []string{"no node would start now: spec.abort is set", "4.17.2, Pending"}, nil},
		"a dry run": {func(g *gate) { g.run.Spec.DryRun = true }, nil, []string{"no node would start now: spec.dryRun is set", "4.17.2, Pending"}, nil},
		"the version of the MachineConfig": {
			func(*gate) {}, []string{"--upgrade-node-version=MachineConfig"}, []string{"nothing to do", "n1 of MachineConfigPool infra, version 4.17.3"}, nil,
		},
		"no version": {func(g *gate) {
			for _, node := range g.nodes {
				delete(node.Labels, plan.LabelVersion)
			}
		}, []string{"--upgrade-node-version=Label"}, []string{"would do nothing", "the version of 2 nodes is unknown"}, []string{pools}},
	} {
		t.Run(name, func(t *testing.T) {
			g := newGate()
			c.set(g)
			got := g.fakeCluster.run(t, append([]string{"upgrade", "plan", "run"}, c.args...)...)
			code := exitOK
			if strings.Contains(got.out, "would do nothing") {
				code = exitError
			}
			if got.code != code {
				t.Fatalf("exit code %d: %s", got.code, got.errors)
			}
			for _, want := range c.want {
				if !strings.Contains(got.out, want) {
					t.Errorf("there is no %q in\n%s", want, got.out)
				}
			}
			for _, none := range c.none {
				if strings.Contains(got.out, none) {
					t.Errorf("there is %q in\n%s", none, got.out)
				}
			}
		})
	}
}

// TestUpgradePlan_VersionForbidden: a version that may not be read is an error, and not a node without one.
func TestUpgradePlan_VersionForbidden(t *testing.T) {
	g := newGate()
	on := interceptor.NewClient(g.client(), interceptor.Funcs{
		Get: func(ctx context.Context, inner client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if key.Name == "rendered" {
				return apierrors.NewForbidden(mcfgv1.Resource("machineconfigs"), key.Name, errors.New("no"))
			}
			return inner.Get(ctx, key, object, options...)
		},
	})
	for from, code := range map[string]int{"Label": 0, "Auto": 1, "MachineConfig": 1, "Elsewhere": 1} {
		got := runOn(t, on, "", "upgrade", "plan", "run", "--upgrade-node-version", from)
		if got.code != code {
			t.Errorf("%s: exit code %d: %s", from, got.code, got.errors)
		}
		if from != "Label" && from != "Elsewhere" && !strings.Contains(got.errors, "reading MachineConfig rendered") {
			t.Errorf("it says %s", got.errors)
		}
	}
}
