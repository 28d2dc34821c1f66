package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/bench/internal/bench"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/openshift"
)

// Names of what is made.
const (
	namespace    = "gate"
	target       = "gated"
	canary       = "canary"
	version      = "4.17.1"
	roleWorker   = "node-role.kubernetes.io/worker"
	roleTarget   = "node-role.kubernetes.io/" + target
	neverAsLater = "0 0 29 2 *"
)

// stage is a control plane with the machine-config simulator and no other writer.
type stage struct {
	*bench.Stage
	settings
}

func measure(ctx context.Context, s settings) (*results, error) {
	base, err := bench.NewStage(ctx, s.Settings, cluster.Options{})
	if err != nil {
		return nil, err
	}
	defer base.Close()
	st := &stage{base, s}
	if err := st.build(ctx); err != nil {
		return nil, err
	}
	if err := st.Cluster.StartMachineConfig(ctx, openshift.Options{CordonOnly: true, RebootBy: openshift.RebootSkip}); err != nil {
		return nil, err
	}
	if err := openshift.AwaitPools(ctx, st.Client); err != nil {
		return nil, err
	}
	out := &results{}
	if err := st.run(ctx, out); err != nil {
		return nil, err
	}
	bench.Progress("the floor")
	return out, st.floor(ctx, out)
}

// build installs OpenShift's kinds, and makes nodes, pools, rules and a run that waits for its window.
func (s *stage) build(ctx context.Context) error {
	if err := s.Cluster.InstallOpenShift(ctx, cluster.OpenShiftOptions{Version: "4.17.0", CustomPools: []string{target}}); err != nil {
		return err
	}
	bench.Progress("making %d nodes", s.nodes)
	for i := range s.nodes {
		if err := s.makeNode(ctx, fmt.Sprintf("node-%03d", i)); err != nil {
			return err
		}
	}
	objects := []client.Object{
		harness.NewCanary(canary, "isCanary"), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&v1alpha1.MutexTarget{ObjectMeta: meta(target), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{target}}},
	}
	run := &v1alpha1.MutexRunConfig{ObjectMeta: meta("run"), Spec: v1alpha1.MutexRunConfigSpec{
		Canary: v1alpha1.Canary{Name: canary}, MutexTargets: []v1alpha1.Reference{{Name: target}},
		Windows: []v1alpha1.Window{{Schedule: neverAsLater, Duration: metav1.Duration{Duration: time.Minute}}},
	}}
	for i := range s.rules {
		rule := &v1alpha1.MutexRule{ObjectMeta: meta(fmt.Sprintf("rule%d", i))}
		rule.Spec.JobName, rule.Spec.JobNamespace = rule.Name, namespace
		rule.Spec.JobSpec.Raw = []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"check","image":"example.com/check"}]}}}`)
		objects = append(objects, rule)
		run.Spec.MutexRules = append(run.Spec.MutexRules, v1alpha1.Reference{Name: rule.Name})
	}
	for _, object := range append(objects, run) {
		if err := s.Client.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func (s *stage) makeNode(ctx context.Context, name string) error {
	node := builder.Node(name, builder.WithNodeLabels(map[string]string{roleWorker: "", roleTarget: "", corev1.LabelHostname: name}))
	if err := s.Client.Create(ctx, node); err != nil {
		return err
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return s.Client.Status().Update(ctx, node)
}
