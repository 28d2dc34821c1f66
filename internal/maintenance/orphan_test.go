package maintenance

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

// machines answers for the API server: there is one Machine, or none.
type machines struct {
	client.Reader

	uid types.UID
}

func (m machines) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	if m.uid == "" {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "machines"}, key.Name)
	}
	object.SetUID(m.uid)
	return nil
}

// A Machine whose node is cordoned may be gone: nobody else would ever remove its cordon record, for which the maintenance would wait.
func TestOrphaned_MachineGone(t *testing.T) {
	node := nodeOf("n1")
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{drain.AnnotationHold: `{"by":"Machine/x","object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`}
	s := newStage(t, node, maintenanceOf("m", "n1"))
	s.Machines = machines{uid: "x"}
	if result := s.rest("m"); result.RequeueAfter == 0 || result.RequeueAfter > retryDenied {
		t.Errorf("looks again in %s", result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "node n1 is held by Machine/x since 2026-01-01T00:00:00Z", "Cordoned=HeldForOtherWork")
	s.Machines = machines{}
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Cordoned=Cordoned")
	// The cordon was Drover's: it goes with the maintenance.
	if err := s.client.Delete(t.Context(), maintenanceOf("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if got := s.node("n1"); got.Spec.Unschedulable || got.Annotations[drain.AnnotationHold] != "" {
		t.Errorf("the node is %+v", got)
	}
}
