package plan

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
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
			r := newRollout(1, nil)
			r.group.Spec.Metadata.Taints = []v1alpha1.Taint{{Key: "declared", Effect: corev1.TaintEffectNoSchedule}}
			in := r.input()
			in.Group.Status.Rollout = &v1alpha1.RolloutStatus{Revision: in.Declaration.Revision, StartTime: &metav1.Time{Time: start}}
			in.Now = begun.Add(2 * time.Minute)
			if got := in.PendingIn([]*corev1.Node{node})(c.pod); got != c.want {
				t.Errorf("it is pending: %t", got)
			}
		})
	}
}

// TestDecide_PodsPending: a roll-out stops, says why, and goes on when a user resumes it.
func TestDecide_PodsPending(t *testing.T) {
	r := newRollout(4, &v1alpha1.Rollout{FirstWave: new(int32(1)), StopWhen: &v1alpha1.StopConditions{PendingPods: new(int32(2))}})
	r.decide()
	r.now = r.now.Add(time.Minute)
	decide := func(pods ...string) Decision {
		in := r.input()
		in.PendingPods = pods
		d := Decide(in)
		r.group.Status.Rollout = d.Rollout
		return d
	}
	if !r.input().CountsPending() {
		t.Error("Pods are not counted")
	}
	if d := decide("shop/a"); d.Phase == v1alpha1.PhaseStopped {
		t.Errorf("one Pod stops it: %+v", d)
	}
	d := decide("shop/a", "shop/b")
	blocked := d.Conditions[2]
	if d.Phase != v1alpha1.PhaseStopped || blocked.Reason != ReasonPodsPending || !strings.Contains(blocked.Message, "shop/a, shop/b") {
		t.Errorf("%+v", d)
	}
	if r.input().CountsPending() {
		t.Error("Pods are counted although it has stopped")
	}
	r.group.Generation++
	if !r.input().CountsPending() {
		t.Error("Pods are not counted when a change of the spec has it judged again")
	}
	r.group.Generation--
	r.group.Annotations = map[string]string{v1alpha1.AnnotationResume: r.now.Add(time.Second).Format(time.RFC3339)}
	r.now = r.now.Add(2 * time.Second)
	if d := decide(); d.Phase == v1alpha1.PhaseStopped || d.Rollout.StopReason != "" || d.Rollout.ResumeTime == nil {
		t.Errorf("after it was resumed: %+v", d)
	}
}
