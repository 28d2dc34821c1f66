package upgrade

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	configv1 "github.com/openshift/api/config/v1"
	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/pages"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

var testTime = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// errCrash is the end of the process.
var errCrash = errors.New("the process ends here")

// fixture is a Reconciler with a client in memory and a clock of its own, and a simulation of OpenShift that runs between the reconciliations.
// test/upgrade tests the same on a real API server; the tests here need moments that cannot be reached there at will.
type fixture struct {
	*Reconciler
	t      *testing.T
	client client.Client
	clock  *testclock.FakePassiveClock
	events *record.FakeRecorder
	// registry has the metrics of the current process.
	registry *prometheus.Registry
	mu       sync.Mutex
	// writes counts the writes; crash is the one, counted from 1, before or after which the process ends.
	writes, crash int
	after         bool
	// fail has errors that are returned instead of the API server's answer, by verb and kind.
	fail map[string]error
	// fails reports which Jobs fail, hangs which do not end; nil is none.
	fails, hangs func(job *batchv1.Job) bool
	// afterWrite is called after every write; nil is for nothing.
	afterWrite func()
	// created counts the Jobs that were created, by name.
	created map[string]int
	// lists counts the lists of pods and budgets; failLists is their error.
	lists     int
	failLists error
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "numo", Name: name, UID: types.UID("uid-of-" + name), Generation: 1}
}

func byRole(role string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + role: ""}}
}

func newNode(name, role string) *corev1.Node {
	return builder.Node(name, builder.WithReady(corev1.ConditionTrue), builder.WithNodeLabels(map[string]string{
		"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/" + role: "", plan.LabelVersion: "4.17.2",
	}))
}

// newObjects returns a run over the two nodes of MachineConfigPool infra, which do not have the desired version, with two rules. One of the rules has
// a clean-up Job.
func newObjects() []client.Object {
	spec := []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`)
	canary := builder.MachineConfigPool("canary", byRole("worker"))
	canary.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "isCanary", Operator: metav1.LabelSelectorOpExists}}
	objects := []client.Object{
		builder.MachineConfigPool("worker", byRole("worker")), builder.MachineConfigPool("infra", byRole("infra")), canary,
		newNode("n1", "infra"), newNode("n2", "infra"), newNode("w1", "other"),
		&v1alpha1.MutexTarget{ObjectMeta: named("target"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
		&v1alpha1.MutexRunConfig{ObjectMeta: named("run"), Spec: v1alpha1.MutexRunConfigSpec{
			Canary: v1alpha1.Canary{Name: "canary"}, MutexTargets: []v1alpha1.Reference{{Name: "target"}},
			MutexRules: []v1alpha1.Reference{{Name: "a"}, {Name: "b", Namespace: "numo"}},
		}},
		&configv1.ClusterVersion{
			ObjectMeta: metav1.ObjectMeta{Name: "version"}, Spec: configv1.ClusterVersionSpec{DesiredUpdate: &configv1.Update{Version: "4.17.3"}},
			Status: configv1.ClusterVersionStatus{History: []configv1.UpdateHistory{{State: configv1.CompletedUpdate, Version: "4.17.3"}}},
		},
	}
	for _, name := range []string{"a", "b"} {
		rule := &v1alpha1.MutexRule{ObjectMeta: named(name)}
		rule.Spec.JobName, rule.Spec.JobNamespace, rule.Spec.JobSpec.Raw = name, "numo", spec
		if name == "a" {
			rule.Spec.CleanUpJobSpec = &runtime.RawExtension{Raw: spec}
		}
		valid := plan.Conditions{}
		valid.Set(plan.ConditionValid, true, "")
		valid.ApplyTo(&rule.Status.Conditions, 1, metav1.NewTime(testTime))
		objects = append(objects, rule)
	}
	return objects
}

func nameOf(object client.Object) []string { return []string{object.GetName()} }

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	known := apitest.Scheme(t, scheme.AddToScheme, mcfgv1.Install, configv1.Install, v1alpha1.AddToScheme)
	f := &fixture{
		t: t, clock: testclock.NewFakePassiveClock(testTime), events: record.NewFakeRecorder(1000), fail: map[string]error{}, created: map[string]int{},
	}
	f.client = fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.MutexRunConfig{}, &v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}, &batchv1.Job{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			pod, _ := object.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).WithIndex(&corev1.Pod{}, "status.phase", func(object client.Object) []string {
		pod, _ := object.(*corev1.Pod)
		return []string{string(pod.Status.Phase)}
	}).WithIndex(&v1alpha1.MutexRule{}, "metadata.name", nameOf).WithIndex(&v1alpha1.MutexTarget{}, "metadata.name", nameOf).
		WithInterceptorFuncs(f.interceptors()).Build()
	f.restart()
	return f
}

// restart ends the process and starts another one.
func (f *fixture) restart() {
	f.t.Helper()
	f.registry = prometheus.NewRegistry()
	metrics, err := NewMetrics(f.registry)
	if err != nil {
		f.t.Fatal(err)
	}
	f.Reconciler = NewReconciler(Dependencies{
		Cache: f.client, Writer: f.client, Live: f.client, Pages: pages.NewReader(f.client), Recorder: f.events, Metrics: metrics,
		Leases: &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: f.clock},
	}, Options{Clock: f.clock})
}

// write counts a write, and ends the process at one of them.
func (f *fixture) write(verb string, object client.Object, do func() error) error {
	kind := fmt.Sprintf("%T", object)
	kind = kind[strings.LastIndex(kind, ".")+1:]
	if partial := object.GetObjectKind().GroupVersionKind().Kind; kind == "PartialObjectMetadata" {
		kind = partial
	}
	// Several Nodes are patched at once.
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.fail[verb+" "+kind]; err != nil {
		return err
	}
	f.writes++
	dies := f.writes == f.crash
	if dies && !f.after {
		return errCrash
	}
	_, job := object.(*batchv1.Job)
	if job = job && verb == "create"; job {
		object.SetCreationTimestamp(metav1.NewTime(f.clock.Now()))
		object.SetUID(types.UID("uid-of-" + object.GetName()))
	}
	err := do()
	if job && err == nil {
		f.created[object.GetName()]++
	}
	if f.afterWrite != nil {
		f.afterWrite()
	}
	if dies {
		return errCrash
	}
	return err
}

func (f *fixture) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list.(type) {
			case *corev1.PodList, *policyv1.PodDisruptionBudgetList:
				f.mu.Lock()
				f.lists++
				f.mu.Unlock()
				if f.failLists != nil {
					return f.failLists
				}
			}
			return next.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return f.write("patch", object, func() error { return next.Patch(ctx, object, patch, options...) })
		},
		Create: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return f.write("create", object, func() error { return next.Create(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return f.write("delete", object, func() error { return next.Delete(ctx, object, options...) })
		},
		SubResourcePatch: func(
			ctx context.Context, next client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			return f.write(part, object, func() error { return next.SubResource(part).Patch(ctx, object, patch, options...) })
		},
	}
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}
