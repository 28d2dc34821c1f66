package grouplayer

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/drain/engine"
)

// TestBudgetEvents: a Node whose taint is held back is looked at again when a PodDisruptionBudget of its Pods' namespaces may allow more than before,
// and not for anything else that changes in one.
func TestBudgetEvents(t *testing.T) {
	before := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "apps", Name: "b", Generation: 1},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 1, ExpectedPods: 2, DesiredHealthy: 2, CurrentHealthy: 2},
	}
	for name, c := range map[string]struct {
		change func(*policyv1.PodDisruptionBudget)
		want   string
	}{
		"the user has changed it":       {func(b *policyv1.PodDisruptionBudget) { b.Generation++ }, "held unknown"},
		"Kubernetes has counted again":  {func(b *policyv1.PodDisruptionBudget) { b.Status.DesiredHealthy = 1 }, "held unknown"},
		"it allows an eviction":         {func(b *policyv1.PodDisruptionBudget) { b.Status.DisruptionsAllowed = 1 }, "held unknown"},
		"a Pod is ready that was not":   {func(b *policyv1.PodDisruptionBudget) { b.Status.CurrentHealthy = 1 }, ""},
		"a label":                       {func(b *policyv1.PodDisruptionBudget) { b.Labels = map[string]string{"a": "b"} }, ""},
		"one of a namespace beside it":  {func(b *policyv1.PodDisruptionBudget) { b.Namespace, b.Generation = "other", 2 }, "other unknown"},
		"one that no held Pod concerns": {func(b *policyv1.PodDisruptionBudget) { b.Namespace, b.Generation = "none", 2 }, "unknown"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newLayer(t)
			r.options.Machines = func() bool { return false }
			metrics, err := engine.NewMetrics(prometheus.NewRegistry())
			if err != nil {
				t.Fatal(err)
			}
			r.Guard = &Guard{Budgets: disruption.New(disruption.Options{}), Engine: engine.New(nil, nil, nil, nil, metrics, engine.Settings{})}
			r.heldIn.Store("held", sets.New("apps"))
			r.heldIn.Store("other", sets.New("other"))
			// Which Pods would have to leave is not known yet.
			r.heldIn.Store("unknown", sets.Set[string](nil))
			scheme := apitest.Scheme(t, corev1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme, coordinationv1.AddToScheme)
			cache := &informertest.FakeInformers{Scheme: scheme}
			queue := &apitest.Queue{}
			for _, source := range r.Sources(cache) {
				if err := source.Start(t.Context(), queue); err != nil {
					t.Fatal(err)
				}
			}
			budgets, err := cache.FakeInformerFor(t.Context(), &policyv1.PodDisruptionBudget{})
			if err != nil {
				t.Fatal(err)
			}
			after := before.DeepCopy()
			c.change(after)
			budgets.Update(before, after)
			if got := queue.Take(); got != c.want {
				t.Errorf("looked at again: %q, want %q", got, c.want)
			}
		})
	}
}
