// Package release holds what is released to what its users do with it: the archives of the kubectl plugin, the notes of a release, and the
// workflows that make it.
package release

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// root is the repository, from here.
const root = "../.."

var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{}, &env))
}
