// Package machines states what MachineSets, Machines and MachineHealthChecks do on a real control plane, in the words of their users, with
// the provider kwok.
package machines

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// Tests that need an operator of their own come first, one after another. The others share one, and run side by side when those are over.
var shared = harness.SharedOperator{Options: harness.Options{Args: []string{"--controllers=*"}}}

func TestMain(m *testing.M) {
	harness.SetParallel(10)
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(m, options, &env, shared.Stop, finish))
}

func finish() error {
	return harness.CheckPermissions(env, "machines", "autoscaling")
}

var begin sync.Once

// besideOthers is a control plane with the operator that tests share.
func besideOthers(t *testing.T) *harness.World {
	t.Helper()
	t.Parallel()
	w := prepared(t)
	shared.For(t, env)
	return w
}

// world is a control plane with an operator that makes machines, for one test.
func world(t *testing.T, args ...string) (*harness.World, *harness.Operator) {
	t.Helper()
	w := prepared(t)
	return w, w.Operator(harness.Options{Args: append([]string{"--controllers=*"}, args...)})
}

// prepared is a control plane with the capability installed, and no operator yet.
func prepared(t *testing.T) *harness.World {
	t.Helper()
	begin.Do(func() {
		// The Deployment that is shipped would run on the tests' nodes: the operator under test is another process.
		if output, err := harness.Kubectl(t.Context(), env, nil, "scale", "deployment/drover", "--replicas=0", "-n", harness.SystemNamespace); err != nil {
			panic(fmt.Sprintf("scaling the Deployment: %v\n%s", err, output))
		}
		if err := harness.InstallMachines(t.Context(), env); err != nil {
			panic(err)
		}
	})
	return harness.NewWorld(t, env)
}
