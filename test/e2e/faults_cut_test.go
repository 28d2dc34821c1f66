package e2e

import (
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/test/harness"
)

// TestCrash_CutEviction begins where the operator died during an eviction: the API server had counted it in the budget, and dropped the request
// before it deleted the pod. The budget lets no pod leave until the count is corrected; then it lets one.
func TestCrash_CutEviction(t *testing.T) {
	g := prepare(t, evacuation{name: "cut", least: 2})
	var budget policyv1.PodDisruptionBudget
	g.Eventually("the eviction is counted", func() error {
		if err := g.Client.Get(g.Context(), types.NamespacedName{Namespace: g.Name, Name: "app"}, &budget); err != nil {
			return err
		}
		budget.Status.DisruptedPods = map[string]metav1.Time{"app-0": metav1.Now()}
		budget.Status.DisruptionsAllowed = 0
		return g.Client.Status().Update(g.Context(), &budget)
	})
	g.disturbance = harness.CrashPoint{}
	mark := g.AuditMark()
	g.operator = harness.Start(t, env, harness.Options{})
	g.until("the budget lets one of its pods leave", func() bool { return len(g.m.Status().PendingPods) == 1 })
	if early := time.Until(budget.Status.DisruptedPods["app-0"].Add(harness.CutEviction)); early > 0 {
		t.Errorf("it left %s before the count was corrected", early)
	}
	g.m.Delete()
	g.until("the end", func() bool { return g.m.Find() == nil })
	g.judge(g.writes(mark))
}
