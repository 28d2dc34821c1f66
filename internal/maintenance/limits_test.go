package maintenance

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/maintenance/plan"
)

// TestLimits_Force has a Pod that stays beyond the deadline. That it is not deleted is tested on a real API server.
func TestLimits_Force(t *testing.T) {
	for name, off := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			object := newMaintenance("m", "n1")
			object.Spec.Drain = &medik8s.DrainSpec{Force: true, Deadline: &metav1.Duration{Duration: time.Minute}}
			s := newFixture(t, newNode("n1"), object, newPod("a", "n1"))
			s.options.Limits = plan.Limits{NoForce: off, NoOutOfService: !off}
			s.settle("m")
			want := ""
			if off {
				want = "spec.drain.force: Forbidden"
			}
			s.expect("m", medik8s.PhaseRunning, want, "Drained=Draining")
			s.clock.Step(2 * time.Minute)
			s.settle("m")
			s.expect("m", medik8s.PhaseRunning, "the deadline is over", "Drained=DeadlineExceeded")
			if has := strings.HasPrefix(s.status("m").LastError, "spec.drain.force: Forbidden"); has != off {
				t.Errorf("lastError is %q", s.status("m").LastError)
			}
			for range 30 {
				if _, writes := s.reconcile("m"); strings.Contains(writes, "status") {
					t.Errorf("the status is written at rest: %s", writes)
				}
				s.clock.Step(time.Second)
			}
			if err := s.client.Delete(t.Context(), newPod("a", "n1")); err != nil {
				t.Fatal(err)
			}
			s.settle("m")
			s.expect("m", medik8s.PhaseSucceeded, "")
		})
	}
}

// TestLimits_OutOfService has an unreachable node, with a Pod that does not terminate.
func TestLimits_OutOfService(t *testing.T) {
	for name, c := range map[string]struct {
		limits  plan.Limits
		tainted bool
	}{
		"on: the node is tainted":        {plan.Limits{NoForce: true}, true},
		"off: the node is never tainted": {plan.Limits{NoOutOfService: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			object, node, pod := newMaintenance("m", "n1"), newNode("n1"), newPod("a", "n1")
			object.Spec.Drain = &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService}
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: start.Add(-time.Hour)}, new(int64(1))
			pod.Finalizers = []string{"example.com/stuck"}
			s := newFixture(t, node, object, pod)
			s.options.Limits = c.limits
			s.settle("m")
			node = s.node("n1")
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			if err := s.client.Status().Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			s.settle("m")
			tainted := slices.ContainsFunc(s.node("n1").Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			if tainted != c.tainted {
				t.Errorf("the node has the taint: %v", tainted)
			}
			if !c.tainted {
				s.expect("m", medik8s.PhaseRunning, "spec.drain.unreachable: Forbidden")
				return
			}
			// Disabled while the node has the taint: it is not restored when another writer removes it.
			s.options.Limits.NoOutOfService = true
			apitest.Edit(t, s.client, newNode("n1"), func(n *corev1.Node) {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			})
			s.settle("m")
			if cordoned := meta.FindStatusCondition(s.status("m").Conditions, plan.ConditionCordoned); cordoned == nil || cordoned.Reason != "Cordoned" {
				t.Errorf("the condition is %v", cordoned)
			}
			if taints := s.node("n1").Spec.Taints; slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
				t.Errorf("the node has the taints %v", taints)
			}
		})
	}
}
