package plan

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/status"
)

// maxObject is the largest object that etcd stores by default.
const maxObject = 1_500_000

// TestStatus_Bounded has a node with more Pods than any, each with the longest names and a reason of its own.
func TestStatus_Bounded(t *testing.T) {
	const pods = 3000
	report := &drain.Report{Total: pods, Exempted: map[drain.Exempt]int{}}
	for i := range pods {
		report.Left = append(report.Left, drain.Left{
			Namespace: strings.Repeat("n", 63), Name: fmt.Sprintf("%0253d", i), Reason: drain.Webhook,
			Detail: fmt.Sprintf("%05d%s", i, strings.Repeat("d", 5000)),
		})
	}
	for name, set := range map[string]func(*Progress){
		"drain": func(p *Progress) { p.SetReport(report, start) }, "dry run": func(p *Progress) { p.SetPreview(report) },
	} {
		t.Run(name, func(t *testing.T) {
			progress := &Progress{Problem: strings.Repeat("e", 1<<20)}
			set(progress)
			after := Status(newInput(), progress)
			if len(after.PendingPods) != maxPendingPods || len(after.PendingPodsRefs) != maxPendingPods || after.PendingPodsOmitted != pods-maxPendingPods {
				t.Errorf("%d and %d pods are named, %d omitted", len(after.PendingPods), len(after.PendingPodsRefs), after.PendingPodsOmitted)
			}
			for _, condition := range after.Conditions {
				if len(condition.Message) > status.MaxMessage {
					t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
				}
			}
			if text, err := json.Marshal(after); err != nil || len(text) > maxObject/2 {
				t.Errorf("the status has %d bytes (%v)", len(text), err)
			}
		})
	}
}
