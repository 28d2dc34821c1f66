package e2e

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/metadata/plan"
)

func TestPauseAndResume(t *testing.T) {
	p := newMachineSet(t, 2, map[string]string{"tier": "gold"})
	node := "node/" + p.node(0)
	for _, step := range []struct {
		args string
		want string
	}{
		{"pause --dry-run=server " + node, node + " paused (server dry run)"},
		{"pause --dry-run " + node, node + " paused (dry run)"},
		{"pause " + node, node + " paused"},
		{"pause " + node, node + " already paused"},
		{"pause --reason=move " + node, node + " already paused, reason changed"},
		{"pause machine " + p.node(1), "machine.machine.openshift.io/" + p.node(1) + " paused"},
		{"pause " + p.name, "machineset.machine.openshift.io/" + p.name + " paused"},
		{"resume " + p.name + " machine/" + p.node(1),
			"machineset.machine.openshift.io/" + p.name + " resumed\nmachine.machine.openshift.io/" + p.node(1) + " resumed"},
		{"resume " + p.name, "machineset.machine.openshift.io/" + p.name + " not paused"},
	} {
		if got := p.drover(strings.Fields(step.args)...); got.code != 0 || got.out != step.want+"\n" {
			t.Errorf("%s: %+v", step.args, got)
		}
	}
	p.reconcile(-1)
	if got := p.drover("status"); !strings.Contains(got.out, " 1 ") {
		t.Errorf("%+v", got)
	}
	live := &corev1.Node{}
	if err := p.Get(t.Context(), types.NamespacedName{Name: p.node(0)}, live); err != nil {
		t.Fatal(err)
	}
	if live.Annotations[plan.AnnotationPaused] != "true" || live.Annotations["drover.dev/paused-reason"] != "move" || live.Labels["tier"] != "" {
		t.Errorf("paused node: %v %v", live.Annotations, live.Labels)
	}
	got := p.drover("resume", "nosuch", node)
	if got.code != 1 || got.out != node+" resumed\n" || !strings.Contains(got.errors, `"nosuch" not found`) {
		t.Errorf("one bad name must not stop the others: %+v", got)
	}
	if err := p.Get(t.Context(), types.NamespacedName{Name: p.node(0)}, live); err != nil || len(live.Annotations) != 0 {
		t.Errorf("resumed node: %v %v", live.Annotations, err)
	}
}
