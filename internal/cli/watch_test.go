package cli

import (
	"context"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/spf13/cobra"

	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
)

// TestUpgradeStatus_WatchPrintsChanges watches a run whose ages grow all the time.
func TestUpgradeStatus_WatchPrintsChanges(t *testing.T) {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	started := metav1.NewTime(now.Add(-time.Hour))
	run := &mutex.MutexRunConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "numo", Name: "run", CreationTimestamp: started}}
	run.Status = mutex.MutexRunConfigStatus{Phase: mutex.PhaseRunning, Total: 2, Nodes: []mutex.NodeStatus{
		{Name: "n1", Phase: mutex.NodeUpgrading, Started: &started, Message: "the machine-config-operator reports Working"},
	}}
	command := &upgradeStatusCommand{options: &options{now: func() time.Time { return now }}}
	command.output.addFlags(&cobra.Command{})
	changes := map[int]func(){
		4: func() { run.Status.Nodes[0].Message = "it drains the node: 1 pod left" },
		7: func() { run.Status.Phase, run.Status.Done = mutex.PhaseDone, 2 },
	}
	var out strings.Builder
	looks := 0
	watch := waiting{every: time.Millisecond}
	err := watch.until(t.Context(), &out, func(context.Context) (seen, error) {
		now = now.Add(time.Minute)
		if looks++; changes[looks] != nil {
			changes[looks]()
		}
		document := UpgradeStatusList{Items: []UpgradeStatus{upgradeStatus(run)}}
		found, err := command.look(&document, true)
		found.done = looks == 9
		return found, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if tables := strings.Count(out.String(), "NAMESPACE"); tables != 3 {
		t.Errorf("9 looks with 2 changes printed %d tables, want 3:\n%s", tables, out.String())
	}
	for _, want := range []string{"61m", "reports Working", "1 pod left", "Done"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("there is no %q in:\n%s", want, out.String())
		}
	}
}
