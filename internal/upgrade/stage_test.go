package upgrade

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// errCrash is the end of the process.
var errCrash = errors.New("the process ends here")

// stage is a Reconciler on a client in memory, with a clock of its own, and OpenShift's part played between its passes. What the API server
// makes of all this is tested on a real one; here it is about moments that cannot be had there at will.
type stage struct {
	*Reconciler
	t      *testing.T
	client client.Client
	clock  *testclock.FakePassiveClock
	events *record.FakeRecorder
	// registry has the metrics of the process that is at work.
	registry *prometheus.Registry
	mu       sync.Mutex
	// writes counts them; crash is the one, counted from 1, before or after which the process ends.
	writes, crash int
	after         bool
	// fail, when set, answers instead of the API server: the key is a verb and a kind.
	fail map[string]error
	// fails tells which Jobs end badly, hangs which do not end; nil is none.
	fails, hangs func(job *batchv1.Job) bool
	// each is called after every write; nil for nothing.
	each func()
	// made counts the Jobs that were made, by name.
	made map[string]int
	// lists counts the lists of pods and budgets; failLists answers them when set.
	lists     int
	failLists error
}

func named(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "numo", Name: name, UID: types.UID("uid-of-" + name), Generation: 1}
}

func byRole(role string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"node-role.kubernetes.io/" + role: ""}}
}

func pool(name string, selector *metav1.LabelSelector) *mcfgv1.MachineConfigPool {
	return &mcfgv1.MachineConfigPool{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}, Spec: mcfgv1.MachineConfigPoolSpec{NodeSelector: selector},
	}
}

func node(name, role string) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{
		"node-role.kubernetes.io/worker": "", "node-role.kubernetes.io/" + role: "", plan.LabelVersion: "4.17.2",
	}}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	return n
}

// cast is a run over two nodes of the pool infra, with two rules of which one cleans up, when another version is aimed at.
func cast() []client.Object {
	spec := []byte(`{"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}`)
	canary := pool("canary", byRole("worker"))
	canary.Spec.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "isCanary", Operator: metav1.LabelSelectorOpExists}}
	objects := []client.Object{
		pool("worker", byRole("worker")), pool("infra", byRole("infra")), canary, node("n1", "infra"), node("n2", "infra"), node("w1", "other"),
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
		found := conditions{}
		found.yes(ConditionValid, "")
		found.apply(&rule.Status.Conditions, 1, metav1.NewTime(start))
		objects = append(objects, rule)
	}
	return objects
}

func nameOf(object client.Object) []string { return []string{object.GetName()} }

func newStage(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, mcfgv1.Install, configv1.Install, v1alpha1.AddToScheme} {
		if err := add(known); err != nil {
			t.Fatal(err)
		}
	}
	s := &stage{
		t: t, clock: testclock.NewFakePassiveClock(start), events: record.NewFakeRecorder(1000), fail: map[string]error{}, made: map[string]int{},
	}
	s.client = fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.MutexRunConfig{}, &v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}, &batchv1.Job{}).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(object client.Object) []string {
			pod, _ := object.(*corev1.Pod)
			return []string{pod.Spec.NodeName}
		}).WithIndex(&v1alpha1.MutexRule{}, "metadata.name", nameOf).WithIndex(&v1alpha1.MutexTarget{}, "metadata.name", nameOf).
		WithInterceptorFuncs(s.interceptors()).Build()
	s.restart()
	return s
}

// restart forgets everything that was in memory.
func (s *stage) restart() {
	s.t.Helper()
	s.registry = prometheus.NewRegistry()
	metrics, err := NewMetrics(s.registry)
	if err != nil {
		s.t.Fatal(err)
	}
	s.Reconciler = NewReconciler(&Crew{
		Cache: s.client, Writer: s.client, Live: s.client, Recorder: s.events, Metrics: metrics,
		Lease: &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: s.clock},
	}, Options{Clock: s.clock})
}

// write counts a write, and has the process end at one of them.
func (s *stage) write(verb string, object client.Object, do func() error) error {
	kind := fmt.Sprintf("%T", object)
	kind = kind[strings.LastIndex(kind, ".")+1:]
	if partial := object.GetObjectKind().GroupVersionKind().Kind; kind == "PartialObjectMetadata" {
		kind = partial
	}
	// Nodes are written to at once.
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.fail[verb+" "+kind]; err != nil {
		return err
	}
	s.writes++
	dies := s.writes == s.crash
	if dies && !s.after {
		return errCrash
	}
	_, job := object.(*batchv1.Job)
	if job = job && verb == "create"; job {
		object.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
		object.SetUID(types.UID("uid-of-" + object.GetName()))
	}
	err := do()
	if job && err == nil {
		s.made[object.GetName()]++
	}
	if s.each != nil {
		s.each()
	}
	if dies {
		return errCrash
	}
	return err
}

func (s *stage) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		List: func(ctx context.Context, next client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			switch list.(type) {
			case *corev1.PodList, *policyv1.PodDisruptionBudgetList:
				s.mu.Lock()
				s.lists++
				s.mu.Unlock()
				if s.failLists != nil {
					return s.failLists
				}
			}
			return next.List(ctx, list, options...)
		},
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			return s.write("patch", object, func() error { return next.Patch(ctx, object, patch, options...) })
		},
		Create: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.CreateOption) error {
			return s.write("create", object, func() error { return next.Create(ctx, object, options...) })
		},
		Delete: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			return s.write("delete", object, func() error { return next.Delete(ctx, object, options...) })
		},
		SubResourcePatch: func(
			ctx context.Context, next client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			return s.write(part, object, func() error { return next.SubResource(part).Patch(ctx, object, patch, options...) })
		},
	}
}

// pass looks at the run once. A crash is followed by another process.
func (s *stage) pass() error {
	s.t.Helper()
	_, err := s.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "numo", Name: "run"}})
	if err != nil && errors.Is(err, errCrash) {
		s.restart()
		return nil
	}
	return err
}

// playJobs ends the Jobs that run.
func (s *stage) playJobs() {
	s.t.Helper()
	jobs := &batchv1.JobList{}
	s.must(s.client.List(s.t.Context(), jobs))
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !plan.Over(job) && (s.hangs == nil || !s.hangs(job)) {
			how := batchv1.JobComplete
			if s.fails != nil && s.fails(job) {
				how = batchv1.JobFailed
			}
			job.Status.Conditions = []batchv1.JobCondition{{
				Type: how, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(s.clock.Now()), Message: "as the test has it",
			}}
			s.must(s.client.Status().Update(s.t.Context(), job))
		}
	}
}

// play is OpenShift's part and that of the Jobs: they end, and a node that the canary pool selects has the new version.
func (s *stage) play() {
	s.t.Helper()
	s.playJobs()
	canary := &mcfgv1.MachineConfigPool{}
	s.must(s.client.Get(s.t.Context(), types.NamespacedName{Name: "canary"}, canary))
	selector, err := metav1.LabelSelectorAsSelector(canary.Spec.NodeSelector)
	s.must(err)
	nodes := &corev1.NodeList{}
	s.must(s.client.List(s.t.Context(), nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		if selector.Matches(labels.Set(n.Labels)) && n.Labels[plan.LabelVersion] != "4.17.3" {
			n.Labels[plan.LabelVersion] = "4.17.3"
			s.must(s.client.Update(s.t.Context(), n))
		}
	}
}

func (s *stage) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// rest goes on until the run is in one of some phases, and nothing more is written.
func (s *stage) rest(phases ...v1alpha1.Phase) {
	s.t.Helper()
	for range 200 {
		before := s.writes
		s.must(s.pass())
		s.clock.SetTime(s.clock.Now().Add(2 * time.Second))
		if slices.Contains(phases, s.run().Status.Phase) && s.writes == before {
			return
		}
		s.play()
	}
	s.t.Fatalf("the run does not come to %s: it is %s, %s", phases, s.run().Status.Phase, s.run().Status.Message)
}

func (s *stage) run() *v1alpha1.MutexRunConfig {
	s.t.Helper()
	run := &v1alpha1.MutexRunConfig{}
	s.must(s.client.Get(s.t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, run))
	return run
}

func edit[T client.Object](s *stage, object T, change func(T)) {
	s.t.Helper()
	s.must(s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object))
	change(object)
	s.must(s.client.Update(s.t.Context(), object))
}

// state is what a run must give back.
func (s *stage) state() string {
	s.t.Helper()
	var lines []string
	pools := &mcfgv1.MachineConfigPoolList{}
	s.must(s.client.List(s.t.Context(), pools))
	for i := range pools.Items {
		p := &pools.Items[i]
		lines = append(lines, fmt.Sprint(p.Name, p.Spec.Paused, p.Annotations[plan.AnnotationClaim], metav1.FormatLabelSelector(p.Spec.NodeSelector)))
	}
	nodes := &corev1.NodeList{}
	s.must(s.client.List(s.t.Context(), nodes))
	for i := range nodes.Items {
		n := &nodes.Items[i]
		kept := maps.Clone(n.Labels)
		delete(kept, plan.LabelVersion)
		lines = append(lines, fmt.Sprint(n.Name, slices.Sorted(maps.Keys(kept)), slices.Sorted(maps.Keys(n.Annotations))))
	}
	return strings.Join(lines, "\n")
}
