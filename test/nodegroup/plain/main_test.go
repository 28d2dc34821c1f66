// Package plain states what a NodeGroup does on a cluster without any Machine API, such as EKS, GKE or AKS: the CRDs of machine.openshift.io are
// absent, and all Nodes are selected by their labels.
package plain

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var (
	env     *cluster.Cluster
	checker *harness.Checker
)

func TestMain(m *testing.M) {
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(prepared{m}, options, &env, finish))
}

// prepared runs the tests on a control plane without the CRDs of the Machine API, which the sandbox brings.
type prepared struct{ m *testing.M }

// Run implements harness.Tests.
func (p prepared) Run() int {
	if env != nil {
		if err := prepare(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

func prepare(ctx context.Context) (err error) {
	crds := []string{"machines.machine.openshift.io", "machinesets.machine.openshift.io", "machinehealthchecks.machine.openshift.io"}
	if err := harness.DeleteCRDs(ctx, env, crds...); err != nil {
		return fmt.Errorf("deleting the CRDs of the Machine API: %w", err)
	}
	// The Deployment that is shipped would run on the tests' nodes: the operator under test is another process.
	if output, err := harness.Kubectl(ctx, env, nil, "scale", "deployment/drover", "--replicas=0", "-n", harness.SystemNamespace); err != nil {
		return fmt.Errorf("scaling the Deployment: %w\n%s", err, output)
	}
	checker, err = harness.StartChecker(env)
	return err
}

// finish looks back at all tests.
func finish() error {
	if checker == nil {
		return nil
	}
	defer checker.Stop()
	return checker.Finish()
}
