package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
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
	settings

	cluster *cluster.Cluster
	client  client.WithWatch
	dir     string
}

func newClient(config *rest.Config) (client.WithWatch, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme, mcfgv1.Install, configv1.Install} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	config = rest.CopyConfig(config)
	config.QPS = -1
	return client.NewWithWatch(config, client.Options{Scheme: scheme})
}

func measure(ctx context.Context, s settings) (out *results, err error) {
	progress("starting a control plane")
	c, err := cluster.Start(ctx, cluster.Options{UnsafeNoFsync: true})
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "drover-upgrades-")
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	defer func() { err = errors.Join(err, c.Stop(), os.RemoveAll(dir)) }()
	st := &stage{settings: s, cluster: c, dir: dir}
	if err := st.build(ctx); err != nil {
		return nil, err
	}
	if err := c.StartMachineConfig(ctx, openshift.Options{CordonOnly: true, RebootBy: openshift.RebootSkip}); err != nil {
		return nil, err
	}
	if err := openshift.AwaitPools(ctx, st.client); err != nil {
		return nil, err
	}
	out = &results{}
	if err := st.run(ctx, out); err != nil {
		return nil, err
	}
	progress("the floor")
	return out, st.floor(ctx, out)
}

// build installs Drover and OpenShift's kinds, and makes nodes, pools, rules and a run that waits for its window.
func (s *stage) build(ctx context.Context) error {
	if err := harness.Install(ctx, s.cluster); err != nil {
		return err
	}
	if err := s.cluster.InstallOpenShift(ctx, cluster.OpenShiftOptions{Version: "4.17.0", CustomPools: []string{target}}); err != nil {
		return err
	}
	var err error
	if s.client, err = newClient(s.cluster.Admin()); err != nil {
		return err
	}
	progress("making %d nodes", s.nodes)
	for i := range s.nodes {
		if err := s.makeNode(ctx, fmt.Sprintf("node-%03d", i)); err != nil {
			return err
		}
	}
	pool := openshift.NewPool(canary)
	pool.Spec.NodeSelector = &metav1.LabelSelector{
		MatchLabels:      map[string]string{roleWorker: ""},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "isCanary", Operator: metav1.LabelSelectorOpExists}},
	}
	objects := []client.Object{
		pool, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
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
		if err := s.client.Create(ctx, object); err != nil {
			return fmt.Errorf("making %T %s: %w", object, object.GetName(), err)
		}
	}
	return nil
}

func meta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: namespace, Name: name} }

func (s *stage) makeNode(ctx context.Context, name string) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		roleWorker: "", roleTarget: "", corev1.LabelHostname: name,
	}}}
	if err := s.client.Create(ctx, node); err != nil {
		return err
	}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return s.client.Status().Update(ctx, node)
}
