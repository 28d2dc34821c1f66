package nodes

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestAdmissions_Set: Nodes are reconciled when they are admitted, and all of them when the spec of their group has changed.
func TestAdmissions_Set(t *testing.T) {
	a := &Admissions{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	source := a.events.Source(func(_ context.Context, node string) []reconcile.Request { return requestFor(node) })
	if err := source.Start(t.Context(), queue); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		name      string
		admission Admission
		want      []string
	}{
		{"first wave", Admission{Generation: 1, Revision: "a", Nodes: sets.New("n1")}, []string{"n1"}},
		{"second wave", Admission{Generation: 1, Revision: "a", Nodes: sets.New("n1", "n2")}, []string{"n2"}},
		{"nothing new", Admission{Generation: 1, Revision: "a", Nodes: sets.New("n1", "n2")}, nil},
		{"released", Admission{Generation: 1, Revision: "a", Nodes: sets.New("n1"), Released: sets.New("n2")}, []string{"n2"}},
		{"dry run ended", Admission{Generation: 2, Revision: "a", Nodes: sets.New("n1")}, []string{"n1"}},
		{"other declaration", Admission{Generation: 2, Revision: "b", Nodes: sets.New("n1")}, []string{"n1"}},
	} {
		a.Set("group", step.admission)
		var got []string
		for queue.Len() > 0 {
			request, _ := queue.Get()
			queue.Done(request)
			got = append(got, request.Name)
		}
		if slices.Sort(got); !slices.Equal(got, step.want) {
			t.Errorf("%s: reconciled are %v, want %v", step.name, got, step.want)
		}
	}
}
