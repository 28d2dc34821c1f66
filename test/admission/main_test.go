// Package admission states, on a real control plane, which NodeMaintenances the API server takes: with the webhook, without it, and
// with certificates that come, change and go.
package admission

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
		return harness.CheckPermissions(env, "webhook")
	}))
}
