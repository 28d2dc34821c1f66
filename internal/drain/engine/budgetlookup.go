package engine

import (
	"context"
	"sync"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/internal/drain"
)

// budgets returns a function that lists the budgets that select a pod. It reads each namespace once, so it is for one decision. A budget that cannot
// be read is ignored: the eviction API enforces it.
func (e *Engine) budgets(ctx context.Context) func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
	namespaces := map[string][]policyv1.PodDisruptionBudget{}
	return func(pod *corev1.Pod) []*policyv1.PodDisruptionBudget {
		all, ok := namespaces[pod.Namespace]
		if !ok {
			var list policyv1.PodDisruptionBudgetList
			if err := e.cache.List(ctx, &list, client.InNamespace(pod.Namespace)); err != nil {
				log.FromContext(ctx).Error(err, "listing PodDisruptionBudgets", "namespace", pod.Namespace)
			}
			all = list.Items
			namespaces[pod.Namespace] = all
		}
		var found []*policyv1.PodDisruptionBudget
		var podLabels labels.Labels = labels.Set(pod.Labels)
		for i := range all {
			if e.selectors.of(&all[i]).Matches(podLabels) {
				found = append(found, &all[i])
			}
		}
		return found
	}
}

// selectors caches the parsed selectors of budgets. Each decision matches every pod of a node with all budgets of its namespace, and parsing a
// selector takes far longer than matching.
type selectors struct {
	mu     sync.Mutex
	parsed map[types.NamespacedName]selector
}

type selector struct {
	uid        types.UID
	generation int64
	labels.Selector
}

func newSelectors() *selectors { return &selectors{parsed: map[types.NamespacedName]selector{}} }

func (s *selectors) of(budget *policyv1.PodDisruptionBudget) labels.Selector {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := client.ObjectKeyFromObject(budget)
	known, ok := s.parsed[key]
	if !ok || known.uid != budget.UID || known.generation != budget.Generation {
		known = selector{uid: budget.UID, generation: budget.Generation, Selector: drain.SelectorOf(budget)}
		s.parsed[key] = known
	}
	return known
}

// forget drops the selector of a budget that is gone.
func (s *selectors) forget(budget types.NamespacedName) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.parsed, budget)
}
