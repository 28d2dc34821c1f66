package disruption

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption/plan"
)

// Whatever comes, goes and changes, in whatever order the Nodes are listed: the members are as if counted anew.
func TestProperty_ViewIsAsCountedAnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var v view
		var nodes []*corev1.Node
		count := func(members *plan.Members) plan.Counts {
			group := &v1alpha1.NodeGroup{Spec: v1alpha1.NodeGroupSpec{Disruption: &v1alpha1.Disruption{}}}
			return plan.Count(&plan.Input{Group: group, Members: members})
		}
		at := func() int { return rapid.IntRange(0, len(nodes)-1).Draw(t, "at") }
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			switch action := rapid.IntRange(0, 3).Draw(t, "action"); {
			case action == 0 || len(nodes) == 0:
				nodes = append(nodes, newNode(fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "prefix"), "-", i)))
			case action == 1:
				nodes = slices.Delete(nodes, 0, 1)
			case action == 2:
				changed := nodes[at()].DeepCopy()
				changed.Spec.Unschedulable = !changed.Spec.Unschedulable
				nodes[slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == changed.Name })] = changed
			default:
				i, j := at(), at()
				nodes[i], nodes[j] = nodes[j], nodes[i]
			}
			if rapid.Bool().Draw(t, "sorted") {
				slices.SortFunc(nodes, func(a, b *corev1.Node) int { return slices.Compare([]byte(a.Name), []byte(b.Name)) })
			}
			var anew view
			if got, want := count(v.update(nodes, nil)), count(anew.update(nodes, nil)); got != want {
				t.Fatalf("step %d: the counts are %+v, want %+v", i, got, want)
			}
		}
	})
}

func TestDifference(t *testing.T) {
	a, b, c, d := newNode("a"), newNode("b"), newNode("c"), newNode("d")
	changed := b.DeepCopy()
	for name, test := range map[string]struct{ before, after, gone, come []*corev1.Node }{
		"the same":      {[]*corev1.Node{a, b}, []*corev1.Node{a, b}, nil, nil},
		"one came":      {[]*corev1.Node{a, c}, []*corev1.Node{a, b, c}, nil, []*corev1.Node{b}},
		"one went":      {[]*corev1.Node{a, b, c}, []*corev1.Node{a, c}, []*corev1.Node{b}, nil},
		"one changed":   {[]*corev1.Node{a, b, c}, []*corev1.Node{a, changed, c}, []*corev1.Node{b}, []*corev1.Node{changed}},
		"last ones":     {[]*corev1.Node{a, b}, []*corev1.Node{a, c, d}, []*corev1.Node{b}, []*corev1.Node{c, d}},
		"all of them":   {[]*corev1.Node{a, b}, nil, []*corev1.Node{a, b}, nil},
		"another order": {[]*corev1.Node{a, b}, []*corev1.Node{b, a}, []*corev1.Node{a}, []*corev1.Node{a}},
	} {
		t.Run(name, func(t *testing.T) {
			if gone, come := difference(test.before, test.after); !slices.Equal(gone, test.gone) || !slices.Equal(come, test.come) {
				t.Errorf("gone %d, come %d", len(gone), len(come))
			}
		})
	}
}

func TestStateOf_ChangesOfMembers(t *testing.T) {
	f := newFixture(t)
	f.replace(1, func(node *corev1.Node) { node.Spec.Unschedulable = true })
	f.begin(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
	f.replace(1, func(node *corev1.Node) {
		node.Spec.Unschedulable = false
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/broken", Effect: corev1.TaintEffectNoSchedule}}
	})
	f.change(func(group *v1alpha1.NodeGroup) {
		group.Spec.Disruption.UnavailableTaints = []string{"example.com/broken"}
	})
	f.begin(newRequest("n0", upgrade), plan.ReasonBudgetExhausted)
	f.members.nodes = slices.Delete(slices.Clone(f.members.nodes), 1, 2)
	f.begin(newRequest("n0", upgrade), "")
	if state, want := f.state(), (plan.Counts{Expected: 2, Limit: 1, Unavailable: 1, DisruptedReady: 1}); state.Counts != want || state.Waiting != 0 {
		t.Errorf("the state is %+v", state)
	}
	f.change(func(group *v1alpha1.NodeGroup) { group.Spec.Disruption = nil })
	if state := f.state(); state.Counts != (plan.Counts{}) {
		t.Errorf("without a budget: %+v", state)
	}
}
