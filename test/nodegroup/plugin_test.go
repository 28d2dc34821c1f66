package nodegroup

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/cli/view"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// TestPlugin_PlansWhatTheOperatorDoes: the operator writes the Nodes in the waves that kubectl drover plan shows.
func TestPlugin_PlansWhatTheOperatorDoes(t *testing.T) {
	f := newFixture(t, "plugin", 7)
	f.create(f.newGroup("plugin", withLabel("example.com/team", "blue"), withWaves(1, 3, 0)))
	operator := f.Operator(harness.Options{})
	f.eventuallyCondition("plugin", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	if output, code := plugin.Run(f.World, "plan", "nodegroup/plugin"); code != 0 {
		t.Errorf("at rest the plan has code %d: %s", code, output)
	}
	f.update("plugin", withLabel("example.com/team", "red"))
	output, code := plugin.Run(f.World, "plan", "nodegroup/plugin", "-o", "json")
	var list view.NodeGroupPlanList
	if err := json.Unmarshal([]byte(output), &list); err != nil || code != 2 || len(list.Items) != 1 || list.Items[0].Summary.ToWrite != 7 {
		t.Fatalf("after a change the plan has code %d: %s (%v)", code, output, err)
	}
	mark := f.AuditMark()
	f.Operator(harness.Options{})
	output, code = plugin.Run(f.World, "rollout", "status", "nodegroup/plugin", "--timeout="+harness.Patience.String())
	if code != 0 || !strings.Contains(output, "successfully rolled out") {
		t.Errorf("the status of the roll-out has code %d: %s", code, output)
	}
	names := f.written(mark)
	for i, wave := range list.Items[0].Waves {
		if len(names) < len(wave.Nodes) {
			t.Fatalf("wave %d has no writes", i+1)
		}
		got := slices.Sorted(slices.Values(names[:len(wave.Nodes)]))
		if want := slices.Sorted(slices.Values(wave.Nodes)); !slices.Equal(got, want) {
			t.Errorf("wave %d has written %v; planned was %v", i+1, got, want)
		}
		names = names[len(wave.Nodes):]
	}
	if len(names) > 0 {
		t.Errorf("%v have been written again", names)
	}
}

// TestPlugin_PlanOfInvalidFile: a file that the API server refuses is an error, in the server's words, also when only an update would be refused.
func TestPlugin_PlanOfInvalidFile(t *testing.T) {
	f := besideOthers(t, "invalid", 1)
	f.create(f.newGroup("invalid", withLabel("example.com/team", "blue")))
	for spec, want := range map[string]string{
		`{"metadata":{"labels":{"example.com/team":"blue"}}}`:                                            "spec.nodes: Required value",
		`{"nodes":{"selector":{},"machineSets":{"namespace":"x"}}}`:                                      "spec.nodes",
		`{"nodes":{"selector":{}},"disruption":{"maxUnavailable":-1}}`:                                   "maxUnavailable",
		`{"nodes":{"selector":{}},"metadata":{"taints":[{"key":"example.com/x","effect":"Noexecute"}]}}`: `Unsupported value: "Noexecute"`,
		`{"nodes":{"selector":{}},"metadata":{"labels":{"example.com/team":1}}}`:                         "must be of type string",
		`{"nodes":{"selector":{}},"disrupton":{}}`:                                                       `unknown field "spec.disrupton"`,
	} {
		for _, name := range []string{"invalid", "invalid-new"} {
			if name == "invalid" && strings.Contains(want, "Required") {
				// Of an existing object, kubectl apply leaves what the file does not have.
				continue
			}
			file := filepath.Join(t.TempDir(), "group.yaml")
			content := `{"apiVersion":"drover.dev/v1alpha1","kind":"NodeGroup","metadata":{"name":"` + name + `"},"spec":` + spec + `}`
			if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
			output, code := plugin.Run(f.World, "plan", "-f", file)
			if code != 1 || !strings.Contains(output, want) || !strings.Contains(output, "the API server refuses it") {
				t.Errorf("%s %s: code %d: %s", name, spec, code, output)
			}
		}
	}
}
