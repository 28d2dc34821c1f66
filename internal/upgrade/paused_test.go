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

// TestPaused pauses a run before it begins, in the middle, and while it is deleted.
func TestPaused(t *testing.T) {
	annotate := func(s *stage, value *string) {
		edit(s, s.run(), func(run *v1alpha1.MutexRunConfig) {
			delete(run.Annotations, paused.Annotation)
			if value != nil {
				metav1.SetMetaDataAnnotation(&run.ObjectMeta, paused.Annotation, *value)
			}
		})
	}
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			s := newStage(t, cast()...)
			before := s.state()
			annotate(s, &value)
			s.advance(20*time.Second, time.Second)
			if unchanged := s.state() == before; unchanged != want {
				t.Errorf("nothing is changed: %v", unchanged)
			}
		})
	}
	s := newStage(t, cast()...)
	before := s.state()
	s.advance(8*time.Second, time.Second)
	if len(s.made) != 1 {
		t.Fatalf("the Jobs %v were made", s.made)
	}
	annotate(s, new(""))
	s.playJobs()
	s.advance(3*time.Second, time.Second)
	middle, writes := s.state(), s.writes
	if run := s.run(); run.Status.Phase != v1alpha1.PhaseRunning || !strings.Contains(run.Status.Message, "paused by the annotation drover.dev/paused") {
		t.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
	}
	s.advance(15*time.Minute, time.Minute)
	if s.writes != writes || s.state() != middle {
		t.Errorf("%d writes were made while it is paused", s.writes-writes)
	}
	s.must(s.client.Delete(t.Context(), s.run()))
	s.advance(20*time.Second, time.Second)
	if now := s.state(); now != middle {
		t.Errorf("deleted while it is paused, there is\n%s\nbefore there was\n%s", now, middle)
	}
	annotate(s, nil)
	s.advance(30*time.Second, time.Second)
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: "numo", Name: "run"}, &v1alpha1.MutexRunConfig{})
	if now := s.state(); now != before || client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("resumed while it is deleted (%v), there is\n%s\nbefore there was\n%s", err, now, before)
	}
}
