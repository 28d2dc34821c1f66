// Package nodegroup states what a NodeGroup does on a real control plane, in the words of its users.
package nodegroup

import (
	"errors"
	"os"
	"sync"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// Tests that need an operator of their own come first, one after another. The others share one, and run side by side when those are over.
var shared harness.SharedOperator

// checker looks at the evictions of the tests that have Pods, from when the first of them begins.
var (
	beginChecker sync.Once
	checker      *harness.Checker
)

// kwok ends the Pods that are evicted. Without kube-controller-manager only the operator writes Nodes.
func TestMain(m *testing.M) {
	harness.SetParallel(8)
	os.Exit(harness.Main(m, cluster.Options{Components: []string{cluster.Kwok}}, &env, finish))
}

// finish looks back at all tests.
func finish() error {
	failures := []error{shared.Stop()}
	if checker != nil {
		failures = append(failures, checker.Finish())
		checker.Stop()
	}
	failures = append(failures, harness.CheckPermissions(env, "node-groups"))
	return errors.Join(failures...)
}
