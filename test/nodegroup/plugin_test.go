package nodegroup

import (
	"encoding/json"
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

// TestPlugin_PlansWhatTheOperatorDoes: the waves that kubectl drover plan shows are those in which the operator writes the Nodes then.
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
