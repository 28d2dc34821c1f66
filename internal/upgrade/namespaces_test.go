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
	"github.com/drover-io/drover/internal/paused"
)

const notAmong = "namespace numo is not among upgrade.namespaces"

// only restarts the operator with another setting of upgrade.namespaces.
func (s *stage) only(namespaces ...string) {
	s.t.Helper()
	s.restart()
	s.options.Namespaces = namespaces
}

// TestNamespaces_RunInTheMiddle takes the right from a namespace whose run has paused pools and runs a Job. Its author has paused it by annotation.
func TestNamespaces_RunInTheMiddle(t *testing.T) {
	s := newStage(t, cast()...)
	before := s.state()
	s.hangs = func(*batchv1.Job) bool { return true }
	s.advance(8*time.Second, time.Second)
	if len(s.made) != 1 || s.lease("n1") == nil || s.state() == before {
		t.Fatalf("the Jobs %v were made, there is\n%s", s.made, s.state())
	}
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
		metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, "")
	})
	s.only("administrators")
	s.advance(20*time.Second, time.Second)
	if now := s.state(); now != before {
		t.Errorf("there is\n%s\nbefore there was\n%s", now, before)
	}
	run := s.run()
	if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, notAmong) || len(run.Finalizers) > 0 {
		t.Errorf("the run is %s: %s, with the finalizers %v", run.Status.Phase, run.Status.Message, run.Finalizers)
	}
	if meta.IsStatusConditionTrue(run.Status.Conditions, ConditionValidated) {
		t.Error("the run is still said to be valid")
	}
	if jobs := s.jobs(); len(jobs) > 0 {
		t.Errorf("%d Jobs still run", len(jobs))
	}
	if lease := s.lease("n1"); lease != nil {
		t.Errorf("the lease of n1 is still there: %v", lease.Spec)
	}
	writes := s.writes
	s.advance(15*time.Minute, time.Minute)
	if s.writes != writes {
		t.Errorf("%d writes at rest", s.writes-writes)
	}
	s.must(s.client.Delete(t.Context(), s.run()))
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the run is still there: %v", err)
	}
}

// TestNamespaces_DeletedWhilePaused deletes a run whose author has paused it by annotation, which counts no more.
func TestNamespaces_DeletedWhilePaused(t *testing.T) {
	s := newStage(t, cast()...)
	before := s.state()
	s.advance(8*time.Second, time.Second)
	edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
		metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, "")
	})
	s.must(s.client.Delete(t.Context(), s.run()))
	s.only("administrators")
	s.advance(20*time.Second, time.Second)
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if now := s.state(); now != before || client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("there is (%v)\n%s\nbefore there was\n%s", err, now, before)
	}
}

func TestNamespaces_NeverBegins(t *testing.T) {
	for setting, begins := range map[string]bool{"numo": true, "administrators": false} {
		t.Run(setting, func(t *testing.T) {
			s := newStage(t, cast()...)
			before := s.state()
			s.only(setting)
			s.advance(20*time.Second, time.Second)
			if changed := s.state() != before; changed != begins {
				t.Errorf("something is changed: %v", changed)
			}
			if wrote := s.writes; !begins && wrote != 1 {
				t.Errorf("%d writes were made instead of one, of the status", wrote)
			}
		})
	}
}

// TestNamespaces_RulesAndTargets has a run of an administrator name a rule and a target of a namespace that may not gate upgrades.
func TestNamespaces_RulesAndTargets(t *testing.T) {
	objects := cast()
	run := &v1alpha1.MutexRunConfig{}
	for _, object := range objects {
		if o, ok := object.(*v1alpha1.MutexRunConfig); ok {
			o.Namespace, run = "administrators", o
			o.Spec.MutexRules[0].Namespace, o.Spec.MutexTargets[0].Namespace = "numo", "numo"
		}
	}
	s := newStage(t, objects...)
	before := s.state()
	s.only("administrators")
	for range 5 {
		_, err := s.Reconcile(t.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(run)})
		s.must(err)
		s.clock.SetTime(s.clock.Now().Add(time.Second))
	}
	if now := s.state(); now != before || len(s.made) > 0 {
		t.Errorf("the Jobs %v were made, there is\n%s\nbefore there was\n%s", s.made, now, before)
	}
	s.must(s.client.Get(t.Context(), client.ObjectKeyFromObject(run), run))
	for _, want := range []string{"MutexRule numo/a: " + notAmong, "MutexTarget numo/target: " + notAmong} {
		if run.Status.Phase != v1alpha1.PhaseInvalid || !strings.Contains(run.Status.Message, want) {
			t.Errorf("the run is %s: %s; it lacks %s", run.Status.Phase, run.Status.Message, want)
		}
	}
}

// TestNamespaces_StatusOfRulesAndTargets checks that both say why they do not count, once, and that no Job of such a rule is tried.
func TestNamespaces_StatusOfRulesAndTargets(t *testing.T) {
	s := newStage(t, cast()...)
	s.only("administrators")
	rule, target := &v1alpha1.MutexRule{}, &v1alpha1.MutexTarget{}
	request := func(name string) reconcile.Request {
		return reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "numo", Name: name}}
	}
	for range 3 {
		result, err := (&ruleReconciler{s.Reconciler}).Reconcile(t.Context(), request("a"))
		s.must(err)
		if result.RequeueAfter > catchUp {
			t.Errorf("the rule is looked at again in %s", result.RequeueAfter)
		}
		_, err = (&targetReconciler{s.Reconciler}).Reconcile(t.Context(), request("target"))
		s.must(err)
		s.clock.SetTime(s.clock.Now().Add(time.Minute))
	}
	if s.writes != 2 || len(s.made) > 0 {
		t.Errorf("%d writes instead of one for each status, the Jobs %v", s.writes, s.made)
	}
	s.must(s.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "a"}, rule))
	s.must(s.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "target"}, target))
	for kind, all := range map[string][]metav1.Condition{"rule": rule.Status.Conditions, "target": target.Status.Conditions} {
		valid := meta.FindStatusCondition(all, ConditionValid)
		if valid == nil || valid.Status != metav1.ConditionFalse || !strings.Contains(valid.Message, notAmong) {
			t.Errorf("the %s has the condition %v", kind, valid)
		}
	}
	if len(target.Status.Nodes) > 0 {
		t.Errorf("the target names the nodes %v", target.Status.Nodes)
	}
}
