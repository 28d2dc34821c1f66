package gate

import (
	"context"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// TestGate_Set: Nodes are reconciled when they are admitted, and all of them when the spec of their group has changed.
func TestGate_Set(t *testing.T) {
	a := &Gate{}
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	defer queue.ShutDown()
	source := a.Admitted(func(_ context.Context, node string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
	})
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

// TestGate_Evict: spec.rollout.noExecute.maxPodsPerWave counts what a wave evicts, and after the roll-out what is evicted at the same time.
func TestGate_Evict(t *testing.T) {
	var a Gate
	for _, step := range []struct {
		name, node string
		wave, pods int
		ended      string
		begun      bool
		want       int
	}{
		{"the first of a wave", "n1", 1, 3, "", false, 3},
		{"more than the limit", "n2", 1, 3, "", false, 6},
		{"a wave counts what has ended", "n2", 1, 3, "n1", false, 6},
		{"the next wave", "n2", 2, 3, "", false, 3},
		{"after the roll-out", "n1", 0, 4, "", false, 4},
		{"more than the limit after the roll-out", "n3", 0, 2, "", false, 6},
		{"the others have ended", "n3", 0, 2, "n1", false, 2},
		{"begun in another wave, and more than the limit", "n4", 0, 4, "", true, 6},
		{"what has begun counts", "n5", 0, 1, "", false, 7},
	} {
		if step.ended != "" {
			a.EndEvictions(step.ended)
		}
		a.Set("group", Admission{Revision: "a", Wave: step.wave})
		if all := a.Evict("group", step.node, step.pods, 5, step.begun); all != step.want {
			t.Errorf("%s: there are %d Pods, want %d", step.name, all, step.want)
		}
	}
}

// TestGate_Admits: a Node is admitted for one declaration.
func TestGate_Admits(t *testing.T) {
	var g Gate
	g.Set("x", Admission{Declarations: sets.New("1"), Nodes: sets.New("n0")})
	for _, c := range []struct {
		revision, node string
		want           bool
	}{{"1", "n0", true}, {"1", "n1", false}, {"2", "n0", false}} {
		if got := g.Admits("x", c.revision, c.node); got != c.want {
			t.Errorf("revision %s, Node %s: %t", c.revision, c.node, got)
		}
	}
}
