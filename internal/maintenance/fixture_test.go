package maintenance

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fixture is a Reconciler of the newer group with a client in memory and a clock. What a real API server does is tested in test/maintenance; here are
// long times, and answers that a real one does not give on request.
type fixture struct {
	*Reconciler
	*apitest.Requests
	t      *testing.T
	client client.Client
	clock  *testclock.FakeClock
	events *record.FakeRecorder
	gather *prometheus.Registry
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	known := apitest.Scheme(t, scheme.AddToScheme, medik8s.AddToScheme, kubevirt.AddToScheme)
	s := &fixture{
		t: t, clock: testclock.NewFakeClock(start), events: record.NewFakeRecorder(1000), Requests: &apitest.Requests{Fail: map[string]error{}},
	}
	builder := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&medik8s.NodeMaintenance{}, &kubevirt.NodeMaintenance{}).WithInterceptorFuncs(s.Interceptors())
	index := apitest.Indexer{Builder: builder}
	apitest.IndexPods(builder)
	builder.WithIndex(&corev1.Node{}, metav1.ObjectNameField, func(node client.Object) []string { return []string{node.GetName()} })
	for _, err := range []error{engine.Index(t.Context(), index), Index(t.Context(), index, Medik8s()), Index(t.Context(), index, Kubevirt())} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.client = builder.Build()
	s.gather = prometheus.NewRegistry()
	drainMetrics, err := engine.NewMetrics(s.gather)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	dependencies := &Dependencies{
		Cache: s.client, Writer: s.client, Live: s.client, Recorder: s.events, Registry: NewRegistry(s.client), Metrics: metrics,
		Nodes:  expectations.NewObjects(nil, s.clock),
		Engine: engine.New(apitest.Pods{Reader: s.client}, s.client, s.client, s.client, drainMetrics, engine.Settings{Clock: s.clock}),
		Lease:  &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: s.clock},
		OwnLease: &nodelease.Leases{Client: s.client, Namespace: "own", Holder: Holder, Clock: s.clock, NameOf: func(n string) string { return n },
			KeepReleased: true},
	}
	t.Cleanup(dependencies.Registry.serve(Medik8s()))
	t.Cleanup(dependencies.Registry.serve(Kubevirt()))
	s.Reconciler = NewReconciler(Medik8s(), dependencies, Options{Clock: s.clock, Settings: plan.Settings{LeaseLoss: 5 * time.Minute}})
	return s
}

func newNode(name string) *corev1.Node {
	return builder.Node(name, builder.WithReady(corev1.ConditionTrue))
}

func newMaintenance(name, node string) *medik8s.NodeMaintenance {
	return builder.NodeMaintenance(name, node, func(m *medik8s.NodeMaintenance) {
		m.CreationTimestamp, m.Generation = metav1.NewTime(start.Add(-time.Minute)), 1
	})
}

func newPod(name, node string) *corev1.Pod {
	return builder.Pod("shop", name, node, builder.WithRunning, func(pod *corev1.Pod) { pod.Labels["app"] = "web" })
}

func newLease(node, holder string, renewed time.Time) *coordinationv1.Lease {
	lease := builder.NodeLease(nodelease.DefaultNamespace, node, holder, renewed)
	lease.Spec.LeaseTransitions = new(int32(1))
	return lease
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

// reconcile reconciles a NodeMaintenance once and returns the writes.
func (s *fixture) reconcile(name string) (result reconcile.Result, writes string) {
	s.t.Helper()
	s.Writes = nil
	result, err := s.Reconcile(s.t.Context(), requestFor(name))
	if err != nil {
		s.t.Fatal(err)
	}
	return result, strings.Join(s.Writes, ", ")
}

// settle reconciles a NodeMaintenance until nothing is written.
func (s *fixture) settle(name string) reconcile.Result {
	s.t.Helper()
	for range 10 {
		result, writes := s.reconcile(name)
		if writes == "" {
			return result
		}
		// Progress is written once a second.
		s.clock.Step(statusInterval)
	}
	s.t.Fatalf("each reconciliation writes: %v", s.Writes)
	return reconcile.Result{}
}

func (s *fixture) read(object client.Object, name string) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Name: name}, object); err != nil {
		s.t.Fatal(err)
	}
}

func (s *fixture) status(name string) medik8s.NodeMaintenanceStatus {
	s.t.Helper()
	object := &medik8s.NodeMaintenance{}
	s.read(object, name)
	return object.Status
}

func (s *fixture) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	s.read(node, name)
	return node
}

// emitted returns the reasons of the events since the last call.
func (s *fixture) emitted() string { return strings.Join(apitest.Reasons(s.events), " ") }

// expect checks phase, lastError (a part of it, "" for none) and conditions, written Type=Reason.
func (s *fixture) expect(name string, phase medik8s.Phase, lastError string, conditions ...string) {
	s.t.Helper()
	status := s.status(name)
	if status.Phase != phase || !strings.Contains(status.LastError, lastError) || (lastError == "") != (status.LastError == "") {
		s.t.Errorf("%s, %q; want %s, %q", status.Phase, status.LastError, phase, lastError)
	}
	for _, condition := range conditions {
		kind, reason, _ := strings.Cut(condition, "=")
		if found := meta.FindStatusCondition(status.Conditions, kind); found == nil || found.Reason != reason {
			s.t.Errorf("%s: %+v, want %s", kind, found, reason)
		}
	}
}

// inMaintenance reports whether a node is cordoned with the taint, the label and the record of a NodeMaintenance.
func inMaintenance(node *corev1.Node) bool {
	return node.Spec.Unschedulable && node.Labels[ExcludeLabel] == "true" && node.Annotations[drain.AnnotationCordon] != "" &&
		slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == "medik8s.io/drain" })
}

// evicting returns the number of Pods that are being evicted, from the engine's metric.
func (s *fixture) evicting() float64 {
	s.t.Helper()
	return apitest.Metric(s.t, s.gather, "drover_drain_pods_left", string(drain.Evicting))
}
