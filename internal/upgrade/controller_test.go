package upgrade

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// TestReconcile_Crash ends the process before and after writes of a whole run: every Job is created once, and everything is restored.
func TestReconcile_Crash(t *testing.T) {
	uninterrupted := newFixture(t, newObjects()...)
	before := uninterrupted.snapshot()
	uninterrupted.reconcileToRest(v1alpha1.PhaseDone)
	if now := uninterrupted.snapshot(); now != before {
		t.Fatalf("there is\n%s\nbefore there was\n%s", now, before)
	}
	if len(uninterrupted.created) != 6 {
		t.Fatalf("the Jobs %v were created", uninterrupted.created)
	}
	t.Logf("%d writes uninterrupted", uninterrupted.writes)
	for _, crash := range crashPoints(t, uninterrupted.writes) {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("write-%d-after-%t", crash, after), func(t *testing.T) {
				f := newFixture(t, newObjects()...)
				f.crash, f.after = crash, after
				f.reconcileToRest(v1alpha1.PhaseDone)
				f.expectState(before)
				if len(f.created) != 6 {
					t.Errorf("the Jobs %v were created", f.created)
				}
				for name, count := range f.created {
					if count != 1 {
						t.Errorf("Job %s was created %d times", name, count)
					}
				}
			})
		}
	}
}

// TestReconcile_RestoresAtEachStep suspends, aborts and deletes a run after some of its writes.
func TestReconcile_RestoresAtEachStep(t *testing.T) {
	probe := newFixture(t, newObjects()...)
	before := probe.snapshot()
	probe.reconcileToRest(v1alpha1.PhaseDone)
	for name, stop := range map[string]func(*v1alpha1.MutexRunConfig){
		"suspend": func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true },
		"abort":   func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true },
		"delete":  nil,
	} {
		for _, at := range crashPoints(t, probe.writes-1) {
			f := newFixture(t, newObjects()...)
			for range 100 {
				if f.writes >= at {
					break
				}
				f.must(f.reconcile())
				f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
				f.simulate()
			}
			run := f.run()
			if stop != nil {
				update(f, run, stop)
			} else {
				f.must(f.client.Delete(t.Context(), run))
			}
			f.reconcileTimes(30)
			if now := f.snapshot(); now != before {
				t.Fatalf("%s after %d writes: there is\n%s\nbefore there was\n%s", name, at, now, before)
			}
			if name == "suspend" {
				update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = false })
				// Where nothing was left to do it stands idle.
				f.reconcileToRest(v1alpha1.PhaseDone, v1alpha1.PhaseIdle)
				for job, count := range f.created {
					if count != 1 {
						t.Fatalf("after %d writes: Job %s was created %d times", at, job, count)
					}
				}
			}
		}
	}
}

// TestReconcile_RestoresWithInvalidWindows ends runs whose windows are older than the schema that rejects them.
func TestReconcile_RestoresWithInvalidWindows(t *testing.T) {
	for _, schedule := range []string{"TZ=UTC", "CRON_TZ=UTC", "@every 1h", ""} {
		for name, end := range map[string]func(*fixture){
			"suspend": func(f *fixture) { update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true }) },
			"abort":   func(f *fixture) { update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true }) },
			"delete":  func(f *fixture) { f.must(f.client.Delete(t.Context(), f.run())) },
		} {
			t.Run(name+" with "+schedule, func(t *testing.T) {
				f := newFixture(t, newObjects()...)
				before := f.snapshot()
				advance := func(passes int) {
					f.reconcileTimes(passes)
				}
				advance(6)
				if f.snapshot() == before {
					t.Fatal("the run has changed nothing yet")
				}
				update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
					run.Spec.Windows = []v1alpha1.Window{{Schedule: schedule, Duration: metav1.Duration{Duration: time.Hour}}}
				})
				advance(1)
				if run := f.run(); run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, "windows[0]") {
					t.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
				}
				end(f)
				advance(15)
				f.expectState(before)
			})
		}
	}
}

// TestReconcile_EachNodeInOneMCP checks after every write of a run that each node is in one MachineConfigPool.
func TestReconcile_EachNodeInOneMCP(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.afterWrite = func() { f.expectOneMCP(2) }
	for range 200 {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		if f.run().Status.Phase == v1alpha1.PhaseDone {
			return
		}
		f.simulate()
	}
	t.Fatal("the run is not done")
}

// TestReconcile_RequestsDenied: what the API server denies is reported and tried again.
func TestReconcile_RequestsDenied(t *testing.T) {
	denied := apierrors.NewForbidden(corev1.Resource("any"), "any", errors.New("no"))
	for what, kind := range map[string]string{
		"patch MachineConfigPool": plan.ConditionMCPs, "patch Node": plan.ConditionApplied, "create Job": "",
	} {
		f := newFixture(t, newObjects()...)
		f.fail[what] = denied
		f.reconcileTimes(20)
		run := f.run()
		if !strings.Contains(run.Status.Message, "forbidden") {
			t.Errorf("%s: it says %q", what, run.Status.Message)
		}
		for _, condition := range run.Status.Conditions {
			if condition.Type == kind && condition.Status != metav1.ConditionFalse {
				t.Errorf("%s: %s is %s", what, kind, condition.Status)
			}
		}
		delete(f.fail, what)
		f.reconcileToRest(v1alpha1.PhaseDone)
	}
}

// TestReconcile_RestoreDenied: when a MachineConfigPool can be restored after all, the run does not say any longer that it cannot be changed.
func TestReconcile_RestoreDenied(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want metav1.ConditionStatus
	}{
		"denied": {apierrors.NewForbidden(corev1.Resource("any"), "any", errors.New("no")), metav1.ConditionFalse},
		// A JSON patch whose test fails gets this answer.
		"decided on an older object": {&apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusUnprocessableEntity, Reason: metav1.StatusReasonInvalid, Message: "the server rejected our request",
		}}, metav1.ConditionTrue},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newObjects()...)
			for range 200 {
				f.must(f.reconcile())
				f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
				if f.run().Status.Phase == v1alpha1.PhaseRestoring {
					break
				}
				f.simulate()
			}
			f.fail["patch MachineConfigPool"] = c.err
			f.reconcileTimes(5)
			if got := meta.FindStatusCondition(f.run().Status.Conditions, plan.ConditionMCPs); got == nil || got.Status != c.want {
				t.Errorf("the condition is %+v, want %s", got, c.want)
			}
			delete(f.fail, "patch MachineConfigPool")
			f.reconcileToRest(v1alpha1.PhaseDone)
			if got := f.run().Status.Conditions; !meta.IsStatusConditionTrue(got, plan.ConditionMCPs) {
				t.Errorf("the conditions of the run that is done are %+v", got)
			}
		})
	}
}

func TestReconcile_InvalidChangesNothing(t *testing.T) {
	for name, c := range map[string]struct {
		change func(objects []client.Object)
		text   string
	}{
		"the version of no node is known": {func(objects []client.Object) {
			for _, object := range objects {
				delete(object.GetLabels(), plan.LabelVersion)
			}
		}, "the version of 2 nodes is not known"},
		"the control plane waits for a target": {func(objects []client.Object) {
			for _, object := range objects {
				if object.GetName() == "infra" {
					object.SetLabels(map[string]string{"operator.machineconfiguration.openshift.io/required-for-upgrade": ""})
				}
			}
		}, "cannot wait for it"},
	} {
		objects := newObjects()
		c.change(objects)
		f := newFixture(t, objects...)
		before := f.snapshot()
		f.reconcileTimes(3)
		run := f.run()
		if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, c.text) {
			t.Errorf("%s: the run is %s: %s", name, run.Status.Phase, run.Status.Message)
		}
		f.expectState(before, name)
	}
}

// TestReconcile_ObjectsDeletedDuringRun deletes the namespace of the Jobs, and the target before its run.
func TestReconcile_ObjectsDeletedDuringRun(t *testing.T) {
	f := newFixture(t, newObjects()...)
	before := f.snapshot()
	f.fail["create Job"] = apierrors.NewNotFound(corev1.Resource("namespaces"), "numo")
	f.reconcileTimes(20)
	if run := f.run(); !strings.Contains(run.Status.Message, "not found") {
		t.Errorf("the message is %q", run.Status.Message)
	}
	delete(f.fail, "create Job")
	for range 100 {
		if n := newNode("n1", "infra"); f.client.Get(t.Context(), client.ObjectKeyFromObject(n), n) == nil && plan.ReleaseOf(n) != nil {
			break
		}
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		f.simulate()
	}
	f.must(f.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	f.must(f.reconcile())
	if run := f.run(); run.Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("without its target it is %s", run.Status.Phase)
	}
	f.must(f.client.Delete(t.Context(), f.run()))
	f.reconcileTimes(30)
	f.expectState(before)
}

func TestReconcile_RestoreOfDeletedRunDenied(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.reconcileUntil(func() bool { return len(f.created) > 0 })
	f.fail["patch MachineConfigPool"] = apierrors.NewForbidden(mcfgv1.Resource("machineconfigpools"), "infra", errors.New("no"))
	f.must(f.client.Delete(t.Context(), f.run()))
	f.reconcileTimes(3)
	if message := f.run().Status.Message; !strings.Contains(message, "the run is being deleted") || !strings.Contains(message, "forbidden") {
		t.Errorf("the message is %q", message)
	}
	delete(f.fail, "patch MachineConfigPool")
	f.reconcileTimes(10)
	if err := f.client.Get(t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{}); !apierrors.IsNotFound(err) {
		t.Errorf("the run is still there: %v", err)
	}
}

// TestReconcile_ConflictsBackOff: guards that fail repeatedly mean that the cache lags, and more writes do not help.
func TestReconcile_ConflictsBackOff(t *testing.T) {
	f := newFixture(t, newObjects()...)
	runs := v1alpha1.GroupVersion.WithResource("mutexrunconfigs").GroupResource()
	f.fail["status MutexRunConfig"] = apierrors.NewConflict(runs, "run", errors.New("modified"))
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "numo", Name: "run"}}
	for i, want := range []time.Duration{controller.RetryConflict, 2 * controller.RetryConflict, 4 * controller.RetryConflict} {
		if result, err := f.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != want {
			t.Errorf("conflict %d: again after %s, %v; want %s", i+1, result.RequeueAfter, err, want)
		}
	}
}

// TestRulesAndTargets_OwnWriteNeverShown: if etcd was restored from a backup, the event of an own write never comes.
func TestRulesAndTargets_OwnWriteNeverShown(t *testing.T) {
	for name, object := range map[string]client.Object{
		"rule": &v1alpha1.MutexRule{ObjectMeta: named("a")}, "target": &v1alpha1.MutexTarget{ObjectMeta: named("target")},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, newObjects()...)
			var reconciler reconcile.Reconciler = &ruleReconciler{f.Reconciler}
			if name == "target" {
				reconciler = &targetReconciler{f.Reconciler}
			}
			f.versions.Expect(string(object.GetUID()), expectations.Write{Version: "123456789"})
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
			if result, err := reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != controller.CatchUp {
				t.Errorf("looks again in %s, %v", result.RequeueAfter, err)
			}
			f.clock.SetTime(testTime.Add(2 * time.Minute))
			if result, err := reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter == controller.CatchUp {
				t.Errorf("after the API server was asked: looks again in %s, %v", result.RequeueAfter, err)
			}
		})
	}
}
