// Package e2e states what Drover does on a real control plane, in the words of its users.
package e2e

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{Components: []string{cluster.Kwok}}, &env))
}
