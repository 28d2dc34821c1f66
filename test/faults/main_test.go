// Package faults kills the operator at every point and compares what is left with what an undisturbed run leaves.
package faults

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// kwok ends the pods that are evicted. Without kube-controller-manager only the operator writes Nodes, and what is left can be compared.
func TestMain(m *testing.M) {
	os.Exit(harness.Main(m, cluster.Options{Components: []string{cluster.Kwok}}, &env))
}
