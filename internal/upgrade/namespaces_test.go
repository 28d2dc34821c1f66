package upgrade

import (
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

const notAmong = "namespace numo is not among upgrade.namespaces"

// restartWithNamespaces restarts the operator with another setting of upgrade.namespaces.
func (f *fixture) restartWithNamespaces(namespaces ...string) {
	f.t.Helper()
	f.restart()
	f.options.Namespaces = namespaces
}

// TestNamespaces_RemovedDuringRun removes the namespace of a run that has paused MachineConfigPools and runs a Job. The run is paused by annotation.
func TestNamespaces_RemovedDuringRun(t *testing.T) {
	f := newFixture(t, newObjects()...)
	before := f.snapshot()
	f.hangs = func(*batchv1.Job) bool { return true }
	f.advance(8*time.Second, time.Second)
	if len(f.created) != 1 || f.lease("n1") == nil || f.snapshot() == before {
		t.Fatalf("the Jobs %v were created, there is\n%s", f.created, f.snapshot())
	}
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
		metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, "")
	})
	f.restartWithNamespaces("administrators")
	f.advance(20*time.Second, time.Second)
	f.expectState(before)
	run := f.run()
	if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, notAmong) || len(run.Finalizers) > 0 {
		t.Errorf("the run is %s: %s, with the finalizers %v", run.Status.Phase, run.Status.Message, run.Finalizers)
	}
	if meta.IsStatusConditionTrue(run.Status.Conditions, plan.ConditionValidated) {
		t.Error("the run is still said to be valid")
	}
	if jobs := f.listJobs(); len(jobs) > 0 {
		t.Errorf("%d Jobs still run", len(jobs))
	}
	if lease := f.lease("n1"); lease != nil {
		t.Errorf("the lease of n1 is still there: %v", lease.Spec)
	}
	writes := f.writes
	f.advance(15*time.Minute, time.Minute)
	if f.writes != writes {
		t.Errorf("%d writes at rest", f.writes-writes)
	}
	f.must(f.client.Delete(t.Context(), f.run()))
	err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the run is still there: %v", err)
	}
}

// TestNamespaces_DeletedWhilePaused deletes a run that is paused by annotation, which has no effect in a refused namespace.
func TestNamespaces_DeletedWhilePaused(t *testing.T) {
	f := newFixture(t, newObjects()...)
	before := f.snapshot()
	f.advance(8*time.Second, time.Second)
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
		metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, "")
	})
	f.must(f.client.Delete(t.Context(), f.run()))
	f.restartWithNamespaces("administrators")
	f.advance(20*time.Second, time.Second)
	err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if now := f.snapshot(); now != before || client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is (%v)\n%s\nbefore there was\n%s", err, now, before)
	}
}

func TestNamespaces_RunStarts(t *testing.T) {
	for setting, begins := range map[string]bool{"numo": true, "administrators": false} {
		t.Run(setting, func(t *testing.T) {
			f := newFixture(t, newObjects()...)
			before := f.snapshot()
			f.restartWithNamespaces(setting)
			f.advance(20*time.Second, time.Second)
			if changed := f.snapshot() != before; changed != begins {
				t.Errorf("something is changed: %v", changed)
			}
			if wrote := f.writes; !begins && wrote != 1 {
				t.Errorf("%d writes were made instead of one, of the status", wrote)
			}
		})
	}
}

// TestNamespaces_RulesAndTargetsOfOtherNamespace has a run of an allowed namespace name a rule and a target of another one.
func TestNamespaces_RulesAndTargetsOfOtherNamespace(t *testing.T) {
	objects := newObjects()
	run := &v1alpha1.MutexRunConfig{}
	for _, object := range objects {
		if o, ok := object.(*v1alpha1.MutexRunConfig); ok {
			o.Namespace, run = "administrators", o
			o.Spec.MutexRules[0].Namespace, o.Spec.MutexTargets[0].Namespace = "numo", "numo"
		}
	}
	f := newFixture(t, objects...)
	before := f.snapshot()
	f.restartWithNamespaces("administrators")
	for range 5 {
		_, err := f.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		f.must(err)
		f.clock.SetTime(f.clock.Now().Add(time.Second))
	}
	if now := f.snapshot(); now != before || len(f.created) > 0 {
		t.Errorf("the Jobs %v were created, there is\n%s\nbefore there was\n%s", f.created, now, before)
	}
	f.must(f.client.Get(t.Context(), client.ObjectKeyFromObject(run), run))
	for _, want := range []string{"MutexRule numo/a: " + notAmong, "MutexTarget numo/target: " + notAmong} {
		if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, want) {
			t.Errorf("the run is %s: %s; it lacks %s", run.Status.Phase, run.Status.Message, want)
		}
	}
}

// TestNamespaces_StatusOfRulesAndTargets: both report why they have no effect, once, and no Job of the rule is validated.
func TestNamespaces_StatusOfRulesAndTargets(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.restartWithNamespaces("administrators")
	rule, target := &v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "numo", Name: name}}
	}
	for range 3 {
		result, err := (&ruleReconciler{f.Reconciler}).Reconcile(t.Context(), request("a"))
		f.must(err)
		if result.RequeueAfter > controller.CatchUp {
			t.Errorf("the rule is looked at again in %s", result.RequeueAfter)
		}
		_, err = (&targetReconciler{f.Reconciler}).Reconcile(t.Context(), request("target"))
		f.must(err)
		f.clock.SetTime(f.clock.Now().Add(time.Minute))
	}
	if f.writes != 2 || len(f.created) > 0 {
		t.Errorf("%d writes instead of one for each status, the Jobs %v", f.writes, f.created)
	}
	f.must(f.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "a"}, rule))
	f.must(f.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "target"}, target))
	for kind, all := range map[string][]metav1.Condition{"rule": rule.Status.Conditions, "target": target.Status.Conditions} {
		valid := meta.FindStatusCondition(all, plan.ConditionValid)
		if valid == nil || valid.Status != metav1.ConditionFalse || !strings.Contains(valid.Message, notAmong) {
			t.Errorf("the %s has the condition %v", kind, valid)
		}
	}
	if len(target.Status.Nodes) > 0 {
		t.Errorf("the target names the nodes %v", target.Status.Nodes)
	}
}
