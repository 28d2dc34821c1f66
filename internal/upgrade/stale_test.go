package upgrade

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/expectations"
)

// The event that shows our own write never comes when etcd was restored from a backup: a rule or a target is looked at again by itself.
func TestRulesAndTargets_OwnWriteNeverShown(t *testing.T) {
	for name, object := range map[string]client.Object{
		"rule": &v1alpha1.MutexRule{ObjectMeta: named("a")}, "target": &v1alpha1.MutexTarget{ObjectMeta: named("target")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, cast()...)
			var reconciler reconcile.Reconciler = &ruleReconciler{s.Reconciler}
			if name == "target" {
				reconciler = &targetReconciler{s.Reconciler}
			}
			s.versions.Expect(string(object.GetUID()), expectations.Write{Version: "123456789"})
			request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}
			if result, err := reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != catchUp {
				t.Errorf("looks again in %s, %v", result.RequeueAfter, err)
			}
			s.clock.SetTime(start.Add(2 * time.Minute))
			if result, err := reconciler.Reconcile(t.Context(), request); err != nil || result.RequeueAfter == catchUp {
				t.Errorf("after the API server was asked: looks again in %s, %v", result.RequeueAfter, err)
			}
		})
	}
}

// A guard that fails again and again means a cache that lags: writing ten times a second would not make it faster.
func TestReconcile_ConflictsBackOff(t *testing.T) {
	s := newStage(t, cast()...)
	runs := v1alpha1.GroupVersion.WithResource("mutexrunconfigs").GroupResource()
	s.fail["status MutexRunConfig"] = apierrors.NewConflict(runs, "run", errors.New("modified"))
	request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "numo", Name: "run"}}
	for i, want := range []time.Duration{retryStale, 2 * retryStale, 4 * retryStale} {
		if result, err := s.Reconcile(t.Context(), request); err != nil || result.RequeueAfter != want {
			t.Errorf("conflict %d: again after %s, %v; want %s", i+1, result.RequeueAfter, err, want)
		}
	}
}
