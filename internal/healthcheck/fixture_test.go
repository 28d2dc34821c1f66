package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/nodelease"

	"github.com/drover-io/drover/internal/healthcheck/plan"
)

const namespace = "machines"

// owner is the UID of the MachineSet of all Machines.
const owner = types.UID("uid-of-set")

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fixture is a Reconciler with a client in memory, a fake clock, and a cache that can be paused.
type fixture struct {
	*Reconciler
	*apitest.Requests
	t        *testing.T
	client   client.Client
	cache    *cache
	clock    *testclock.FakePassiveClock
	events   *record.FakeRecorder
	registry *prometheus.Registry
	metrics  *Metrics
	options  Options
	// reconciling reports that the controller is running, so that requests are its own.
	reconciling bool
}

// cache is what the controller reads from: the API server itself, or what it had when the cache was paused.
type cache struct{ client.Reader }

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	// Only what is used: the client in memory maps all kinds of the scheme, for each fixture.
	return apitest.Scheme(t, corev1.AddToScheme, coordinationv1.AddToScheme, machinev1beta1.Install, v1alpha1.AddToScheme)
}

func newFixture(t *testing.T, options Options, objects ...client.Object) *fixture {
	t.Helper()
	s := &fixture{
		t: t, clock: testclock.NewFakePassiveClock(start), events: record.NewFakeRecorder(1000),
		Requests: &apitest.Requests{Names: true, Fail: map[string]error{}},
		registry: prometheus.NewRegistry(), options: options,
	}
	s.client = s.builder(objects...).WithInterceptorFuncs(s.interceptors()).Build()
	s.cache = &cache{s.client}
	metrics, err := NewMetrics(s.registry)
	if err != nil {
		t.Fatal(err)
	}
	s.metrics = metrics
	if s.options.Leases != nil {
		s.options.Leases.Client, s.options.Leases.Clock, s.options.Leases.Namespace = s.client, s.clock, nodelease.DefaultNamespace
	}
	s.options.Clock, s.options.Live = s.clock, s.client
	if s.options.TemplateKinds == nil {
		s.options.TemplateKinds = plan.DefaultTemplateKinds()
	}
	s.restart()
	return s
}

func (s *fixture) builder(objects ...client.Object) *fake.ClientBuilder {
	s.t.Helper()
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{remediations, clusterScoped.GroupVersion()})
	mapper.Add(remediations.WithKind("Metal3Remediation"), meta.RESTScopeNamespace)
	mapper.Add(clusterScoped, meta.RESTScopeRoot)
	builder := fake.NewClientBuilder().WithScheme(newScheme(s.t)).WithRESTMapper(mapper).WithObjects(objects...).
		WithStatusSubresource(&machinev1beta1.MachineHealthCheck{}, &v1alpha1.NodeGroup{})
	builder.WithIndex(&machinev1beta1.Machine{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	if err := Index(s.t.Context(), apitest.Indexer{Builder: builder}); err != nil {
		s.t.Fatal(err)
	}
	return builder
}

// restart replaces the controller by a new one.
func (s *fixture) restart() {
	s.Reconciler = NewReconciler(s.cache, s.client, s.events, s.metrics, s.options)
}

// pauseCache makes the cache show the Machines, MachineSets, Nodes and MachineHealthChecks of this moment until it is resumed.
func (s *fixture) pauseCache() {
	s.t.Helper()
	var objects []client.Object
	machines, checks, nodes := &machinev1beta1.MachineList{}, &machinev1beta1.MachineHealthCheckList{}, &corev1.NodeList{}
	sets := &machinev1beta1.MachineSetList{}
	for _, list := range []client.ObjectList{machines, checks, nodes, sets} {
		if err := s.client.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range machines.Items {
		objects = append(objects, &machines.Items[i])
	}
	for i := range checks.Items {
		objects = append(objects, &checks.Items[i])
	}
	for i := range nodes.Items {
		objects = append(objects, &nodes.Items[i])
	}
	for i := range sets.Items {
		objects = append(objects, &sets.Items[i])
	}
	s.cache.Reader = s.builder(objects...).Build()
}

func (s *fixture) resumeCache() { s.cache.Reader = s.client }

// checkPreconditions checks that deletions have preconditions.
func (s *fixture) checkPreconditions(object client.Object, options []client.DeleteOption) {
	deletion := client.DeleteOptions{}
	deletion.ApplyOptions(options)
	guard := deletion.Preconditions
	if s.reconciling && (guard == nil || guard.UID == nil || guard.ResourceVersion == nil) {
		s.t.Errorf("the deletion of %s %s has no preconditions", apitest.Kind(object), object.GetName())
	}
}

// listPartial lists the metadata of unknown kinds, which the client in memory cannot.
func listPartial(ctx context.Context, next client.Reader, list *metav1.PartialObjectMetadataList, options ...client.ListOption) error {
	found := &unstructured.UnstructuredList{}
	found.SetGroupVersionKind(list.GroupVersionKind())
	if err := next.List(ctx, found, options...); err != nil {
		return err
	}
	for i := range found.Items {
		item := metav1.PartialObjectMetadata{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, &item); err != nil {
			return err
		}
		list.Items = append(list.Items, item)
	}
	return nil
}

func (s *fixture) interceptors() interceptor.Funcs {
	functions := s.Interceptors()
	list, remove := functions.List, functions.Delete
	functions.List = func(ctx context.Context, next client.WithWatch, objects client.ObjectList, options ...client.ListOption) error {
		if partial, ok := objects.(*metav1.PartialObjectMetadataList); ok && s.Fail["list "+apitest.Kind(objects)] == nil {
			return listPartial(ctx, next, partial, options...)
		}
		return list(ctx, next, objects, options...)
	}
	functions.Delete = func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.DeleteOption) error {
		s.checkPreconditions(object, options)
		return remove(ctx, next, object, options...)
	}
	return functions
}

// newCheck returns a MachineHealthCheck of the pool a: Ready must be True, or not for 5 minutes.
func newCheck(name string, change ...func(*machinev1beta1.MachineHealthCheck)) *machinev1beta1.MachineHealthCheck {
	created := func(check *machinev1beta1.MachineHealthCheck) {
		check.CreationTimestamp, check.Generation = metav1.NewTime(start), 1
	}
	return builder.MachineHealthCheck(namespace, name, map[string]string{"pool": "a"}, slices.Insert(change, 0, created)...)
}

// newMachine returns a Machine of the pool a, an hour old, which a MachineSet owns.
func newMachine(name, node string, change ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	set := builder.MachineSet(namespace, "set", 0, builder.WithSelector(map[string]string{"pool": "a"}))
	return builder.Machine(namespace, name, slices.Concat([]func(*machinev1beta1.Machine){
		builder.WithOwner(set), builder.WithNode(node), func(machine *machinev1beta1.Machine) {
			machine.CreationTimestamp, machine.Finalizers = metav1.NewTime(start.Add(-time.Hour)), []string{machinev1beta1.MachineFinalizer}
			machine.Status.Phase = new(machinev1beta1.PhaseProvisioned)
			if node != "" {
				machine.Status.Phase = new(machinev1beta1.PhaseRunning)
			}
		},
	}, change)...)
}

func newNode(name string) *corev1.Node {
	return builder.Node(name, builder.WithReadySince(corev1.ConditionTrue, start.Add(-time.Hour)))
}

// newUnreadyNode returns a Node that has not been ready for some time.
func newUnreadyNode(name string, age time.Duration) *corev1.Node {
	return builder.Node(name, builder.WithReadySince(corev1.ConditionFalse, start.Add(-age)))
}

func newLease(node, holder string) *coordinationv1.Lease {
	return builder.NodeLease(nodelease.DefaultNamespace, node, holder, start)
}

// reconcile reconciles a MachineHealthCheck and returns what was written.
func (s *fixture) reconcile(check string) (result reconcile.Result, writes string, err error) {
	s.Writes, s.reconciling = nil, true
	defer func() { s.reconciling = false }()
	result, err = s.Reconcile(s.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: check}})
	return result, strings.Join(s.Writes, ", "), err
}

// mustReconcile reconciles a MachineHealthCheck without an error, and checks what is written.
func (s *fixture) mustReconcile(check, want string) reconcile.Result {
	s.t.Helper()
	result, writes, err := s.reconcile(check)
	if err != nil || writes != want {
		s.t.Fatalf("error %v, wrote %q, want %q", err, writes, want)
	}
	return result
}

// reconcileUntilQuiet reconciles until nothing is written, and returns the last result.
func (s *fixture) reconcileUntilQuiet(check string) reconcile.Result {
	s.t.Helper()
	for range 20 {
		result, writes, err := s.reconcile(check)
		if err != nil {
			s.t.Fatal(err)
		}
		if writes == "" {
			return result
		}
	}
	s.t.Fatalf("it does not stop writing: %v", s.Writes)
	return reconcile.Result{}
}

func (s *fixture) advance(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }

func (s *fixture) status(name string) machinev1beta1.MachineHealthCheckStatus {
	s.t.Helper()
	check := &machinev1beta1.MachineHealthCheck{}
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, check); err != nil {
		s.t.Fatal(err)
	}
	return check.Status
}

// expectStatus checks the counts (expected, healthy, allowed) and conditions, written Type=Status or Type=Status/Reason; Type= for none.
func (s *fixture) expectStatus(name, counts string, conditions ...string) {
	s.t.Helper()
	status := s.status(name)
	if got := fmt.Sprint(*status.ExpectedMachines, *status.CurrentHealthy, status.RemediationsAllowed); got != counts {
		s.t.Errorf("counts %s, want %s", got, counts)
	}
	for _, condition := range conditions {
		kind, want, _ := strings.Cut(condition, "=")
		found := plan.FindCondition(status.Conditions, machinev1beta1.ConditionType(kind))
		got := string(found.Status)
		if found.Reason != "" {
			got += "/" + found.Reason
		}
		if got != want {
			s.t.Errorf("%s is %s (%s), want %s", kind, got, found.Message, want)
		}
	}
}

// conditionMessage returns the message of a condition.
func (s *fixture) conditionMessage(check string, kind machinev1beta1.ConditionType) string {
	s.t.Helper()
	return plan.FindCondition(s.status(check).Conditions, kind).Message
}

// deletedMachines returns the names of Machines that are being deleted or are gone.
func (s *fixture) deletedMachines(names ...string) string {
	s.t.Helper()
	var out []string
	for _, name := range names {
		machine := &machinev1beta1.Machine{}
		err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: namespace, Name: name}, machine)
		if err != nil || machine.DeletionTimestamp != nil {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

// edit changes an object as another client would; of a Node the status.
func edit[T client.Object](s *fixture, object T, change func(T)) {
	s.t.Helper()
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.t.Fatal(err)
	}
	change(object)
	var err error
	if _, node := client.Object(object).(*corev1.Node); node {
		err = s.client.Status().Update(s.t.Context(), object)
	} else {
		err = s.client.Update(s.t.Context(), object)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// emitted returns the events since the last call, without their messages.
func (s *fixture) emitted() string { return strings.Join(apitest.Events(s.events), ", ") }

func (s *fixture) metric(name string, labels ...string) float64 {
	s.t.Helper()
	return apitest.Metric(s.t, s.registry, name, labels...)
}
