package machineset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/status"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// fixture is a Reconciler on an API server in memory, with a clock of its own and a cache that can be held back. What a real API server
// makes of all this is tested on one; here it is about answers and moments that cannot be had there at will.
type fixture struct {
	*Reconciler
	t      *testing.T
	client client.Client
	clock  *testclock.FakePassiveClock
	events *record.FakeRecorder
	gather prometheus.Gatherer
	cached *lagging

	mu sync.Mutex
	// writes are the requests since the last pass began, "create Machine", "delete Machine/a", "patch Machine/a", "status MachineSet/web".
	writes []string
	// creates counts the Machines that were created. deletes counts the deletions of each Machine, by name and UID.
	creates int
	deletes map[string]int
	names   int
	uids    int
	newest  string
	// fail, when set, answers instead of the API server.
	fail func(write string) error
	// lose, when set, loses the answer of a request that has been carried out.
	lose func(write string) error
	// carried, when set, is called after each request that has been carried out.
	carried func()
}

// lagging is a cache: it shows an API server, or what was there when it was frozen.
type lagging struct {
	client.Reader
	// reached is the newest version of what it is frozen at; empty when it is not.
	reached string
}

// split is a cache that lags for Machines only.
type split struct {
	client.Reader
	machines client.Reader
}

func (c split) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if _, ok := object.(*machinev1beta1.Machine); ok {
		return c.machines.Get(ctx, key, object, options...)
	}
	return c.Reader.Get(ctx, key, object, options...)
}

func (c split) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	if _, ok := list.(*machinev1beta1.MachineList); ok {
		return c.machines.List(ctx, list, options...)
	}
	return c.Reader.List(ctx, list, options...)
}

var known = sync.OnceValues(func() (*runtime.Scheme, error) {
	known := runtime.NewScheme()
	return known, errors.Join(scheme.AddToScheme(known), machinev1beta1.Install(known))
})

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	known, err := known()
	if err != nil {
		t.Fatal(err)
	}
	return known
}

func newBuilder(t *testing.T) *fake.ClientBuilder {
	t.Helper()
	known := newScheme(t)
	// A tracker without managed fields: the usual one takes longer to make than all the rest of a test takes.
	tracker := clienttesting.NewObjectTracker(known, serializer.NewCodecFactory(known).UniversalDecoder())
	builder := fake.NewClientBuilder().WithScheme(known).WithObjectTracker(tracker).
		WithStatusSubresource(&machinev1beta1.MachineSet{}, &machinev1beta1.Machine{}, &corev1.Node{})
	builder.WithIndex(&machinev1beta1.Machine{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} })
	if err := Index(t.Context(), apitest.Indexer{Builder: builder}); err != nil {
		t.Fatal(err)
	}
	return builder
}

func newFixture(t *testing.T, options Options, objects ...client.Object) *fixture {
	t.Helper()
	s := &fixture{t: t, clock: testclock.NewFakePassiveClock(start), events: record.NewFakeRecorder(10000), deletes: map[string]int{}}
	s.client = newBuilder(t).WithObjects(objects...).WithGlobalResourceVersionCounter().WithInterceptorFuncs(s.interceptors()).Build()
	for _, object := range s.objects() {
		s.seen(object)
	}
	s.cached = &lagging{Reader: s.client}
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	s.gather = registry
	options.Clock, options.Suffix = s.clock, s.suffix
	s.Reconciler = NewReconciler(s.cached, s.client, nil, s.client, s.events, metrics, options)
	return s
}

// restart makes a Reconciler that remembers nothing, as a new process does.
func (s *fixture) restart(version func() string) {
	s.Reconciler = NewReconciler(s.cached, s.client, version, s.client, s.events, s.metrics, s.options)
}

func (s *fixture) suffix() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.names++
	return fmt.Sprintf("%05d", s.names)
}

// uid is another one each time: a name may be used again.
func (s *fixture) uid() types.UID {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uids++
	return types.UID(fmt.Sprintf("uid-%d", s.uids))
}

// write notes a request, and answers it if it is to fail.
func (s *fixture) write(verb string, object client.Object) (write string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	write = verb + " " + apitest.Kind(object) + "/" + object.GetName()
	if verb == "create" {
		write = verb + " " + apitest.Kind(object)
	}
	s.writes = append(s.writes, write)
	if s.fail != nil {
		err = s.fail(write)
	}
	return write, err
}

// done notes what has been carried out.
func (s *fixture) done(write string, object client.Object, err error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		return err
	}
	s.seen(object)
	if s.carried != nil {
		s.carried()
	}
	if s.lose != nil {
		return s.lose(write)
	}
	return nil
}

// seen notes the newest version that there is.
func (s *fixture) seen(object client.Object) {
	version := object.GetResourceVersion()
	// The answer to a deletion has none.
	if order, err := resourceversion.CompareResourceVersion(version, s.newest); version != "" && (err != nil || order > 0) {
		s.newest = version
	}
}

func (s *fixture) interceptors() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.CreateOption) error {
			write, err := s.write("create", object)
			if err != nil {
				return err
			}
			object.SetUID(s.uid())
			object.SetCreationTimestamp(metav1.NewTime(s.clock.Now()))
			if err = next.Create(ctx, object, options...); err == nil {
				s.mu.Lock()
				s.creates++
				s.mu.Unlock()
			}
			return s.done(write, object, err)
		},
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			write, err := s.write("patch", object)
			if err != nil {
				return err
			}
			return s.done(write, object, next.Patch(ctx, object, patch, options...))
		},
		SubResourcePatch: func(
			ctx context.Context, next client.Client, part string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption,
		) error {
			write, err := s.write(part, object)
			if err != nil {
				return err
			}
			return s.done(write, object, next.SubResource(part).Patch(ctx, object, patch, options...))
		},
		Delete: func(ctx context.Context, next client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if apitest.Kind(object) != "Machine" {
				return next.Delete(ctx, object, options...)
			}
			write, err := s.write("delete", object)
			if err != nil {
				return err
			}
			return s.done(write, object, s.delete(ctx, next, object, options))
		},
	}
}

// delete checks the precondition on the UID, which the client in memory leaves out.
func (s *fixture) delete(ctx context.Context, next client.WithWatch, object client.Object, options []client.DeleteOption) error {
	given := (&client.DeleteOptions{}).ApplyOptions(options)
	if given.Preconditions == nil || given.Preconditions.UID == nil || given.Preconditions.ResourceVersion == nil {
		s.t.Errorf("%s is deleted without a guard", object.GetName())
		return errors.New("no guard")
	}
	live := &machinev1beta1.Machine{}
	if err := next.Get(ctx, client.ObjectKeyFromObject(object), live); err != nil {
		return err
	}
	if live.UID != *given.Preconditions.UID {
		return apierrors.NewConflict(schema.GroupResource{Resource: "machines"}, object.GetName(), errors.New("another UID"))
	}
	err := next.Delete(ctx, object, options...)
	if err == nil {
		s.mu.Lock()
		s.deletes[live.Name+" "+string(live.UID)]++
		s.mu.Unlock()
	}
	return err
}

// objects lists all there is.
func (s *fixture) objects() []client.Object {
	s.t.Helper()
	var out []client.Object
	var sets machinev1beta1.MachineSetList
	var machines machinev1beta1.MachineList
	var nodes corev1.NodeList
	for _, list := range []client.ObjectList{&sets, &machines, &nodes} {
		if err := s.client.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
	}
	for i := range sets.Items {
		out = append(out, &sets.Items[i])
	}
	for i := range machines.Items {
		out = append(out, &machines.Items[i])
	}
	for i := range nodes.Items {
		out = append(out, &nodes.Items[i])
	}
	return out
}

// moment is a state of the cluster, and its version.
type moment struct {
	objects []client.Object
	version string
}

func (s *fixture) moment() moment { return moment{s.objects(), s.newest} }

// show makes the cache show a moment, for ever.
func (s *fixture) show(m moment) {
	s.cached.Reader, s.cached.reached = newBuilder(s.t).WithObjects(m.objects...).Build(), m.version
}

// freeze holds the cache back, thaw lets it catch up.
func (s *fixture) freeze() { s.show(s.moment()) }

// freezeMachines holds the cache of Machines back only.
func (s *fixture) freezeMachines() {
	s.freeze()
	s.cached.Reader = split{s.client, s.cached.Reader}
}

func (s *fixture) thaw() { s.cached.Reader, s.cached.reached = s.client, "" }

// version is what a cache says of itself.
func (s *fixture) version() string {
	if s.cached.reached != "" {
		return s.cached.reached
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.newest
}

// try makes a pass and returns what it wrote.
func (s *fixture) try(name string) (result reconcile.Result, writes string, err error) {
	s.t.Helper()
	s.writes = nil
	result, err = s.Reconcile(s.t.Context(), named("machines", name))
	// Requests that are made at once have no order. This one is also the order of a pass, replacements aside.
	slices.Sort(s.writes)
	return result, strings.Join(s.writes, ", "), err
}

// reconciles reconciles the MachineSet once and checks what was written. An error fails the test.
func (s *fixture) reconciles(writes string) reconcile.Result {
	s.t.Helper()
	result, got, err := s.try("web")
	if err != nil || got != writes {
		s.t.Fatalf("error %v\nwrote %s\nwant  %s", err, got, writes)
	}
	return result
}

// settle makes passes until one writes nothing and waits for nothing that is near.
func (s *fixture) settle() reconcile.Result {
	s.t.Helper()
	for range 20 {
		result, writes, err := s.try("web")
		if err != nil {
			s.t.Fatal(err)
		}
		if writes == "" && (result.RequeueAfter == 0 || result.RequeueAfter > controller.CatchUp) {
			return result
		}
	}
	s.t.Fatalf("pass after pass writes: %v", s.writes)
	return reconcile.Result{}
}

// drainEvents returns the reasons of the events so far, in order, and the whole text of the last one.
func (s *fixture) drainEvents() (reasons, last string) {
	var out []string
	for {
		select {
		case event := <-s.events.Events:
			last = event
			out = append(out, strings.Fields(event)[1])
		default:
			return strings.Join(out, " "), last
		}
	}
}

// state returns what the controller knows of the MachineSet.
func (s *fixture) state() *state {
	s.t.Helper()
	return s.states.Get(named("machines", "web").NamespacedName, s.set().UID)
}

func (s *fixture) set() *machinev1beta1.MachineSet {
	s.t.Helper()
	set := &machinev1beta1.MachineSet{}
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: "machines", Name: "web"}, set); err != nil {
		s.t.Fatal(err)
	}
	return set
}

func (s *fixture) machine(name string) *machinev1beta1.Machine {
	s.t.Helper()
	machine := &machinev1beta1.Machine{}
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Namespace: "machines", Name: name}, machine); err != nil {
		s.t.Fatal(err)
	}
	return machine
}

// living are the names of the Machines that are not being deleted.
func (s *fixture) living() []string {
	s.t.Helper()
	var machines machinev1beta1.MachineList
	if err := s.client.List(s.t.Context(), &machines); err != nil {
		s.t.Fatal(err)
	}
	var out []string
	for i := range machines.Items {
		if machines.Items[i].DeletionTimestamp == nil {
			out = append(out, machines.Items[i].Name)
		}
	}
	slices.Sort(out)
	return out
}

// expect checks replicas, ready and available ones, and conditions, written Type=Status Reason.
func (s *fixture) expect(replicas, ready, available int32, conditions ...string) {
	s.t.Helper()
	after := s.set().Status
	if after.Replicas != replicas || after.ReadyReplicas != ready || after.AvailableReplicas != available {
		s.t.Errorf("%d replicas, %d ready, %d available; want %d, %d, %d",
			after.Replicas, after.ReadyReplicas, after.AvailableReplicas, replicas, ready, available)
	}
	for _, condition := range conditions {
		kind, rest, _ := strings.Cut(condition, "=")
		c := status.MachineCondition(after.Conditions, machinev1beta1.ConditionType(kind))
		if c == nil || string(c.Status)+" "+c.Reason != rest {
			s.t.Errorf("%s: %+v, want %s", kind, c, rest)
		}
	}
}

// edit changes an object as another writer would, with its status.
func edit[T client.Object](s *fixture, object T, change func(T)) {
	s.t.Helper()
	for _, update := range []func() error{
		func() error { return s.client.Update(s.t.Context(), object) },
		func() error { return s.client.Status().Update(s.t.Context(), object) },
	} {
		if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			s.t.Fatal(err)
		}
		change(object)
		if err := update(); err != nil {
			s.t.Fatal(err)
		}
	}
	s.seen(object)
}

// resize sets spec.replicas, with a generation as the API server counts it.
func (s *fixture) resize(replicas int32) {
	s.t.Helper()
	edit(s, s.set(), func(set *machinev1beta1.MachineSet) {
		set.Spec.Replicas = &replicas
		set.Generation++
	})
}

func (s *fixture) metric(name string, labels ...string) float64 {
	s.t.Helper()
	return apitest.Metric(s.t, s.gather, name, labels...)
}
