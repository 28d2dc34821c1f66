// Package variants states what Drover does on control planes that are not like the others: while OpenShift migrates to the Cluster API,
// and where the CRDs of the Machine API come and go.
package variants

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{MigrationCRDs: true}, &env))
}
