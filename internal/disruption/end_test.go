package disruption

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

// TestEnd_FreesThePlaceAtOnce: the admission of work that is over does not count any more for the process that has seen its end.
func TestEnd_FreesThePlaceAtOnce(t *testing.T) {
	f := newFixture(t)
	f.begin(newRequest("n0", upgrade), "")
	f.end(newRequest("n0", upgrade))
	f.begin(newRequest("n1", upgrade), "")
	f.begin(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
}

// TestReturning: a Node counts as unavailable until it has been available for minReadySeconds.
func TestReturning(t *testing.T) {
	f := newFixture(t)
	f.minReady = 5 * time.Minute
	request := f.leased(newRequest("n0", upgrade))
	f.begin(request, "")
	f.step(2 * time.Minute)
	f.end(request)
	if state := f.state(); state.Unavailable != 1 || !state.Returning {
		t.Errorf("the state is %+v", state)
	}
	f.step(time.Minute)
	f.replace(0, func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse })
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.replace(0, func(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionTrue })
	f.step(4*time.Minute + 30*time.Second)
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.step(30 * time.Second)
	f.begin(newRequest("n1", upgrade), "")
}

// TestReturning_AdmissionIsOver: if nothing has begun after an admission, or its work ended with an earlier process, it counts for a minute only.
func TestReturning_AdmissionIsOver(t *testing.T) {
	f := newFixture(t)
	f.minReady = 5 * time.Minute
	f.begin(newRequest("n0", upgrade), "")
	f.start()
	f.begin(newRequest("n1", upgrade), plan.ReasonBudgetExhausted)
	f.step(plan.AdmissionTime)
	f.begin(newRequest("n1", upgrade), "")
}

// TestWithdraw: a remediation that has not begun keeps neither its place, nor the interval, nor its Node from counting as available. The last one
// that has begun keeps the interval.
func TestWithdraw(t *testing.T) {
	f := newFixture(t)
	f.minReady = time.Hour
	f.change(func(group *v1alpha1.NodeGroup) {
		group.Spec.Disruption.Remediation = &v1alpha1.RemediationPace{MinInterval: &metav1.Duration{Duration: 10 * time.Minute}}
	})
	withdraw := func(request *Request) {
		t.Helper()
		if err := f.budgets.Withdraw(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		f.begin(newRequest("n0", remediation), "")
		withdraw(newRequest("n0", remediation))
		if state := f.state(); state.Unavailable != 0 || state.Returning {
			t.Errorf("the state is %+v", state)
		}
	}
	f.begin(newRequest("n1", remediation), "") // in the same second
	f.step(9 * time.Minute)
	f.begin(newRequest("n0", remediation), plan.ReasonRemediationInterval)
	f.step(time.Minute)
	f.begin(newRequest("n0", remediation), "")
	withdraw(newRequest("n0", remediation))
	f.begin(newRequest("n2", remediation), "")
	f.step(9 * time.Minute)
	f.begin(newRequest("n0", remediation), plan.ReasonRemediationInterval)
}
