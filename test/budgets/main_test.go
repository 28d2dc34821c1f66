// Package budgets has everything that disrupts Nodes compete for the budget of one NodeGroup, on a real control plane that is one of OpenShift.
package budgets

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(prepared{m}, options, &env))
}

// prepared runs the tests on a control plane with the CRDs and objects of OpenShift, on which Drover creates Machines.
type prepared struct{ m *testing.M }

// Run prepares the control plane and runs the tests.
func (p prepared) Run() int {
	if env != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if err := prepare(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

func prepare(ctx context.Context) error {
	// The Deployment that is shipped would run on the tests' nodes: the operator under test is another process.
	if output, err := harness.Kubectl(ctx, env, nil, "scale", "deployment/drover", "--replicas=0", "-n", harness.SystemNamespace); err != nil {
		return fmt.Errorf("scaling the Deployment: %w\n%s", err, output)
	}
	if err := env.InstallOpenShift(ctx, cluster.OpenShiftOptions{Version: "4.17.0"}); err != nil {
		return err
	}
	if err := harness.InstallMachines(ctx, env); err != nil {
		return err
	}
	return harness.RunJobs(ctx, env)
}
