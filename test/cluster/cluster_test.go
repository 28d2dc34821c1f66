package cluster_test

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
)

// env is the control plane of this package's tests.
var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(cluster.Main(m, cluster.Options{
		Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}, UnsafeNoFsync: true,
		Log: os.Stderr,
	}, &env))
}
