package upgrade

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/cmdutil"
	"github.com/drover-io/drover/internal/cli/view"
)

// TestUpgradeStatus_WatchPrintsChanges watches a run whose ages grow all the time.
func TestUpgradeStatus_WatchPrintsChanges(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	started := metav1.NewTime(now.Add(-time.Hour))
	run := &mutex.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", CreationTimestamp: started}}
	run.Status = mutex.MutexRunConfigStatus{Phase: mutex.PhaseRunning, Total: 2, Nodes: []mutex.NodeStatus{
		{Name: "n1", Phase: mutex.NodeUpgrading, Started: &started, Message: "the machine-config-operator reports Working"},
	}}
	edits := map[int]func(){
		4: func() { run.Status.Nodes[0].Message = "it drains the node: 1 pod left" },
		7: func() { run.Status.Phase, run.Status.Done = mutex.PhaseDone, 2 },
	}
	streams, _, out, _ := genericiooptions.NewTestIOStreams()
	output := &cmdutil.OutputFlags{}
	output.AddFlags(&cobra.Command{})
	synctest.Test(t, func(t *testing.T) {
		look := 0
		err := output.Follow(t.Context(), cmdutil.NewOptions(streams), cmdutil.WaitFlags{}, func(context.Context) (any, func(*cmdutil.Text), bool, error) {
			now = now.Add(time.Minute)
			if edit := edits[look]; edit != nil {
				edit()
			}
			look++
			document := view.NewUpgradeStatusList([]*mutex.MutexRunConfig{run})
			return document, func(text *cmdutil.Text) { drawStatus(text, document, true, now) }, look == 9, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
	if tables := strings.Count(out.String(), "NAMESPACE"); tables != 3 {
		t.Errorf("9 looks with 2 changes printed %d tables, want 3:\n%s", tables, out.String())
	}
	for _, want := range []string{"61m", "reports Working", "1 pod left", "Done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, out.String())
		}
	}
}
