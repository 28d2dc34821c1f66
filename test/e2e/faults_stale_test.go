package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/stale"
)

// TestStale runs the workloads of the crash lane with an operator whose view of one kind is old: after a change of leader, after its own
// writes, and all the time. It must come to the same end, and make no destructive request that the true state does not warrant.
func TestStale(t *testing.T) {
	installMachines(t)
	lane := stale.Lane{Package: "./test/e2e", Args: []string{"--controllers=*"}, Sample: 45 * time.Second, Smoke: []string{
		"metadata-change/nodes/leader", "maintenance-worker/nodes/leader", "replicas/machines/leader", "dedication/nodegroups/leader",
	}}
	for _, load := range workloads {
		lane.Workloads = append(lane.Workloads, stale.Workload{
			Name: caseName("metadata", load.name), Run: func(t *testing.T, d harness.Disturbance) string { return disturbed(t, load, d) },
		})
	}
	for _, e := range evacuations {
		lane.Workloads = append(lane.Workloads, stale.Workload{
			Name: caseName("maintenance", e.name), Run: func(t *testing.T, d harness.Disturbance) string {
				left, _ := evacuate(t, e, d)
				return left
			}, Interrupts: true,
		})
	}
	lane.Workloads = append(lane.Workloads,
		stale.Workload{Name: "machines", Run: func(t *testing.T, d harness.Disturbance) string {
			made, _ := lifetime(t, d)
			return made
		}},
		stale.Workload{Name: "replicas", Run: resize, Interrupts: true},
		stale.Workload{Name: "budget", Run: shareBudget, Interrupts: true},
		stale.Workload{Name: "dedication", Run: dedicate},
	)
	lane.Run(t, env)
}

// resize scales a pool up and down again. Its end is known also where the user takes the first step back.
func resize(t *testing.T, d harness.Disturbance) string {
	t.Helper()
	f := newFleet(t, "replicas-", d)
	options := harness.Options{Args: []string{"--controllers=*", "--machines-parallel=1", "--machines-workers=1"}}
	f.operator = harness.Start(t, env, d.Operator(1, options))
	for _, count := range []int{2, 5} {
		f.Scale(int32(count)) //nolint:gosec // it is five at most
		f.Eventually(fmt.Sprintf("%d Machines run", count), func() error {
			f.revive()
			if d.Interrupted() {
				return nil
			}
			_, err := f.Running(count)
			return err
		})
	}
	f.Scale(3)
	before := f.until(3)
	d.Wait()
	after := f.until(3)
	made, _ := f.count()
	left := fmt.Sprintf("%d Machines run\n", len(after))
	for i := range after {
		if after[i].UID != before[i].UID {
			left += fmt.Sprintf("Machine %s is another than before\n", after[i].Name)
		}
	}
	if !d.Interrupted() {
		left += made
	}
	if err := f.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return left
}

// named makes a name that a Kubernetes object may have.
func caseName(parts ...string) string {
	return strings.NewReplacer(" ", "-", ",", "").Replace(strings.Join(parts, "-"))
}

// disturbed carries out a change of a pool under a disturbance. It returns what is left.
func disturbed(t *testing.T, load workload, d harness.Disturbance) string {
	t.Helper()
	w := begin(t, load)
	first := harness.Start(t, env, d.Operator(1, harness.Options{Args: []string{"--metadata-workers=1"}}))
	if d.Kills() {
		select {
		case <-first.Ended():
		case <-time.After(harness.Patience):
			t.Fatalf("the operator does not come to %s; its log:\n%s", d, first.Log())
		}
		harness.Start(t, env, d.Operator(2, harness.Options{}))
	}
	w.settled()
	d.Wait()
	w.settled()
	return w.remains()
}
