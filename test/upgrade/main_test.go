// Package upgrade tests gated upgrades of nodes on a real control plane. drover-sandbox simulates OpenShift, and knows nothing of Drover.
package upgrade

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

// shared is the operator of all tests except tests that kill their own. The cluster has one version, so tests run one after another.
var shared harness.SharedOperator

func TestMain(m *testing.M) {
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}}
	os.Exit(harness.Main(prepared{m}, options, &env, shared.Stop, finish))
}

// prepared runs the tests on a control plane with the CRDs and objects of OpenShift.
type prepared struct{ m *testing.M }

// Run prepares the control plane and runs the tests.
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
		if err := harness.RunJobs(ctx, env); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

func finish() error {
	return harness.CheckPermissionsBut(env, func(e *cluster.AuditEvent) bool {
		return e.Resource == "mutexrules" && e.Received.After(unprivileged.from) && e.Received.Before(unprivileged.to)
	}, "upgrade")
}
