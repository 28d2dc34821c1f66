// Package install states what each way of installing Drover brings, on a plain Kubernetes: Helm, kustomize and plain YAML. The package openshift
// in it is about OpenShift.
package install

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

var env *cluster.Cluster

func TestMain(m *testing.M) {
	harness.BecomeOperator()
	log.SetLogger(logr.Discard())
	options := cluster.Options{Components: []string{cluster.ControllerManager, cluster.Scheduler, cluster.Kwok}, UnsafeNoFsync: true}
	os.Exit(cluster.Main(prepared{m}, options, &env))
}

// prepared runs the tests on a control plane as a user has it: without the CRDs that the sandbox brings.
type prepared struct{ m *testing.M }

// Run implements what cluster.Main runs.
func (p prepared) Run() int {
	if env != nil {
		if err := clear(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return p.m.Run()
}

// gateCRDs is how many of crds are of the gate of upgrades, which is for OpenShift.
const gateCRDs = 3

// crds are all that Drover may bring.
var crds = []string{
	"machines.machine.openshift.io", "machinesets.machine.openshift.io", "machinehealthchecks.machine.openshift.io",
	"nodemaintenances.nodemaintenance.medik8s.io", "nodemaintenances.nodemaintenance.kubevirt.io",
	"nodegroups.drover.dev",
	"mutexrules.openshift-optional.skrzypek.io", "mutextargets.openshift-optional.skrzypek.io", "mutexrunconfigs.openshift-optional.skrzypek.io",
}

// clear removes the CRDs and the namespaces that an install makes, and waits until they are gone.
func clear(ctx context.Context) error {
	if err := clearCRDs(ctx); err != nil {
		return fmt.Errorf("clearing the control plane: %w", err)
	}
	output, err := harness.Kubectl(ctx, env, nil, "delete", "--ignore-not-found", "--timeout=3m",
		"namespace", cluster.MachineNamespace, "medik8s-leases", harness.SystemNamespace)
	if err != nil {
		return fmt.Errorf("clearing the control plane: %w\n%s", err, output)
	}
	return nil
}

// clearCRDs removes the CRDs. The API server's finalizer of CRDs fails with "storage is (re)initializing" where the CRD was changed a moment ago, and
// may wait for minutes until it tries again; a change of the CRD has it try at once.
func clearCRDs(ctx context.Context) error {
	output, err := harness.Kubectl(ctx, env, nil, append([]string{"delete", "--ignore-not-found", "--wait=false", "crd"}, crds...)...)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, output)
	}
	for try := range 15 {
		output, err = harness.Kubectl(ctx, env, nil, append([]string{"wait", "--for=delete", "--timeout=20s", "crd"}, crds...)...)
		if err == nil {
			return nil
		}
		// One that goes meanwhile cannot be annotated, and need not be.
		_, _ = harness.Kubectl(ctx, env, nil, "annotate", "--overwrite", "crd", "--all", fmt.Sprintf("drover.dev/cleared=%d", try))
	}
	return fmt.Errorf("%w\n%s", err, output)
}
