package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/drover-io/drover/internal/cli/view"
)

func TestPlanExitCodes(t *testing.T) {
	p := newMachineSet(t, 3, map[string]string{"tier": "gold"})
	got := p.drover("plan", "-o", "json")
	if got.code != 2 {
		t.Fatalf("before: code %d, stderr %q", got.code, got.errors)
	}
	list := decode[view.PlanList](t, got.out)
	if list.Summary.NodeWrites != 3 || len(list.Items) != 1 || len(list.Items[0].Groups) != 1 {
		t.Errorf("before: %s", got.out)
	}
	p.reconcile(-1)
	if got = p.drover("plan"); got.code != 0 || !strings.Contains(got.out, "Nothing to change") {
		t.Errorf("settled: %+v", got)
	}
	if got = p.drover("plan", "nosuch"); got.code != 1 || !strings.Contains(got.errors, `MachineSet "nosuch" not found`) {
		t.Errorf("unknown MachineSet: %+v", got)
	}
	node := &corev1.Node{}
	p.edit(node, p.node(1), "another-writer", func() { node.Labels["tier"] = "silver" })
	if got = p.drover("plan", p.name); got.code != 2 || !strings.Contains(got.out, "tier=silver → gold") || !strings.Contains(got.out, "drift") {
		t.Errorf("drifted: %+v", got)
	}
}

func TestPlanPreview(t *testing.T) {
	p := newMachineSet(t, 2, map[string]string{"tier": "gold"})
	p.reconcile(-1)
	manifest := map[string]any{
		"apiVersion": "machine.openshift.io/v1beta1", "kind": "MachineSet",
		"metadata": map[string]any{"name": p.name},
		"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"metadata": map[string]any{"labels": map[string]string{"tier": "silver"}},
			"taints":   []corev1.Taint{{Key: "dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}},
		}}},
	}
	content, err := yaml.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "machineset.yaml")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	got := p.drover("plan", "-f", file)
	if got.code != 2 || !strings.Contains(got.out, "tier=gold → silver") || !strings.Contains(got.out, "+ taint      dedicated=db:NoSchedule") {
		t.Errorf("preview: %+v", got)
	}
	if got := p.drover("plan"); got.code != 0 {
		t.Errorf("the preview has changed the cluster: %+v", got)
	}
}
