package maintenance

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// A deadline counts from the take-over: the time of another owner is not this maintenance's.
func TestTakeOver_DeadlineCountsFromNow(t *testing.T) {
	for name, by := range map[string]string{"Machine": "Machine/x", "another NodeMaintenance": "NodeMaintenance/x"} {
		t.Run(name, func(t *testing.T) {
			node, object := nodeOf("n1"), maintenanceOf("m", "n1")
			node.Spec.Unschedulable = true
			node.Annotations = map[string]string{
				drain.AnnotationHold: fmt.Sprintf(`{"by":%q,"object":"ns/m","since":"2026-01-01T00:00:00Z","cordoned":true}`, by),
			}
			object.Spec.Drain = &medik8s.DrainSpec{Deadline: &metav1.Duration{Duration: time.Hour}, Force: true}
			s := newStage(t, node, object, podOf("p", "n1"))
			s.Machines = machines{}
			s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "", "Drained=Draining")
			s.clock.Step(time.Hour)
			s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "the deadline is over", "Drained=DeadlineExceeded")
		})
	}
}

// What a kubelet has written into the record of its own Node is not undone for it.
func TestTakeOver_ForgedRecord(t *testing.T) {
	node := nodeOf("n1")
	node.Spec.Unschedulable = true
	node.Spec.Taints = []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: drain.TaintKubevirt, Effect: corev1.TaintEffectNoSchedule}}
	node.Labels = map[string]string{"node-restriction.kubernetes.io/tenant": ""}
	node.Annotations = map[string]string{drain.AnnotationHold: `{"by":"NodeMaintenance/x","since":"2026-01-01T00:00:00Z","cordoned":true,` +
		`"taints":["dedicated:NoSchedule","kubevirt.io/drain:NoSchedule"],"labels":{"node-restriction.kubernetes.io/tenant":null}}`}
	s := newStage(t, node, maintenanceOf("m", "n1"))
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	if err := s.client.Delete(t.Context(), maintenanceOf("m", "n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	got := s.node("n1")
	if _, labelled := got.Labels["node-restriction.kubernetes.io/tenant"]; !labelled || got.Spec.Unschedulable ||
		len(got.Spec.Taints) != 1 || got.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("released as %+v, labels %v", got.Spec, got.Labels)
	}
}
