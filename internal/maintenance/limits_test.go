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
)

// TestLimits_Force has a Pod that stays beyond the deadline. That none is deleted is tested on a real API server.
func TestLimits_Force(t *testing.T) {
	for name, off := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			object := maintenanceOf("m", "n1")
			object.Spec.Drain = &medik8s.DrainSpec{Force: true, Deadline: &metav1.Duration{Duration: time.Minute}}
			s := newStage(t, nodeOf("n1"), object, podOf("a", "n1"))
			s.options.Limits = Limits{NoForce: off, NoOutOfService: !off}
			s.rest("m")
			want := ""
			if off {
				want = textNoForce
			}
			s.expect("m", medik8s.PhaseRunning, want, "Drained=Draining")
			s.clock.Step(2 * time.Minute)
			s.rest("m")
			s.expect("m", medik8s.PhaseRunning, "the deadline is over", "Drained=DeadlineExceeded")
			if has := strings.HasPrefix(s.status("m").LastError, textNoForce); has != off {
				t.Errorf("lastError is %q", s.status("m").LastError)
			}
			for range 30 {
				if _, writes := s.pass("m"); strings.Contains(writes, "status") {
					t.Errorf("the status is written at rest: %s", writes)
				}
				s.clock.Step(time.Second)
			}
			if err := s.client.Delete(t.Context(), podOf("a", "n1")); err != nil {
				t.Fatal(err)
			}
			s.rest("m")
			s.expect("m", medik8s.PhaseSucceeded, "")
		})
	}
}

// TestLimits_OutOfService has a node that does not answer, with a Pod that ends no more.
func TestLimits_OutOfService(t *testing.T) {
	for name, c := range map[string]struct {
		limits  Limits
		tainted bool
	}{
		"on: the node is tainted":        {Limits{NoForce: true}, true},
		"off: the node is never tainted": {Limits{NoOutOfService: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			object, node, pod := maintenanceOf("m", "n1"), nodeOf("n1"), podOf("a", "n1")
			object.Spec.Drain = &medik8s.DrainSpec{Unreachable: medik8s.UnreachableOutOfService}
			pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &metav1.Time{Time: start.Add(-time.Hour)}, new(int64(1))
			pod.Finalizers = []string{"example.com/stuck"}
			s := newStage(t, node, object, pod)
			s.options.Limits = c.limits
			s.rest("m")
			node = s.node("n1")
			node.Status.Conditions[0].Status = corev1.ConditionUnknown
			if err := s.client.Status().Update(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			s.rest("m")
			tainted := slices.ContainsFunc(s.node("n1").Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			if tainted != c.tainted {
				t.Errorf("the node has the taint: %v", tainted)
			}
			if !c.tainted {
				s.expect("m", medik8s.PhaseRunning, textNoOutOfService)
				return
			}
			// Switched off while the node has it: one that is taken away is not put back, and it goes with the maintenance.
			s.options.Limits.NoOutOfService = true
			update(s, &corev1.Node{}, "n1", func(n *corev1.Node) {
				n.Spec.Taints = slices.DeleteFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService })
			})
			s.rest("m")
			if cordoned := meta.FindStatusCondition(s.status("m").Conditions, ConditionCordoned); cordoned == nil || cordoned.Reason != "Cordoned" {
				t.Errorf("the condition is %v", cordoned)
			}
			if taints := s.node("n1").Spec.Taints; slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
				t.Errorf("the node has the taints %v", taints)
			}
		})
	}
}
