package machineconfig

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/drover-io/drover/test/openshift"
)

// statusOf is the status of a pool whose target is "new", and a text of its counts and conditions.
func statusOf(paused bool, renderError error, conflicts []string, nodes ...*corev1.Node) (*mcfgv1.MachineConfigPool, string) {
	pool := openshift.NewPool("worker")
	pool.Generation, pool.Spec.Paused = 7, paused
	pool.Spec.Configuration.Name, pool.Status.Configuration.Name = "new", "old"
	state := PoolState{Pool: pool, Nodes: nodes, Conflicts: conflicts, RenderError: renderError, Now: start}
	pool.Status = state.Status()
	s := pool.Status
	text := fmt.Sprintf("%d: updated %d, ready %d, unavailable %d, degraded %d;", s.MachineCount, s.UpdatedMachineCount, s.ReadyMachineCount,
		s.UnavailableMachineCount, s.DegradedMachineCount)
	for _, condition := range s.Conditions {
		if condition.Status == corev1.ConditionTrue {
			text += " " + string(condition.Type)
		}
	}
	return pool, text
}

func TestPoolStatus(t *testing.T) {
	down := func(node *corev1.Node) *corev1.Node { notReady(node); return node }
	cases := []struct {
		name   string
		paused bool
		render error
		nodes  []*corev1.Node
		want   string
		runs   string
	}{
		{"no node", false, nil, nil, "0: updated 0, ready 0, unavailable 0, degraded 0; Updated", "new"},
		{"all there", false, nil, nodesOf("n", "new", 3), "3: updated 3, ready 3, unavailable 0, degraded 0; Updated", "new"},
		{"all there while it is paused", true, nil, nodesOf("n", "new", 3), "3: updated 3, ready 3, unavailable 0, degraded 0; Updated", "new"},
		{"none begun", false, nil, nodesOf("n", "old", 3), "3: updated 0, ready 0, unavailable 0, degraded 0; Updating", "old"},
		{"none begun, paused", true, nil, nodesOf("n", "old", 3), "3: updated 0, ready 0, unavailable 0, degraded 0;", "old"},
		{
			"one on its way", false, nil, append(nodesOf("n", "new", 2), with(newNode("m", "old"), updating("new"))),
			"3: updated 2, ready 2, unavailable 1, degraded 0; Updating", "old",
		},
		{
			"one there and down", false, nil, append(nodesOf("n", "new", 2), down(newNode("m", "new"))),
			"3: updated 3, ready 2, unavailable 1, degraded 0; Updating", "old",
		},
		{
			"one there and cordoned", false, nil, append(nodesOf("n", "new", 2), with(newNode("m", "new"), cordoned)),
			"3: updated 3, ready 2, unavailable 1, degraded 0; Updating", "old",
		},
		{
			"one failed", false, nil, append(nodesOf("n", "new", 2), with(newNode("m", "old"), failed("new"))),
			"3: updated 2, ready 2, unavailable 1, degraded 1; Updating NodeDegraded Degraded", "old",
		},
		{
			"no configuration", false, errors.New("nothing selected"), nodesOf("n", "new", 1),
			"1: updated 1, ready 1, unavailable 0, degraded 0; Updated RenderDegraded Degraded", "new",
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			pool, got := statusOf(c.paused, c.render, nil, c.nodes...)
			if got != c.want || pool.Status.Configuration.Name != c.runs || pool.Status.ObservedGeneration != 7 {
				t.Errorf("it is %q and runs %s as of generation %d, want %q and %s", got, pool.Status.Configuration.Name,
					pool.Status.ObservedGeneration, c.want, c.runs)
			}
		})
	}
}

func TestPoolStatus_Degraded(t *testing.T) {
	pool, text := statusOf(false, nil, []string{"node x is selected by the custom pools a and b"}, with(newNode("m", "old"), failed("new")))
	if !strings.HasSuffix(text, "NodeDegraded Degraded") {
		t.Error(text)
	}
	for _, condition := range pool.Status.Conditions {
		degraded := condition.Type == mcfgv1.MachineConfigPoolDegraded || condition.Type == mcfgv1.MachineConfigPoolNodeDegraded
		if want := "node m: disk full; node x is selected by the custom pools a and b"; degraded && condition.Message != want {
			t.Errorf("%s says %q", condition.Type, condition.Message)
		}
	}
	if _, text := statusOf(false, nil, []string{"node x"}, nodesOf("n", "new", 1)...); !strings.HasSuffix(text, "Updated NodeDegraded Degraded") {
		t.Errorf("a conflict alone: %s", text)
	}
}

func TestPoolStatus_AtRest(t *testing.T) {
	pool, _ := statusOf(false, nil, nil, nodesOf("n", "new", 2)...)
	later := PoolState{Pool: pool, Nodes: nodesOf("n", "new", 2), Now: start.Add(time.Hour)}
	if again := later.Status(); !apiequality.Semantic.DeepEqual(again, pool.Status) {
		t.Errorf("an hour later it is another one: %+v, was %+v", again, pool.Status)
	}
	later.Nodes[0] = with(newNode("n-0", "new"), cordoned)
	changed := later.Status()
	for _, condition := range changed.Conditions {
		moved := condition.Type == mcfgv1.MachineConfigPoolUpdated || condition.Type == mcfgv1.MachineConfigPoolUpdating
		if moved != condition.LastTransitionTime.After(start) {
			t.Errorf("%s changed at %s", condition.Type, condition.LastTransitionTime)
		}
	}
}
