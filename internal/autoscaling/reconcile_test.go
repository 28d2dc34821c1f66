package autoscaling

import (
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/autoscaling/plan"
	"github.com/drover-io/drover/internal/controller"
)

// fixture is a Reconciler on an API server in memory.
type fixture struct {
	*apitest.Requests
	*Reconciler
	t      *testing.T
	client client.Client
	events *record.FakeRecorder
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := apitest.Scheme(t, machinev1beta1.Install, v1beta1.AddToScheme)
	f := &fixture{Requests: &apitest.Requests{Names: true, Fail: map[string]error{}}, t: t, events: record.NewFakeRecorder(100)}
	f.client = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1beta1.MachineAutoscaler{}).
		WithInterceptorFuncs(f.Interceptors()).Build()
	clock := testclock.NewFakePassiveClock(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC))
	f.Reconciler = NewReconciler(f.client, f.client, f.client, f.events, Options{Clock: clock})
	return f
}

func newSet(name string) *machinev1beta1.MachineSet { return builder.MachineSet("machines", name, 0) }

func newAutoscaler(name, target string) *v1beta1.MachineAutoscaler {
	return builder.MachineAutoscaler("machines", name, target)
}

// TestReconcile_BoundsNotCached: a MachineAutoscaler stays until the cache shows its bounds, too, and they are removed.
func TestReconcile_BoundsNotCached(t *testing.T) {
	ma, set := newAutoscaler("a", "workers"), newSet("workers")
	ma.Finalizers = []string{plan.Finalizer}
	f := newFixture(t, ma, set)
	f.reconciles("a", "patch MachineSet/workers, status MachineAutoscaler/a", "SuccessfulUpdate")
	// The cache has the MachineAutoscaler that is deleted, and the MachineSet before it had the bounds.
	if err := f.client.Delete(t.Context(), ma.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	current := f.Reconciler.cache
	f.Reconciler.cache = newFixture(t, f.autoscaler("a"), newSet("workers")).client
	if result := f.reconciles("a", "", ""); result.RequeueAfter == 0 {
		t.Error("it does not look again")
	}
	f.Reconciler.cache = current
	f.reconciles("a", "patch MachineSet/workers, patch MachineAutoscaler/a", "")
}

// TestReconcile_OneReleaseDenied: a MachineSet that cannot be changed does not keep Drover from changing another one.
func TestReconcile_OneReleaseDenied(t *testing.T) {
	ma, old := newAutoscaler("a", "workers"), newSet("old")
	ma.Finalizers = []string{plan.Finalizer}
	old.Annotations = map[string]string{"autoscaling.openshift.io/machineautoscaler": "machines/a"}
	f := newFixture(t, ma, old, newSet("workers"))
	f.Fail["patch MachineSet"] = apierrors.NewForbidden(schema.GroupResource{}, "old", nil)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "machines", Name: "a"}}
	if _, err := f.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	f.expect("patch MachineSet/old, patch MachineSet/workers, status MachineAutoscaler/a", "FailedFinalizeTarget")
}

// reconciles reconciles a MachineAutoscaler and checks its writes, in their order, and the reasons of its events.
func (f *fixture) reconciles(name, writes, events string) reconcile.Result {
	f.t.Helper()
	f.Writes = nil
	result, err := f.Reconcile(f.t.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "machines", Name: name}})
	if err != nil {
		f.t.Fatal(err)
	}
	f.expect(writes, events)
	return result
}

func (f *fixture) expect(writes, events string) {
	f.t.Helper()
	if got := strings.Join(f.Writes, ", "); got != writes {
		f.t.Errorf("wrote %s\nwant  %s", got, writes)
	}
	if got := strings.Join(apitest.Reasons(f.events), " "); got != events {
		f.t.Errorf("events %q, want %q", got, events)
	}
}

func (f *fixture) autoscaler(name string) *v1beta1.MachineAutoscaler {
	f.t.Helper()
	ma := &v1beta1.MachineAutoscaler{}
	if err := f.client.Get(f.t.Context(), types.NamespacedName{Namespace: "machines", Name: name}, ma); err != nil {
		f.t.Fatal(err)
	}
	return ma
}

// ready checks the condition, written Status Reason.
func (f *fixture) ready(name, want string) {
	f.t.Helper()
	c := meta.FindStatusCondition(f.autoscaler(name).Status.Conditions, plan.ConditionReady)
	if c == nil || string(c.Status)+" "+c.Reason != want {
		f.t.Errorf("%s: %+v, want %s", name, c, want)
	}
}

func (f *fixture) remove(object client.Object) {
	f.t.Helper()
	if err := f.client.Delete(f.t.Context(), object); err != nil {
		f.t.Fatal(err)
	}
}

func TestReconcile_Life(t *testing.T) {
	f := newFixture(t, newSet("web"), newSet("db"), newAutoscaler("ma", "web"))
	f.reconciles("ma", "patch MachineAutoscaler/ma, patch MachineSet/web, status MachineAutoscaler/ma", "SuccessfulUpdate")
	f.ready("ma", "True SuccessfulUpdate")
	f.reconciles("ma", "", "")
	apitest.Edit(t, f.client, f.autoscaler("ma"), func(ma *v1beta1.MachineAutoscaler) { ma.Spec.MaxReplicas = 9 })
	f.reconciles("ma", "patch MachineSet/web", "SuccessfulUpdate")
	apitest.Edit(t, f.client, f.autoscaler("ma"), func(ma *v1beta1.MachineAutoscaler) { ma.Spec.ScaleTargetRef.Name = "db" })
	f.reconciles("ma", "patch MachineSet/web, patch MachineSet/db, status MachineAutoscaler/ma", "SuccessfulUpdate")
	if ref := f.autoscaler("ma").Status.LastTargetRef; ref == nil || ref.Name != "db" {
		t.Errorf("lastTargetRef %+v", ref)
	}
	f.remove(f.autoscaler("ma"))
	f.reconciles("ma", "patch MachineSet/db, patch MachineAutoscaler/ma", "")
	f.reconciles("ma", "", "")
	for _, name := range []string{"web", "db"} {
		set := newSet(name)
		if err := f.client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil || len(set.Annotations) > 0 {
			t.Errorf("%s: %v, %v", name, set.Annotations, err)
		}
	}
}

func TestReconcile_TargetComesLater(t *testing.T) {
	f := newFixture(t, newAutoscaler("ma", "web"))
	f.reconciles("ma", "status MachineAutoscaler/ma", "FailedGetTarget")
	f.reconciles("ma", "", "")
	f.ready("ma", "False FailedGetTarget")
	if err := f.client.Create(t.Context(), newSet("web")); err != nil {
		t.Fatal(err)
	}
	f.reconciles("ma", "patch MachineAutoscaler/ma, patch MachineSet/web, status MachineAutoscaler/ma", "SuccessfulUpdate")
	f.ready("ma", "True SuccessfulUpdate")
	f.remove(newSet("web"))
	f.reconciles("ma", "status MachineAutoscaler/ma", "FailedGetTarget")
	f.remove(f.autoscaler("ma"))
	f.reconciles("ma", "patch MachineAutoscaler/ma", "")
}

func TestReconcile_SecondOwner(t *testing.T) {
	f := newFixture(t, newSet("web"), newAutoscaler("first", "web"), newAutoscaler("second", "web"))
	f.reconciles("first", "patch MachineAutoscaler/first, patch MachineSet/web, status MachineAutoscaler/first", "SuccessfulUpdate")
	f.reconciles("second", "status MachineAutoscaler/second", "FailedSetOwner")
	f.reconciles("second", "", "")
	if got := f.machineSetToAutoscalers(t.Context(), newSet("web")); len(got) != 2 {
		t.Errorf("an event of the MachineSet concerns %v", got)
	}
	f.remove(f.autoscaler("first"))
	f.reconciles("first", "patch MachineSet/web, patch MachineAutoscaler/first", "")
	f.reconciles("second", "patch MachineAutoscaler/second, patch MachineSet/web, status MachineAutoscaler/second", "SuccessfulUpdate")
	f.ready("second", "True SuccessfulUpdate")
}

func TestReconcile_Denied(t *testing.T) {
	f := newFixture(t, newSet("web"), newAutoscaler("ma", "web"))
	f.Fail["patch MachineSet"] = apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, "web", nil)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "machines", Name: "ma"}}
	if _, err := f.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	f.expect("patch MachineAutoscaler/ma, patch MachineSet/web, status MachineAutoscaler/ma", "FailedUpdateTarget")
	f.Writes = nil
	if _, err := f.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	f.expect("patch MachineSet/web", "")
	f.ready("ma", "False FailedUpdateTarget")
	delete(f.Fail, "patch MachineSet")
	f.reconciles("ma", "patch MachineSet/web, status MachineAutoscaler/ma", "SuccessfulUpdate")
}

// A MachineSet with GPUs that may not be written is reported like any other.
func TestReconcile_AcceleratorDenied(t *testing.T) {
	set := newSet("web")
	set.Annotations = map[string]string{"machine.openshift.io/GPU": "1"}
	f := newFixture(t, set, newAutoscaler("ma", "web"))
	f.Fail["patch MachineSet"] = apierrors.NewForbidden(schema.GroupResource{Resource: "machinesets"}, "web", nil)
	request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "machines", Name: "ma"}}
	if _, err := f.Reconcile(t.Context(), request); !apierrors.IsForbidden(err) {
		t.Errorf("error %v", err)
	}
	f.ready("ma", "False FailedUpdateTarget")
}

func TestReconcile_Conflict(t *testing.T) {
	f := newFixture(t, newSet("web"), newAutoscaler("ma", "web"))
	f.Fail["patch MachineSet"] = apierrors.NewConflict(schema.GroupResource{Resource: "machinesets"}, "web", nil)
	result := f.reconciles("ma", "patch MachineAutoscaler/ma, patch MachineSet/web", "")
	if result.RequeueAfter != controller.RetryConflict {
		t.Errorf("it is tried again in %s", result.RequeueAfter)
	}
	f.Fail["patch MachineSet"] = apierrors.NewNotFound(schema.GroupResource{Resource: "machinesets"}, "web")
	f.reconciles("ma", "patch MachineSet/web", "")
}

// OpenShift's CRD has no conditions: at rest nothing is written nevertheless.
func TestReconcile_ConditionsDropped(t *testing.T) {
	f := newFixture(t, newAutoscaler("ma", "web"))
	f.reconciles("ma", "status MachineAutoscaler/ma", "FailedGetTarget")
	ma := f.autoscaler("ma")
	ma.Status.Conditions = nil
	if err := f.client.Status().Update(t.Context(), ma); err != nil {
		t.Fatal(err)
	}
	f.reconciles("ma", "", "")
}

func TestReconcile_Accelerator(t *testing.T) {
	set := newSet("web")
	set.Annotations = map[string]string{"machine.openshift.io/GPU": "1"}
	f := newFixture(t, set, newAutoscaler("ma", "web"))
	f.reconciles("ma", "patch MachineAutoscaler/ma, patch MachineSet/web, status MachineAutoscaler/ma",
		"SuccessfulUpdate InvalidOrMissingGPUAcceleratorLabel")
	f.reconciles("ma", "", "")
}
