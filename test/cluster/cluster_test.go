package cluster_test

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/drover-io/drover/test/cluster"
	wait "github.com/drover-io/drover/test/eventually"
)

// env is the control plane of this package's tests.
var env *cluster.Cluster

// orphanEnv makes the test program start a control plane in the folder that it names and then wait to be killed.
const orphanEnv = "DROVER_TEST_ORPHAN"

func TestMain(m *testing.M) {
	if dir := os.Getenv(orphanEnv); dir != "" {
		leaveOrphan(dir)
	}
	os.Exit(cluster.Main(m, cluster.Options{
		Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}, UnsafeNoFsync: true,
	}, &env))
}

// leaveOrphan starts a control plane, says so on the standard output and never stops it.
func leaveOrphan(dir string) {
	started, err := cluster.Start(context.Background(), cluster.Options{Dir: dir, UnsafeNoFsync: true})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for _, status := range started.Status(context.Background()) {
		if status.PID != 0 {
			fmt.Println(status.PID)
		}
	}
	fmt.Println("started")
	select {}
}

// eventually waits until a condition holds. The last error of the condition says why it did not.
func eventually(t *testing.T, what string, condition func(ctx context.Context) error) {
	t.Helper()
	if err := wait.Until(t.Context(), time.Minute, 50*time.Millisecond, func() error { return condition(t.Context()) }); err != nil {
		t.Fatalf("waiting until %s: %v", what, err)
	}
}
