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
	"nodegroups.drover.dev", "machineautoscalers.autoscaling.openshift.io",
	"mutexrules.openshift-optional.skrzypek.io", "mutextargets.openshift-optional.skrzypek.io", "mutexrunconfigs.openshift-optional.skrzypek.io",
}

// clear removes the CRDs and the namespaces that an install makes, and waits until they are gone.
func clear(ctx context.Context) error {
	if err := harness.DeleteCRDs(ctx, env, crds...); err != nil {
		return fmt.Errorf("clearing the control plane: %w", err)
	}
	output, err := harness.Kubectl(ctx, env, nil, "delete", "--ignore-not-found", "--timeout=3m",
		"namespace", cluster.MachineNamespace, "medik8s-leases", harness.SystemNamespace)
	if err != nil {
		return fmt.Errorf("clearing the control plane: %w\n%s", err, output)
	}
	return nil
}
