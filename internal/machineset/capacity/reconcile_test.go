package capacity

import (
	"context"
	"errors"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/provider"
)

var key = types.NamespacedName{Namespace: "machines", Name: "web"}

// fixture is a Reconciler on an API server in memory. It is the provider as well.
type fixture struct {
	*apitest.Requests
	*Reconciler
	t      *testing.T
	client client.Client
	clock  *testclock.FakePassiveClock
	events *record.FakeRecorder
	// cpus is what the provider answers; "" is an unknown type. asked counts the questions.
	cpus  string
	err   error
	asked int
	// unserved reports that no provider serves the template, and silent that the provider knows no capacities.
	unserved, silent bool
}

func (f *fixture) Capacity(context.Context, *machinev1beta1.MachineSet) (*provider.Capacity, error) {
	f.asked++
	if f.err != nil || f.cpus == "" {
		return nil, f.err
	}
	return &provider.Capacity{Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(f.cpus)}}, nil
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := apitest.Scheme(t, machinev1beta1.Install)
	f := &fixture{
		Requests: &apitest.Requests{Names: true, Fail: map[string]error{}}, t: t, cpus: "4",
		clock: testclock.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)), events: record.NewFakeRecorder(100),
	}
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "uid"}}
	f.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithInterceptorFuncs(f.Interceptors()).Build()
	f.Reconciler = NewReconciler(f.client, f.client, f.events, Options{Clock: f.clock, Provider: f.provider})
	return f
}

func (f *fixture) provider(*machinev1beta1.MachineSet) (provider.CapacityProvider, error) {
	if f.unserved {
		return nil, errors.New("no provider serves it")
	}
	if f.silent {
		return nil, nil
	}
	return f, nil
}

// reconciles reconciles the MachineSet and checks whether it was written, how often the provider was asked, and the cpu that it says.
func (f *fixture) reconciles(wrote bool, asked int, cpus string) reconcile.Result {
	f.t.Helper()
	before, beforeVersion := f.asked, f.set().ResourceVersion
	result, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: key})
	if err != nil {
		f.t.Fatal(err)
	}
	set := f.set()
	if got := set.ResourceVersion != beforeVersion; got != wrote {
		f.t.Errorf("it was written: %t, want %t", got, wrote)
	}
	if got := f.asked - before; got != asked {
		f.t.Errorf("the provider was asked %d times, want %d", got, asked)
	}
	if got := set.Annotations["capacity.cluster-autoscaler.kubernetes.io/cpu"]; got != cpus {
		f.t.Errorf("cpu %q, want %q", got, cpus)
	}
	return result
}

func (f *fixture) set() *machinev1beta1.MachineSet {
	f.t.Helper()
	set := &machinev1beta1.MachineSet{}
	if err := f.client.Get(f.t.Context(), key, set); err != nil {
		f.t.Fatal(err)
	}
	return set
}

func (f *fixture) edit(change func(*machinev1beta1.MachineSet)) {
	f.t.Helper()
	apitest.Edit(f.t, f.client, f.set(), change)
}

func (f *fixture) expectEvent(text string) {
	f.t.Helper()
	got := ""
	select {
	case got = <-f.events.Events:
	default:
	}
	if got != text || len(f.events.Events) > 0 {
		f.t.Errorf("event %q and %d more, want %q", got, len(f.events.Events), text)
	}
}

func newTemplate(set *machinev1beta1.MachineSet) {
	set.Spec.Template.Spec.ProviderSpec.Value = &runtime.RawExtension{Raw: []byte(`{"numCPUs":8}`)}
}

func TestReconcile_AsksOnTemplateChangeAndHourly(t *testing.T) {
	f := newFixture(t)
	if result := f.reconciles(true, 1, "4"); result.RequeueAfter != askInterval {
		t.Errorf("it is asked again in %s", result.RequeueAfter)
	}
	f.reconciles(false, 0, "4")
	f.edit(func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(3)) })
	f.reconciles(false, 0, "4")
	f.edit(newTemplate)
	f.cpus = "8"
	f.reconciles(true, 1, "8")
	f.cpus = "16"
	f.clock.SetTime(f.clock.Now().Add(askInterval - time.Second))
	f.reconciles(false, 0, "8")
	f.clock.SetTime(f.clock.Now().Add(time.Second))
	f.reconciles(true, 1, "16")
	f.edit(func(set *machinev1beta1.MachineSet) {
		set.Annotations["capacity.cluster-autoscaler.kubernetes.io/cpu"] = "2"
	})
	f.reconciles(true, 0, "2")
	f.reconciles(false, 0, "2")
	f.expectEvent("")
}

func TestReconcile_UnknownType(t *testing.T) {
	f := newFixture(t)
	f.reconciles(true, 1, "4")
	f.edit(newTemplate)
	f.cpus = ""
	f.reconciles(false, 1, "4")
	f.expectEvent("Warning FailedUpdate Failed to set autoscaling from zero annotations, instance type unknown")
	f.clock.SetTime(f.clock.Now().Add(askInterval))
	f.reconciles(false, 1, "4")
	f.expectEvent("")
	f.clock.SetTime(f.clock.Now().Add(askInterval))
	f.cpus = "8"
	f.reconciles(true, 1, "8")
}

func TestReconcile_ErrorsOfTheProvider(t *testing.T) {
	f := newFixture(t)
	f.reconciles(true, 1, "4")
	f.edit(newTemplate)
	f.err = errors.New("the vCenter does not answer")
	for i := range 5 {
		if _, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); !errors.Is(err, f.err) {
			t.Errorf("error %v", err)
		}
		if i == 1 {
			f.expectEvent("")
		}
	}
	f.expectEvent("Warning FailedUpdate Failed to set autoscaling from zero annotations: the vCenter does not answer")
	f.err = provider.InvalidConfiguration("no template")
	f.reconciles(false, 1, "4")
	f.reconciles(false, 0, "4")
	f.expectEvent("Warning FailedUpdate Failed to set autoscaling from zero annotations: no template")
	f.err = nil
	f.edit(func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec.Value.Raw = []byte(`{"numCPUs":9}`)
	})
	f.reconciles(false, 1, "4")
}

func TestReconcile_ProviderAsksToWait(t *testing.T) {
	f := newFixture(t)
	f.err = provider.RequeueAfter(5*time.Second, "starting")
	for range 5 {
		if result := f.reconciles(false, 1, ""); result.RequeueAfter != 5*time.Second {
			t.Errorf("it is asked again in %s", result.RequeueAfter)
		}
	}
	f.expectEvent("")
	f.err = nil
	f.reconciles(true, 1, "4")
}

func TestReconcile_NotAsked(t *testing.T) {
	for name, change := range map[string]func(*machinev1beta1.MachineSet){
		"paused": func(set *machinev1beta1.MachineSet) { set.Annotations = map[string]string{"drover.dev/paused": ""} },
		"another API": func(set *machinev1beta1.MachineSet) {
			set.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityClusterAPI
		},
		"being deleted": func(set *machinev1beta1.MachineSet) { set.Finalizers = []string{"example.com/a"} },
		"not yet chosen": func(set *machinev1beta1.MachineSet) {
			set.Spec.AuthoritativeAPI = machinev1beta1.MachineAuthorityMachineAPI
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			f.edit(change)
			if name == "being deleted" {
				if err := f.client.Delete(t.Context(), f.set()); err != nil {
					t.Fatal(err)
				}
			}
			f.reconciles(false, 0, "")
		})
	}
}

func TestReconcile_OtherProviders(t *testing.T) {
	f := newFixture(t)
	f.silent = true
	f.reconciles(false, 0, "")
	f.silent = false
	f.reconciles(true, 1, "4")
	f.unserved = true
	f.reconciles(false, 0, "4")
	f.unserved, f.silent = false, true
	f.reconciles(true, 0, "")
	if annotations := f.set().Annotations; len(annotations) != 0 {
		t.Errorf("left: %v", annotations)
	}
}

// A MachineSet that has changed since it was read is not written.
func TestReconcile_Conflict(t *testing.T) {
	f := newFixture(t)
	old := f.set()
	f.edit(func(set *machinev1beta1.MachineSet) { set.Spec.Replicas = new(int32(3)) })
	f.cache = fake.NewClientBuilder().WithScheme(f.client.Scheme()).WithObjects(old).Build()
	if result := f.reconciles(false, 1, ""); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("it is tried again in %s", result.RequeueAfter)
	}
	f.cache = f.client
	f.reconciles(true, 0, "4")
}
