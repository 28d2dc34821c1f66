package maintenance

import (
	"cmp"
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/maintenance/plan"
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

// TestReconcile_PausedWhileTheLeaseFails pauses a drain when the lease cannot be renewed: the evictions stop all the same.
func TestReconcile_PausedWhileTheLeaseFails(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
	result := s.settle("m")
	if s.evicting() == 0 {
		t.Fatal("nothing is being evicted")
	}
	apitest.Edit(t, s.client, newMaintenance("m", "n1"), func(m *medik8s.NodeMaintenance) {
		metav1.SetMetaDataAnnotation(&m.ObjectMeta, paused.Annotation, "true")
	})
	s.Fail["update Lease"] = apierrors.NewInternalError(errors.New("etcd is slow"))
	s.clock.Step(max(result.RequeueAfter, time.Hour))
	if _, err := s.Reconcile(t.Context(), requestFor("m")); err == nil {
		t.Error("the lease was renewed")
	}
	if s.evicting() != 0 {
		t.Errorf("%v pods are being evicted", s.evicting())
	}
}

func TestComparePeers(t *testing.T) {
	ordered := []plan.Peer{
		{Created: start, Name: "nodemaintenances.nodemaintenance.kubevirt.io z", OwnLease: true},
		{Created: start.Add(time.Second), Name: "nodemaintenances.nodemaintenance.medik8s.io a"},
		{Created: start.Add(time.Second), Name: "nodemaintenances.nodemaintenance.medik8s.io b"},
		{Created: start.Add(time.Second), Name: "nodemaintenances.nodemaintenance.kubevirt.io a", OwnLease: true},
	}
	for i := range ordered {
		for j := range ordered {
			if got, want := comparePeers(ordered[i], ordered[j]), cmp.Compare(i, j); got != want {
				t.Errorf("%s and %s: %d, want %d", ordered[i].Name, ordered[j].Name, got, want)
			}
		}
	}
}
