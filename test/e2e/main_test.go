// Package e2e states what Drover does on a real control plane, in the words of its users: what MachineSets declare, what kubectl drover shows,
// in admission_*_test.go which NodeMaintenances the API server takes, and, in
// faults_*_test.go, what is left when the operator is killed at a write or has an old view of the cluster.
package e2e

import (
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// Tests that need an operator of their own come first, one after another. The others share one, and run side by side when those are over.
var shared harness.SharedOperator

// kwok ends the Pods that are evicted. Without kube-controller-manager only the operator writes Nodes, and what is left can be compared.
func TestMain(m *testing.M) {
	harness.SetParallel(8)
	os.Exit(harness.Main(m, cluster.Options{Components: []string{cluster.Kwok}}, &env, shared.Stop, func() error {
		return harness.CheckPermissions(env, "base", "metadata", "webhook")
	}))
}
