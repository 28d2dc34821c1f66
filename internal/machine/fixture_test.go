package machine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// cloud is a provider whose answers are the test's.
type cloud struct {
	// instances are the existing instances, by the Machine's name.
	instances map[string]*provider.Instance
	// fail answers in the place of a call.
	fail map[string]error
	// slow instances take another call of Delete to end.
	slow  bool
	calls []string
}

func (c *cloud) call(name string, machine *machinev1beta1.Machine) error {
	c.calls = append(c.calls, name+" "+machine.Name)
	return c.fail[name]
}

func (c *cloud) Create(_ context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	if err := c.call("create", machine); err != nil {
		return nil, err
	}
	c.instances[machine.Name] = instanceOf(machine.Name)
	return c.instances[machine.Name], nil
}

func (c *cloud) Get(_ context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	if err := c.call("get", machine); err != nil {
		return nil, err
	}
	return c.instances[machine.Name], nil
}

func (c *cloud) Delete(_ context.Context, machine *machinev1beta1.Machine) error {
	if err := c.call("delete", machine); err != nil {
		return err
	}
	if c.slow {
		c.slow = false
		return nil
	}
	delete(c.instances, machine.Name)
	return nil
}

func instanceOf(name string) *provider.Instance {
	return &provider.Instance{
		ProviderID: "cloud:///" + name, State: provider.Running, Type: "m5", Region: "eu", Zone: "eu-1",
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
		Status:    &runtime.RawExtension{Raw: []byte(`{"instanceState":"running"}`)},
	}
}

// fixture is a Reconciler with a client in memory, a provider and a clock. What the API server does is tested on a real one; here it is about answers
// and moments that cannot be had there at will.
type fixture struct {
	*Reconciler
	*apitest.Requests
	t      *testing.T
	client client.Client
	clock  *testclock.FakeClock
	events *record.FakeRecorder
	cloud  *cloud
	// drains has the metrics of the drain engine.
	drains *prometheus.Registry
}

var cloudKind = schema.GroupKind{Group: "cloud.example.com", Kind: "CloudSpec"}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	known := apitest.Scheme(t, scheme.AddToScheme, machinev1beta1.Install)
	s := &fixture{
		t: t, clock: testclock.NewFakeClock(start), events: record.NewFakeRecorder(1000),
		Requests: &apitest.Requests{Fail: map[string]error{}},
		cloud:    &cloud{instances: map[string]*provider.Instance{}, fail: map[string]error{}},
	}
	builder := fake.NewClientBuilder().WithScheme(known).WithObjects(objects...).
		WithStatusSubresource(&machinev1beta1.Machine{}).WithInterceptorFuncs(s.Interceptors())
	index := apitest.Indexer{Builder: builder}
	apitest.IndexPods(builder)
	for _, err := range []error{engine.Index(t.Context(), index), Index(t.Context(), index)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	s.client = builder.Build()
	s.drains = prometheus.NewRegistry()
	drainMetrics, err := engine.NewMetrics(s.drains)
	if err != nil {
		t.Fatal(err)
	}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	actuators, err := NewActuators(provider.Environment{}, nil, provider.Provider{
		Name: "cloud", Kinds: []schema.GroupKind{cloudKind}, New: func(provider.Environment) (provider.Actuator, error) { return s.cloud, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Reconciler = NewReconciler(&Dependencies{
		Cache: s.client, Writer: s.client, Live: s.client, Recorder: s.events, Actuators: actuators, Metrics: metrics,
		Engine: engine.New(apitest.Pods{Reader: s.client}, s.client, s.client, s.client, drainMetrics, engine.Settings{Clock: s.clock}),
		Lease:  &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: s.clock},
	}, Options{Clock: s.clock})
	return s
}

func machineOf(name string) *machinev1beta1.Machine {
	return builder.Machine("machines", name, func(machine *machinev1beta1.Machine) {
		machine.Finalizers, machine.Generation = []string{machinev1beta1.MachineFinalizer}, 1
		machine.CreationTimestamp = metav1.NewTime(start.Add(-time.Minute))
		machine.Spec.ProviderSpec = builder.RawProviderSpec(`{"apiVersion":"cloud.example.com/v1","kind":"CloudSpec"}`)
	})
}

// nodeOf is the Node that the instance of a Machine becomes.
func nodeOf(name string) *corev1.Node {
	return builder.Node(name, builder.WithProviderID("cloud:///"+name), builder.WithReady(corev1.ConditionTrue), func(node *corev1.Node) {
		node.UID = types.UID("uid-of-node-" + name)
	})
}

func podOf(name, node string) *corev1.Pod {
	return builder.Pod("shop", name, node, builder.WithRunning)
}

// reconcile reconciles once and returns what was written and what the provider was asked.
func (s *fixture) reconcile(name string) (result reconcile.Result, writes, calls string) {
	s.t.Helper()
	result, writes, calls, err := s.tryReconcile(name)
	if err != nil {
		s.t.Fatal(err)
	}
	return result, writes, calls
}

// tryReconcile reconciles once and may fail.
func (s *fixture) tryReconcile(name string) (result reconcile.Result, writes, calls string, err error) {
	s.t.Helper()
	s.Writes, s.cloud.calls = nil, nil
	result, err = s.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "machines", Name: name}})
	for _, call := range s.cloud.calls {
		calls += strings.Fields(call)[0] + " "
	}
	return result, strings.Join(s.Writes, ", "), strings.TrimSpace(calls), err
}

// settle reconciles until nothing is written any more.
func (s *fixture) settle(name string) {
	s.t.Helper()
	for range 10 {
		if _, writes, _ := s.reconcile(name); writes == "" {
			return
		}
		s.clock.Step(time.Second)
	}
	s.t.Fatalf("it goes on writing: %v", s.Writes)
}

// machine reads a Machine; nil when it is gone.
func (s *fixture) machine(name string) *machinev1beta1.Machine {
	s.t.Helper()
	machine := &machinev1beta1.Machine{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: "machines", Name: name}, machine)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return machine
}

func (s *fixture) node(name string) *corev1.Node {
	s.t.Helper()
	node := &corev1.Node{}
	err := s.client.Get(s.t.Context(), types.NamespacedName{Name: name}, node)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		s.t.Fatal(err)
	}
	return node
}

// create adds an object to the cluster.
func (s *fixture) create(object client.Object) {
	s.t.Helper()
	if err := s.client.Create(s.t.Context(), object); err != nil {
		s.t.Fatal(err)
	}
}

// delete deletes a Machine as a user does.
func (s *fixture) delete(name string) {
	s.t.Helper()
	if err := s.client.Delete(s.t.Context(), s.machine(name)); err != nil {
		s.t.Fatal(err)
	}
}

// update changes a Machine as another writer does.
func (s *fixture) update(name string, change func(*machinev1beta1.Machine)) {
	s.t.Helper()
	machine := s.machine(name)
	change(machine)
	machine.Generation++
	if err := s.client.Update(s.t.Context(), machine); err != nil {
		s.t.Fatal(err)
	}
}

// emitted returns the reasons of the events since the last call, sorted.
func (s *fixture) emitted() string {
	return strings.Join(slices.Sorted(slices.Values(apitest.Reasons(s.events))), ", ")
}

// expect compares the phase and conditions, as Type=Reason, with - for none, or Type=True.
func (s *fixture) expect(name, phase string, conditions ...string) {
	s.t.Helper()
	machine := s.machine(name)
	if machine.Status.Phase == nil || *machine.Status.Phase != phase {
		s.t.Errorf("phase %v, want %s", machine.Status.Phase, phase)
	}
	for _, condition := range conditions {
		kind, want, _ := strings.Cut(condition, "=")
		found := status.MachineCondition(machine.Status.Conditions, machinev1beta1.ConditionType(kind))
		got := "-"
		if found != nil {
			if got = found.Reason; found.Status == corev1.ConditionTrue {
				got = "True"
			}
		}
		if got != want {
			s.t.Errorf("%s is %s (%+v), want %s", kind, got, found, want)
		}
	}
}

// draining returns the name of the Node that is being drained for a Machine.
func (s *fixture) draining(name string) string {
	return s.states.Get(types.NamespacedName{Namespace: "machines", Name: name}, types.UID("uid-of-"+name)).Draining
}
