package metadata

import (
	"context"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/ownership"
)

// fixture is a Reconciler on an API server in memory, with a clock of its own. The tests on a real control plane show that all of this holds there;
// these are about answers and moments that cannot be produced there.
type fixture struct {
	*Reconciler
	client  client.Client
	clock   *testclock.FakePassiveClock
	events  *record.FakeRecorder
	gather  prometheus.Gatherer
	patches []string
	// fail holds errors that are returned instead of the API server's answer, by kind.
	fail map[string]error
	// deny returns the error of a patch; nil denies none.
	deny func(object client.Object, patch client.Patch) error
}

func newScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	known := apitest.Scheme(t, scheme.AddToScheme, machinev1beta1.Install, v1alpha1.AddToScheme)
	return known
}

func newFixture(t *testing.T, options Options, objects ...client.Object) *fixture {
	t.Helper()
	s := &fixture{clock: testclock.NewFakePassiveClock(start), events: record.NewFakeRecorder(1000), fail: map[string]error{}}
	builder := fake.NewClientBuilder().WithScheme(newScheme(t)).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, next client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
			kind := object.GetObjectKind().GroupVersionKind().Kind
			if err := s.fail[kind]; err != nil {
				return err
			}
			if s.deny != nil {
				if err := s.deny(object, patch); err != nil {
					return err
				}
			}
			if err := ctx.Err(); err != nil {
				return err
			}
			s.patches = append(s.patches, kind+"/"+object.GetName())
			return next.Patch(ctx, object, patch, opts...)
		},
	})
	if err := Index(t.Context(), apitest.Indexer{Builder: builder}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewRegistry()
	metrics, err := NewMetrics(registry)
	if err != nil {
		t.Fatal(err)
	}
	s.client, s.gather = builder.Build(), registry
	options.Clock, options.Protected, options.Templates = s.clock, ownership.DefaultProtected(), true
	s.Reconciler = NewReconciler(s.client, s.client, s.events, metrics, options)
	return s
}

func setOf(name string, labels map[string]string) *machinev1beta1.MachineSet {
	return builder.MachineSet("machines", name, 0, builder.WithSelector(map[string]string{"pool": name}), func(set *machinev1beta1.MachineSet) {
		set.Generation, set.CreationTimestamp = 1, metav1.NewTime(start.Add(-time.Hour))
		set.Spec.Template.Spec.Labels = labels
	})
}

func machineOf(set *machinev1beta1.MachineSet, name, node string) *machinev1beta1.Machine {
	return builder.Machine("machines", name, builder.WithOwner(set), builder.WithNode(node))
}

// reconcile reconciles a Machine and returns the patches that were sent.
func (s *fixture) reconcile(t *testing.T, machine string) (result reconcile.Result, sent string, err error) {
	t.Helper()
	s.patches = nil
	found := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: named(machine).Namespace, Name: machine}}
	if err := s.client.Get(t.Context(), named(machine), found); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	result, err = s.Reconcile(t.Context(), requestFor(found))
	return result, strings.Join(s.patches, " "), err
}

// must reconciles a Machine, which must not fail, and compares the patches that were sent.
func (s *fixture) must(t *testing.T, machine, patches string) reconcile.Result {
	t.Helper()
	result, sent, err := s.reconcile(t, machine)
	if err != nil || sent != patches {
		t.Fatalf("error %v, patches %q, want %q", err, sent, patches)
	}
	return result
}

// emitted returns the events since the last call, without their messages.
func (s *fixture) emitted() string { return strings.Join(apitest.Events(s.events), ", ") }

// metric returns a number, zero without such a series.
func (s *fixture) metric(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	return max(apitest.Metric(t, s.gather, name, labels...), 0)
}
