package machineconfig_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/sandbox/internal/machineconfig"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/eventually"
	"github.com/drover-io/drover/test/openshift"
)

var (
	env       *cluster.Cluster
	installed sync.Once
)

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{Components: []string{cluster.Kwok}, UnsafeNoFsync: true}, &env))
}

const (
	from, to = "4.17.2", "4.17.3"

	namespace = "workloads"
)

// stage is a cluster of OpenShift with no Node yet and nothing of the test before.
type stage struct {
	*testing.T

	client client.WithWatch
	stop   func() error
}

// newStage clears the control plane and installs pools, among them custom ones. Nothing plays yet.
func newStage(t *testing.T, custom ...string) *stage {
	t.Helper()
	known, err := openshift.NewClient(env.Admin())
	if err != nil {
		t.Fatal(err)
	}
	made, err := client.NewWithWatch(env.Admin(), client.Options{Scheme: known.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, client: made}
	installed.Do(func() { s.must(env.InstallOpenShift(t.Context(), cluster.OpenShiftOptions{})) })
	s.clear()
	s.must(openshift.Install(t.Context(), made, from, custom...))
	for _, object := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}},
	} {
		if err := made.Create(t.Context(), object); !apierrors.IsAlreadyExists(err) {
			s.must(err)
		}
	}
	t.Cleanup(s.end)
	return s
}

// clear removes what other tests left.
func (s *stage) clear() {
	s.Helper()
	for _, object := range []client.Object{&policyv1.PodDisruptionBudget{}, &corev1.Pod{}} {
		s.must(client.IgnoreNotFound(s.client.DeleteAllOf(s.Context(), object, client.InNamespace(namespace), client.GracePeriodSeconds(0))))
	}
	for _, object := range []client.Object{
		&corev1.Node{}, &mcfgv1.MachineConfigPool{}, &mcfgv1.MachineConfig{}, &configv1.ClusterVersion{},
	} {
		s.must(s.client.DeleteAllOf(s.Context(), object))
	}
	for _, list := range []client.ObjectList{
		&corev1.NodeList{}, &mcfgv1.MachineConfigPoolList{}, &mcfgv1.MachineConfigList{}, &configv1.ClusterVersionList{},
	} {
		s.eventually(fmt.Sprintf("%T is empty", list), func() error {
			if err := s.client.List(s.Context(), list); err != nil || meta.LenList(list) == 0 {
				return err
			}
			return errors.New("something is left")
		})
	}
}

// play starts a simulator, as the identity that the sandbox gives it.
func (s *stage) play(opts openshift.Options) {
	s.Helper()
	if opts.Log == nil {
		opts.Log = s.Output()
	}
	config, err := env.MachineConfigClient()
	s.must(err)
	s.stop, err = machineconfig.Start(config, opts)
	s.must(err)
}

// begin plays, and waits until every Node has its first configuration.
func (s *stage) begin(opts openshift.Options) {
	s.Helper()
	s.play(opts)
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(openshift.AwaitPools(ctx, s.client))
}

// end stops the simulator.
func (s *stage) end() {
	s.Helper()
	if s.stop != nil {
		s.must(s.stop())
		s.stop = nil
	}
}

func (s *stage) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

const patience = 20 * time.Second

// eventually waits until a condition gives no error.
func (s *stage) eventually(what string, condition func() error) {
	s.Helper()
	if err := eventually.Until(context.WithoutCancel(s.Context()), patience, 20*time.Millisecond, condition); err != nil {
		s.Fatalf("%s: %v", what, err)
	}
}

// addNodes makes ready Nodes that kwok plays, each with the given roles.
func (s *stage) addNodes(roles []string, names ...string) {
	s.Helper()
	for _, name := range names {
		node := &corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}, Annotations: map[string]string{"kwok.x-k8s.io/node": "fake"}},
			Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
			}}},
		}
		for _, role := range roles {
			node.Labels["node-role.kubernetes.io/"+role] = ""
		}
		s.must(s.client.Create(s.Context(), node))
	}
}

// addPod makes a pod that is bound to a Node.
func (s *stage) addPod(name, node string, change func(*corev1.Pod)) {
	s.Helper()
	no := false
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{
			NodeName: node, AutomountServiceAccountToken: &no, Containers: []corev1.Container{{Name: "c", Image: "sandbox.invalid/c"}},
		},
	}
	if change != nil {
		change(pod)
	}
	s.must(s.client.Create(s.Context(), pod))
}

func (s *stage) hasPod(name string) bool {
	s.Helper()
	err := s.client.Get(s.Context(), types.NamespacedName{Namespace: namespace, Name: name}, &corev1.Pod{})
	s.must(client.IgnoreNotFound(err))
	return err == nil
}

func (s *stage) node(name string) *corev1.Node {
	s.Helper()
	node := &corev1.Node{}
	s.must(s.client.Get(s.Context(), types.NamespacedName{Name: name}, node))
	return node
}

func (s *stage) pool(name string) *mcfgv1.MachineConfigPool {
	s.Helper()
	pool := &mcfgv1.MachineConfigPool{}
	s.must(s.client.Get(s.Context(), types.NamespacedName{Name: name}, pool))
	return pool
}

// patch merges JSON into an object without a namespace.
func (s *stage) patch(object client.Object, name, body string, args ...any) {
	s.Helper()
	object.SetName(name)
	s.must(s.client.Patch(s.Context(), object, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, body, args...))))
}

func (s *stage) pause(pool string, paused bool) {
	s.Helper()
	s.patch(&mcfgv1.MachineConfigPool{}, pool, `{"spec":{"paused":%t}}`, paused)
}

// annotate sets an annotation of a Node, or removes it.
func (s *stage) annotate(node, key, value string) {
	s.Helper()
	if value == "" {
		s.patch(&corev1.Node{}, node, `{"metadata":{"annotations":{%q:null}}}`, key)
		return
	}
	s.patch(&corev1.Node{}, node, `{"metadata":{"annotations":{%q:%q}}}`, key, value)
}

// label sets a label of a Node that has no value, or removes it.
func (s *stage) label(node, key string, on bool) {
	s.Helper()
	if on {
		s.patch(&corev1.Node{}, node, `{"metadata":{"labels":{%q:""}}}`, key)
		return
	}
	s.patch(&corev1.Node{}, node, `{"metadata":{"labels":{%q:null}}}`, key)
}

func (s *stage) upgrade(version string) {
	s.Helper()
	s.must(openshift.Upgrade(s.Context(), s.client, version))
}

// reaches waits until every Node of every pool runs a version.
func (s *stage) reaches(version string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), patience)
	defer cancel()
	s.must(machineconfig.Await(ctx, s.client, version, nil))
}

// runs waits until a Node rests with a version.
func (s *stage) runs(node, version string) {
	s.Helper()
	s.eventually(node+" runs "+version, func() error {
		found := s.node(node)
		if found.Labels[openshift.VersionKey] != version || found.Annotations[openshift.AnnotationState] != openshift.StateDone {
			return fmt.Errorf("it runs %s and is %s", found.Labels[openshift.VersionKey], found.Annotations[openshift.AnnotationState])
		}
		return nil
	})
}

// step waits until a Node is in a step of its update.
func (s *stage) step(node string, step openshift.Step) {
	s.Helper()
	s.eventually(fmt.Sprintf("%s is in step %s", node, step), func() error {
		found := s.report().find(node)
		if found.Step != string(step) {
			return fmt.Errorf("it is %+v", found)
		}
		return nil
	})
}

// completed waits until the history says that a version is Completed.
func (s *stage) completed(version string) {
	s.Helper()
	s.eventually(version+" is completed", func() error {
		if report := s.report(); report.Version != version || report.State != string(configv1.CompletedUpdate) {
			return errors.New(report.Line())
		}
		return nil
	})
}

// report is a Report with lookups by Node name.
type report struct{ *machineconfig.Report }

func (s *stage) report() report {
	s.Helper()
	found, err := machineconfig.Describe(s.Context(), s.client)
	s.must(err)
	return report{found}
}

func (r report) find(node string) machineconfig.NodeReport {
	for _, found := range r.Nodes {
		if found.Name == node {
			return found
		}
	}
	return machineconfig.NodeReport{}
}

// condition waits until a condition of a pool is as wanted, and returns its message.
func (s *stage) condition(pool string, kind mcfgv1.MachineConfigPoolConditionType, want corev1.ConditionStatus) string {
	s.Helper()
	message := ""
	s.eventually(fmt.Sprintf("%s of pool %s is %s", kind, pool, want), func() error {
		found := s.pool(pool)
		for _, condition := range found.Status.Conditions {
			if condition.Type == kind && condition.Status == want && found.Status.ObservedGeneration == found.Generation {
				message = condition.Message
				return nil
			}
		}
		return fmt.Errorf("its conditions are %+v", found.Status.Conditions)
	})
	return message
}
