// Package upgrade states what gated upgrades of nodes are on a real control plane, in the words of their users. What OpenShift does itself is
// simulated by drover-sandbox, which knows nothing of Drover.
package upgrade

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(prepared{m}, options, &env, finish))
}

// prepared runs the tests on a control plane that has what OpenShift brings.
type prepared struct{ m *testing.M }

// Run implements what harness.Main runs.
func (p prepared) Run() int {
	if env != nil {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		if output, err := harness.Kubectl(ctx, env, nil, "scale", "deployment/drover", "--replicas=0", "-n", harness.SystemNamespace); err != nil {
			fmt.Fprintf(os.Stderr, "scaling the Deployment: %v\n%s", err, output)
			return 1
		}
		if err := env.InstallOpenShift(ctx, cluster.OpenShiftOptions{Version: "4.17.0"}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		if err := runJobs(ctx); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

func finish() error {
	if flag.Lookup("test.run").Value.String() != "" || testing.Short() {
		return nil
	}
	return harness.CheckPermissions(env, "upgrade")
}
