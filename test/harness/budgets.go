package harness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
)

// MinAvailable is a budget's demand, for Budget.
func MinAvailable(count int32) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(spec *policyv1.PodDisruptionBudgetSpec) {
		spec.MinAvailable, spec.MaxUnavailable = new(intstr.FromInt32(count)), nil
	}
}

// MaxUnavailable is a budget's allowance, for Budget.
func MaxUnavailable(count int32) func(*policyv1.PodDisruptionBudgetSpec) {
	return func(spec *policyv1.PodDisruptionBudgetSpec) {
		spec.MinAvailable, spec.MaxUnavailable = nil, new(intstr.FromInt32(count))
	}
}

// Budget makes a PodDisruptionBudget for a workload and waits until kube-controller-manager has looked at it.
func (s *Site) Budget(name, app string, demand func(*policyv1.PodDisruptionBudgetSpec)) {
	s.Helper()
	s.BudgetFor(name, map[string]string{AppLabel: app}, demand)
}

// BudgetFor is Budget for the pods that have some labels.
func (s *Site) BudgetFor(name string, labels map[string]string, demand func(*policyv1.PodDisruptionBudgetSpec)) {
	s.Helper()
	s.create(builder.PodDisruptionBudget(s.Name, name, labels, demand))
	s.observed(name)
}

// CountedBudget makes a PodDisruptionBudget for the pods with some labels. At least least of the expected pods must be healthy. Until the test ends,
// CountedBudget updates the budget's status as kube-controller-manager does, for control planes without it.
func (s *Site) CountedBudget(name string, labels map[string]string, least, expected int32) {
	s.Helper()
	s.CreateWithCleanup(builder.PodDisruptionBudget(s.Name, name, labels, MinAvailable(least)))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	count := func() { // a failure is made good by the next one
		var budget policyv1.PodDisruptionBudget
		var pods corev1.PodList
		if s.Client.Get(ctx, types.NamespacedName{Namespace: s.Name, Name: name}, &budget) != nil ||
			s.Client.List(ctx, &pods, client.InNamespace(s.Name), client.MatchingLabels(labels)) != nil {
			return
		}
		after := countPods(&budget, pods.Items, least, expected)
		if !equality.Semantic.DeepEqual(after, budget.Status) {
			budget.Status = after
			_ = s.Client.Status().Update(ctx, &budget)
		}
	}
	count()
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			count()
			select {
			case <-ctx.Done():
			case <-time.After(countInterval):
			}
		}
	}()
	s.Cleanup(func() {
		cancel()
		<-done
	})
}

// countPods returns the status of a budget as kube-controller-manager computes it.
func countPods(budget *policyv1.PodDisruptionBudget, pods []corev1.Pod, least, expected int32) policyv1.PodDisruptionBudgetStatus {
	after := policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, DesiredHealthy: least, ExpectedPods: expected}
	for i := range pods {
		pod := &pods[i]
		// The eviction API has written down that it is about to go.
		at, evicted := budget.Status.DisruptedPods[pod.Name]
		switch {
		case pod.DeletionTimestamp != nil:
		case evicted && time.Since(at.Time) < CutEviction:
			if after.DisruptedPods == nil {
				after.DisruptedPods = map[string]metav1.Time{}
			}
			after.DisruptedPods[pod.Name] = at
		default:
			after.CurrentHealthy++
		}
	}
	after.DisruptionsAllowed = max(after.CurrentHealthy-least, 0)
	return after
}

// countInterval is how often CountedBudget counts.
const countInterval = 20 * time.Millisecond

// CutEviction is when CountedBudget counts a pod again whose eviction was let pass without its deletion, because the client died between the two.
// kube-controller-manager does so after two minutes (DeletionTimeout of k8s.io/kubernetes/pkg/controller/disruption), which no test has to wait for.
const CutEviction = 15 * time.Second

// observed waits until a budget's status is about its present spec.
func (s *Site) observed(name string) {
	s.Helper()
	s.Eventually("budget "+name+" is looked at", func() error {
		if budget := s.GetBudget(name); budget.Status.ObservedGeneration < budget.Generation {
			return fmt.Errorf("generation %d, observed %d", budget.Generation, budget.Status.ObservedGeneration)
		}
		return nil
	})
}

// GetBudget reads a PodDisruptionBudget of the site.
func (s *Site) GetBudget(name string) *policyv1.PodDisruptionBudget {
	s.Helper()
	return read(s.World, s.Name, name, &policyv1.PodDisruptionBudget{})
}

// ChangeBudget changes what a budget demands.
func (s *Site) ChangeBudget(name string, demand func(*policyv1.PodDisruptionBudgetSpec)) {
	s.Helper()
	Update(s.World, s.GetBudget, name, func(budget *policyv1.PodDisruptionBudget) { demand(&budget.Spec) })
}

// Allows waits until a budget allows so many disruptions.
func (s *Site) Allows(name string, count int32) {
	s.Helper()
	s.Eventually(fmt.Sprintf("budget %s allows %d", name, count), func() error {
		if allowed := s.GetBudget(name).Status.DisruptionsAllowed; allowed != count {
			return fmt.Errorf("it allows %d", allowed)
		}
		return nil
	})
}
