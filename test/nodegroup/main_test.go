// Package nodegroup states what a NodeGroup does on a real control plane, in the words of its users.
package nodegroup

import (
	"flag"
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// Tests that need an operator of their own come first, one after another. The others share one, and run side by side when those are over.
var shared harness.SharedOperator

func TestMain(m *testing.M) {
	harness.SetParallel(8)
	os.Exit(harness.Main(m, cluster.Options{}, &env, shared.Stop, func() error {
		if flag.Lookup("test.run").Value.String() != "" || testing.Short() {
			return nil // only the whole suite uses every permission
		}
		return harness.CheckPermissions(env, "node-groups")
	}))
}
