package upgrade

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/paused"
)

// TestPaused pauses a run before it starts, during the run, and while it is deleted.
func TestPaused(t *testing.T) {
	annotate := func(f *fixture, value *string) {
		update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
			delete(run.Annotations, paused.Annotation)
			if value != nil {
				metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, *value)
			}
		})
	}
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			f := newFixture(t, newObjects()...)
			before := f.snapshot()
			annotate(f, &value)
			f.advance(20*time.Second, time.Second)
			if unchanged := f.snapshot() == before; unchanged != want {
				t.Errorf("nothing is changed: %v", unchanged)
			}
		})
	}
	f := newFixture(t, newObjects()...)
	before := f.snapshot()
	f.advance(8*time.Second, time.Second)
	if len(f.created) != 1 {
		t.Fatalf("the Jobs %v were created", f.created)
	}
	annotate(f, new(""))
	f.finishJobs()
	f.advance(3*time.Second, time.Second)
	middle, writes := f.snapshot(), f.writes
	if run := f.run(); run.Status.Phase != v1alpha1.PhaseRunning || !strings.Contains(run.Status.Message, "paused by the annotation drover.dev/paused") {
		t.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
	}
	f.advance(15*time.Minute, time.Minute)
	if f.writes != writes || f.snapshot() != middle {
		t.Errorf("%d writes were made while it is paused", f.writes-writes)
	}
	f.must(f.client.Delete(t.Context(), f.run()))
	f.advance(20*time.Second, time.Second)
	if now := f.snapshot(); now != middle {
		t.Errorf("deleted while it is paused, there is\n%s\nbefore there was\n%s", now, middle)
	}
	annotate(f, nil)
	f.advance(30*time.Second, time.Second)
	err := f.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if now := f.snapshot(); now != before || client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("resumed while it is deleted (%v), there is\n%s\nbefore there was\n%s", err, now, before)
	}
}
