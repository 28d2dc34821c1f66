package plan

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/drain"
)

func TestGuardHeld(t *testing.T) {
	limit := int32(2)
	perNode, perWave := v1alpha1.NoExecute{MaxPodsPerNode: &limit}, v1alpha1.NoExecute{MaxPodsPerWave: &limit}
	for name, c := range map[string]struct {
		settings v1alpha1.NoExecute
		reasons  []drain.Reason
		// others are the Pods of the other Nodes of the wave.
		others  int
		counted int
		want    string
	}{
		"no limits":                  {reasons: []drain.Reason{drain.Evicting, drain.Budget}},
		"a budget that never allows": {reasons: []drain.Reason{drain.Evicting, drain.BudgetNever}, want: "cannot be evicted"},
		"several budgets":            {reasons: []drain.Reason{drain.TwoBudgets}, want: "cannot be evicted"},
		"within the limit of Nodes":  {settings: perNode, reasons: []drain.Reason{drain.Evicting, drain.Evicting}},
		"over the limit of Nodes": {
			settings: perNode, reasons: []drain.Reason{drain.Evicting, drain.Evicting, drain.Turn}, want: "maxPodsPerNode is 2",
		},
		"within the limit of waves": {settings: perWave, reasons: []drain.Reason{drain.Evicting}, others: 1, counted: 1},
		"over the limit of waves": {
			settings: perWave, reasons: []drain.Reason{drain.Evicting}, others: 2, counted: 1, want: "3 Pods would be evicted",
		},
		"a Node that keeps its Pods does not count": {settings: perWave, reasons: []drain.Reason{drain.BudgetNever}, want: "cannot be evicted"},
	} {
		t.Run(name, func(t *testing.T) {
			report, counted := drain.Report{}, 0
			for _, reason := range c.reasons {
				report.Remaining = append(report.Remaining, drain.RemainingPod{Namespace: "default", Name: "web", Reason: reason})
			}
			got := HeldBack(&c.settings, &report, func(pods, _ int) int {
				counted += pods
				return c.others + pods
			})
			if !strings.Contains(got, c.want) || (got == "") != (c.want == "") || counted != c.counted {
				t.Errorf("held %q, counted %d", got, counted)
			}
		})
	}
}
