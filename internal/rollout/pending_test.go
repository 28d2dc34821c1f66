package rollout

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/ownership"
)

// unschedulable has a Pod wait for a Node since a time.
func unschedulable(pod *corev1.Pod, since time.Time) *corev1.Pod {
	pod.Spec.NodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(since),
	}}
	return pod
}

func TestPending(t *testing.T) {
	start := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	declared := ownership.Section{Labels: ownership.NewKeys("team"), Taints: ownership.NewKeys("declared:NoSchedule")}
	begun := start.Add(time.Minute)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"tier": "gold", "team": "blue"}}}
	node.Spec.Taints = []corev1.Taint{
		{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}, {Key: "declared", Effect: corev1.TaintEffectNoSchedule},
		{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}, {Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule},
	}
	tolerant := func(pod *corev1.Pod) *corev1.Pod {
		pod.Spec.Tolerations = []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}}
		return pod
	}
	many := slices.Repeat([]corev1.NodeSelectorTerm{term("tier In gold")}, 100)
	values := func(count int) corev1.NodeSelectorTerm {
		return term("tier In gold " + strings.Repeat("x ", count-1))
	}
	tolerates := func(count int) *corev1.Pod {
		pod := tolerant(unschedulable(podWith(), begun))
		pod.Spec.Tolerations = append(slices.Repeat([]corev1.Toleration{{Key: "other"}}, count-1), pod.Spec.Tolerations...)
		return pod
	}
	gated := tolerant(unschedulable(podWith(), begun))
	gated.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"fits":                          {tolerant(unschedulable(podWith(), begun)), true},
		"matches":                       {tolerant(unschedulable(podWith(term("tier In gold")), begun)), true},
		"matches another one":           {tolerant(unschedulable(podWith(term("tier In iron")), begun)), false},
		"names a label of the group":    {tolerant(unschedulable(podWith(term("team In red")), begun)), true},
		"names one of them and another": {tolerant(unschedulable(podWith(term("team In red", "tier In iron")), begun)), false},
		"a term without requirements":   {tolerant(unschedulable(podWith(term()), begun)), false},
		"does not tolerate":             {unschedulable(podWith(), begun), false},
		"since before the roll-out":     {tolerant(unschedulable(podWith(), start.Add(-time.Minute))), false},
		"since less than two minutes":   {tolerant(unschedulable(podWith(), begun.Add(time.Minute))), false},
		"has a Node":                    {changedPod(tolerant(unschedulable(podWith(), begun)), func(p *corev1.Pod) { p.Spec.NodeName = "n1" }), false},
		"the scheduler has not looked":  {changedPod(tolerant(podWith()), func(p *corev1.Pod) { p.Spec.NodeName = "" }), false},
		"requires too much":             {tolerant(unschedulable(podWith(many...), begun)), false},
		"names some values":             {tolerant(unschedulable(podWith(values(50)), begun)), true},
		"names too many values":         {tolerant(unschedulable(podWith(values(100_000)), begun)), false},
		"tolerates some":                {tolerates(50), true},
		"tolerates too much":            {tolerates(100_000), false},
		"is gated":                      {gated, false},
	} {
		t.Run(name, func(t *testing.T) {
			in := &Input{Revision: "a", Before: &v1alpha1.RolloutStatus{Revision: "a", StartTime: &metav1.Time{Time: start}}, Now: begun.Add(2 * time.Minute)}
			if got := in.PendingIn([]*corev1.Node{node}, declared)(c.pod); got != c.want {
				t.Errorf("it is pending: %t", got)
			}
		})
	}
}

// TestStopped_FitsTheSchema: the longest names that tenants can give their Pods do not have the API server reject the status, which would keep the
// roll-out from being stopped.
func TestStopped_FitsTheSchema(t *testing.T) {
	in := &Input{Settings: v1alpha1.Rollout{StopWhen: &v1alpha1.StopConditions{PendingPods: new(int32(99_999))}}}
	for range 100_000 {
		in.PendingPods = append(in.PendingPods, strings.Repeat("n", 63)+"/"+strings.Repeat("p", 253))
	}
	// maxLength of status.rollout.stopped.
	const limit = 2048
	if text := in.tooManyPending(); text == "" || len(text) > limit {
		t.Errorf("%d bytes: %s", len(text), text)
	}
}
