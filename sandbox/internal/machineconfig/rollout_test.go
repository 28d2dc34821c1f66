package machineconfig

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/test/openshift"
)

func TestMaxUnavailable(t *testing.T) {
	cases := []struct {
		value string
		nodes int
		want  int
	}{
		{"", 10, 1}, {"3", 10, 3}, {"0", 10, 1}, {"30%", 10, 3}, {"25%", 10, 2}, {"10%", 3, 1}, {"100%", 200, 200},
	}
	for _, c := range cases {
		pool := openshift.NewPool("worker")
		if c.value != "" {
			value := intstr.Parse(c.value)
			pool.Spec.MaxUnavailable = &value
		}
		if got, err := MaxUnavailable(pool, c.nodes); err != nil || got != c.want {
			t.Errorf("%q of %d: %d (%v), want %d", c.value, c.nodes, got, err, c.want)
		}
	}
	pool, wrong := openshift.NewPool("worker"), intstr.FromString("many")
	pool.Spec.MaxUnavailable = &wrong
	if _, err := MaxUnavailable(pool, 3); err == nil {
		t.Error("a text that is no number was taken for one")
	}
}

func TestCandidates(t *testing.T) {
	change := func(changes map[int]func(*corev1.Node)) []*corev1.Node {
		nodes := nodesOf("n", "old", 4)
		for i, what := range changes {
			what(nodes[i])
		}
		return nodes
	}
	type changes = map[int]func(*corev1.Node)
	done := func(node *corev1.Node) {
		node.Annotations[openshift.AnnotationCurrentConfig], node.Annotations[openshift.AnnotationDesiredConfig] = "new", "new"
	}
	cases := []struct {
		name    string
		changes changes
		limit   int
		want    string
	}{
		{"one at a time", nil, 1, "n-0 "},
		{"as many as may", nil, 3, "n-0 n-1 n-2 "},
		{"no more than there are", nil, 9, "n-0 n-1 n-2 n-3 "},
		{"those that are there need nothing", changes{0: done, 2: done}, 4, "n-1 n-3 "},
		{"a node is being updated: no other one starts", changes{0: updating("new")}, 1, ""},
		{"one on its way elsewhere takes it, too", changes{3: updating("other")}, 1, ""},
		{"and leaves the rest of it", changes{0: updating("new")}, 2, "n-1 "},
		{"a node is cordoned: it counts as unavailable and waits", changes{0: cordoned}, 2, "n-1 "},
		{"so does one that is NotReady", changes{1: notReady}, 2, "n-0 "},
		{"a node failed with this target: no other one starts", changes{2: failed("new")}, 1, ""},
		{"one that failed with another tries this", changes{2: failed("other")}, 1, "n-2 "},
		{"beside others", changes{2: failed("other")}, 2, "n-2 n-0 "},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			if got := names(Candidates("new", change(c.changes), c.limit)); got != c.want {
				t.Errorf("it chose %q, want %q", got, c.want)
			}
		})
	}
}

func TestCandidates_Order(t *testing.T) {
	node := func(name, zone string, age time.Duration) *corev1.Node {
		return with(newNode(name, "old"), func(node *corev1.Node) {
			if zone != "" {
				node.Labels[corev1.LabelTopologyZone] = zone
			}
			node.CreationTimestamp = metav1.NewTime(start.Add(-age))
		})
	}
	nodes := []*corev1.Node{
		node("nowhere", "", time.Hour), node("b-old", "b", time.Hour), node("a-young", "a", 0), node("a-old-2", "a", time.Hour),
		node("a-old-1", "a", time.Hour),
	}
	if got, want := names(Candidates("new", nodes, 5)), "a-old-1 a-old-2 a-young b-old nowhere "; got != want {
		t.Errorf("the order is %q, want %q", got, want)
	}
}
