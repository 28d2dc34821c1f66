package maintenance

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/paused"
)

// TestReconcile_Paused pauses a NodeMaintenance before it begins, in the middle of a drain, and while it is deleted.
func TestReconcile_Paused(t *testing.T) {
	annotate := func(s *fixture, value *string) {
		apitest.Edit(t, s.client, newMaintenance("m", "n1"), func(m *medik8s.NodeMaintenance) {
			delete(m.Annotations, paused.Annotation)
			if value != nil {
				metav1.SetMetaDataAnnotation(&m.ObjectMeta, paused.Annotation, *value)
			}
		})
	}
	for value, want := range map[string]bool{"true": true, "": true, "false": false} {
		t.Run("value "+value, func(t *testing.T) {
			s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
			annotate(s, &value)
			s.settle("m")
			if inMaintenance(s.node("n1")) == want || (s.evicting() == 0) != want {
				t.Errorf("cordoned %v, %v pods are being evicted", inMaintenance(s.node("n1")), s.evicting())
			}
		})
	}
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
	s.settle("m")
	annotate(s, new(""))
	result := s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "Ready=Paused", "Cordoned=Cordoned", "LeaseHeld=Held")
	if !inMaintenance(s.node("n1")) || s.evicting() != 0 {
		t.Errorf("cordoned %v, %v pods are being evicted", inMaintenance(s.node("n1")), s.evicting())
	}
	s.clock.Step(result.RequeueAfter)
	if _, writes := s.reconcile("m"); writes != "update Lease" {
		t.Errorf("when the lease has to be renewed, it wrote %q", writes)
	}
	object := newMaintenance("m", "n1")
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if !inMaintenance(s.node("n1")) {
		t.Error("deleted while it is paused, it has released the node")
	}
	annotate(s, nil)
	s.reconcile("m")
	err := s.client.Get(t.Context(), client.ObjectKey{Name: "m"}, object)
	if !apierrors.IsNotFound(err) || inMaintenance(s.node("n1")) || s.holder("n1") != "" {
		t.Errorf("resumed while it is being deleted: %v, cordoned %v, lease held by %q", err, inMaintenance(s.node("n1")), s.holder("n1"))
	}
}
