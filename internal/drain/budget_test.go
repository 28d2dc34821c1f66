package drain

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// newBudget returns a budget for app=web of the namespace shop, that needs 2 pods, has 2 and allows none.
func newBudget(edit ...func(*policyv1.PodDisruptionBudget)) *policyv1.PodDisruptionBudget {
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Generation: 2},
		Spec: policyv1.PodDisruptionBudgetSpec{
			MinAvailable: &intstr.IntOrString{IntVal: 2}, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		},
		Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2, ExpectedPods: 3, CurrentHealthy: 2, DesiredHealthy: 2},
	}
	for _, change := range edit {
		change(budget)
	}
	return budget
}

// disrupted returns a budget that allows a disruption and has so many disrupted pods.
func disrupted(pods int) *policyv1.PodDisruptionBudget {
	return newBudget(func(b *policyv1.PodDisruptionBudget) {
		b.Status.DisruptionsAllowed, b.Status.DisruptedPods = 1, map[string]metav1.Time{}
		for i := range pods {
			b.Status.DisruptedPods[fmt.Sprintf("web-%d", i)] = metav1.Time{}
		}
	})
}

func TestAssess(t *testing.T) {
	ready, unready := newPod("a"), newPod("a", func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse })
	status := func(change func(*policyv1.PodDisruptionBudgetStatus)) *policyv1.PodDisruptionBudget {
		return newBudget(func(b *policyv1.PodDisruptionBudget) { change(&b.Status) })
	}
	always := newBudget(func(b *policyv1.PodDisruptionBudget) { b.Spec.UnhealthyPodEvictionPolicy = new(policyv1.AlwaysAllow) })
	ifHealthy := newBudget(func(b *policyv1.PodDisruptionBudget) {
		b.Spec.UnhealthyPodEvictionPolicy, b.Status.CurrentHealthy = new(policyv1.IfHealthyBudget), 1
	})
	another := newBudget(func(b *policyv1.PodDisruptionBudget) { b.Name = "all" })
	phase := func(phase corev1.PodPhase) *corev1.Pod {
		return newPod("a", func(p *corev1.Pod) { p.Status.Phase = phase })
	}
	for _, c := range []struct {
		name    string
		pod     *corev1.Pod
		budgets []*policyv1.PodDisruptionBudget
		want    Outcome
		counted bool
		never   bool
		text    string
	}{
		{"no budget", ready, nil, Accepted, false, false, ""},
		{"budget that allows one", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) { s.DisruptionsAllowed = 1 })},
			Accepted, true, false, ""},
		{"spent budget", ready, []*policyv1.PodDisruptionBudget{newBudget()}, BudgetSpent, true, false,
			"PodDisruptionBudget shop/web needs 2 healthy pods and has 2"},
		{"budget that cannot allow any", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.ExpectedPods, s.DesiredHealthy = 2, 2
		})}, BudgetSpent, true, true, "cannot allow any as it is"},
		{"the same, with a disrupted pod", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.ExpectedPods, s.DisruptedPods = 2, map[string]metav1.Time{"b": {}}
		})}, BudgetSpent, true, false, "needs 2"},
		{"the same, without pods", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) { s.ExpectedPods = 0 })},
			BudgetSpent, true, false, "needs 2"},
		{"status of an earlier generation", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.ObservedGeneration, s.DisruptionsAllowed = 1, 5
		})}, BudgetUnknown, true, false, "still being processed"},
		{"negative status", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) { s.DisruptionsAllowed = -1 })},
			BudgetBroken, true, false, "negative"},
		{"too many disrupted pods", ready, []*policyv1.PodDisruptionBudget{disrupted(maxDisrupted + 1)}, BudgetBroken, true, false,
			"more than 2000 disrupted pods"},
		{"as many disrupted pods as the eviction API takes", ready, []*policyv1.PodDisruptionBudget{disrupted(maxDisrupted)}, Accepted, true, false, ""},
		{"status that could not be computed", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.SyncFailedReason, Message: "no scale"}}
		})}, BudgetSpent, true, false, "cannot be computed: no scale"},
		{"status that cannot be computed", ready, []*policyv1.PodDisruptionBudget{status(func(s *policyv1.PodDisruptionBudgetStatus) {
			s.Conditions = []metav1.Condition{{Type: policyv1.DisruptionAllowedCondition, Reason: policyv1.SyncFailedReason,
				Message: "jobs.batch does not implement the scale subresource"}}
		})}, BudgetSpent, true, true, "cannot be computed: jobs.batch"},
		{"two budgets", ready, []*policyv1.PodDisruptionBudget{newBudget(), another}, SeveralBudgets, false, false, "shop/all and shop/web"},
		{"not ready, enough pods are healthy", unready, []*policyv1.PodDisruptionBudget{newBudget()}, Accepted, false, false, ""},
		{"not ready, too few pods are healthy", unready, []*policyv1.PodDisruptionBudget{ifHealthy}, BudgetSpent, true, false, "has 1"},
		{"not ready, always allowed", unready, []*policyv1.PodDisruptionBudget{always}, Accepted, false, false, ""},
		{"pending", phase(corev1.PodPending), []*policyv1.PodDisruptionBudget{newBudget()}, Accepted, false, false, ""},
		{"succeeded", phase(corev1.PodSucceeded), []*policyv1.PodDisruptionBudget{newBudget()}, Accepted, false, false, ""},
		{"failed, under two budgets", phase(corev1.PodFailed), []*policyv1.PodDisruptionBudget{newBudget(), another}, Accepted, false, false, ""},
		{"terminating", newPod("a", ending(0)), []*policyv1.PodDisruptionBudget{newBudget()}, Accepted, false, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Assess(c.pod, c.budgets)
			if got.Outcome != c.want || got.Counted != c.counted || got.Never != c.never || !strings.Contains(got.Text, c.text) ||
				(c.text == "") != (got.Text == "") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestSelects(t *testing.T) {
	pod := newPod("a")
	for name, c := range map[string]struct {
		edit func(*policyv1.PodDisruptionBudget)
		want bool
	}{
		"its labels":        {func(*policyv1.PodDisruptionBudget) {}, true},
		"other labels":      {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector.MatchLabels["app"] = "db" }, false},
		"everything":        {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = &metav1.LabelSelector{} }, true},
		"nothing":           {func(b *policyv1.PodDisruptionBudget) { b.Spec.Selector = nil }, false},
		"another namespace": {func(b *policyv1.PodDisruptionBudget) { b.Namespace = "x" }, false},
		"an invalid selector": {func(b *policyv1.PodDisruptionBudget) {
			b.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, false},
	} {
		if got := Selects(newBudget(c.edit), pod); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
