package e2e

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/ownership"
)

func TestExplain(t *testing.T) {
	p := newMachineSet(t, 1, map[string]string{"tier": "gold", "taken": "ours"})
	node := &corev1.Node{}
	p.edit(node, p.node(0), "another-writer", func() {
		node.Labels["taken"] = "theirs"
		node.Spec.Taints = []corev1.Taint{{Key: "foreign", Effect: corev1.TaintEffectNoSchedule}}
	})
	p.reconcile(-1)
	p.edit(node, p.node(0), "kubectl-label", func() { node.Labels["tier"] = "lead" })

	got := p.drover("explain", "node", p.node(0), "-o", "json")
	if got.code != 0 {
		t.Fatalf("%+v", got)
	}
	explanation := decode[view.NodeExplanation](t, got.out)
	for _, want := range []struct {
		kind     ownership.Kind
		key      string
		owner    view.Owner
		manager  string
		standing view.Standing
	}{
		{ownership.Label, "tier", view.OwnerMachineSet, "kubectl-label", view.Differs},
		{ownership.Label, "taken", view.OwnerOther, "another-writer", view.InConflict},
		{ownership.Label, "kubernetes.io/os", view.OwnerOther, "kubelet", view.Undeclared},
		{ownership.Annotation, ownership.AnnotationRecord, view.OwnerRecord, "drover-metadata", view.Undeclared},
		{ownership.Taint, "foreign:NoSchedule", view.OwnerOther, "another-writer", view.Undeclared},
	} {
		entry := entryOf(t, explanation, want.kind, want.key)
		if entry.Owner != want.owner || entry.Standing != want.standing || len(entry.Managers) == 0 || entry.Managers[0].Name != want.manager ||
			entry.Managers[0].Time == nil {
			t.Errorf("want %+v, got %+v", want, entry)
		}
	}
	if entry := entryOf(t, explanation, ownership.Label, "tier"); entry.MachineSet != p.name || entry.Generation != 1 {
		t.Errorf("MachineSet and generation: %+v", entry)
	}
	if got := p.drover("explain", "node/"+p.node(0)); got.code != 0 || !strings.Contains(got.out, "MachineSet/"+p.name+" ") {
		t.Errorf("%+v", got)
	}
	if got := p.drover("explain", p.node(0)+"x"); got.code != 1 || !strings.Contains(got.errors, "did you mean "+p.node(0)) {
		t.Errorf("%+v", got)
	}
}

func entryOf(t *testing.T, explanation view.NodeExplanation, kind ownership.Kind, key string) view.Entry {
	t.Helper()
	at := slices.IndexFunc(explanation.Entries, func(e view.Entry) bool { return e.Kind == kind && e.Key == key })
	if at < 0 {
		t.Fatalf("%s %s is not there", kind, key)
	}
	return explanation.Entries[at]
}
