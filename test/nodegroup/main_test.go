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

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{}, &env, func() error {
		if flag.Lookup("test.run").Value.String() != "" || testing.Short() {
			return nil // only the whole suite uses every permission
		}
		return harness.CheckPermissions(env, "node-groups")
	}))
}
