package cluster

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/openshift"
)

// OpenShiftOptions says what of OpenShift a control plane gets.
type OpenShiftOptions struct {
	// Version is the version of the cluster, openshift.DefaultVersion when empty.
	Version string
	// CustomPools are the MachineConfigPools other than master and worker.
	CustomPools []string
	// Masters and Workers are numbers of Nodes that kwok plays: master-0 and so on, which no Machine stands for, and the pool worker.
	Masters, Workers int
}

// InstallOpenShift brings what the machine-config simulator works on: the CRDs, its permissions, pools, a ClusterVersion, and Nodes. What is
// there already stays as it is. StartMachineConfig starts the simulator itself.
func (c *Cluster) InstallOpenShift(ctx context.Context, opts OpenShiftOptions) error {
	names, err := InstallCRDs(ctx, c.admin, openshift.CRDs, "crds")
	if err != nil {
		return err
	}
	c.opts.logf("CRDs established: %v", names)
	if err := c.grant(ctx, MachineConfig, MachineConfigUser, openshift.Rules()); err != nil {
		return err
	}
	writer, err := openshift.NewClient(c.admin)
	if err != nil {
		return err
	}
	if err := openshift.Install(ctx, writer, opts.Version, opts.CustomPools...); err != nil {
		return err
	}
	for i := range opts.Masters {
		if err := c.makeMaster(ctx, writer, fmt.Sprintf("%s-%d", openshift.PoolMaster, i)); err != nil {
			return err
		}
	}
	if opts.Workers == 0 {
		return nil
	}
	return CreatePool(ctx, c.admin, PoolOptions{Name: openshift.PoolWorker, Machines: opts.Workers, Log: c.opts.Log})
}

// makeMaster has the provider kwok make a Node of the control plane, from a Machine that is written nowhere: no MachineSet owns masters.
func (c *Cluster) makeMaster(ctx context.Context, nodes client.Client, name string) error {
	options := PoolOptions{Name: name, Namespace: MachineNamespace, NodeTaints: []corev1.Taint{
		{Key: "node-role.kubernetes.io/master", Effect: corev1.TaintEffectNoSchedule},
	}}
	spec, err := options.providerSpec()
	if err != nil {
		return err
	}
	machine := &machinev1beta1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: MachineNamespace, Name: name, UID: types.UID("sandbox-" + name)},
		Spec:       machinev1beta1.MachineSpec{ProviderSpec: machinev1beta1.ProviderSpec{Value: spec}},
	}
	writer := &nodeWriter{Client: nodes, complete: func(node *corev1.Node) {
		for _, role := range []string{"master", "control-plane"} {
			node.Labels["node-role.kubernetes.io/"+role] = ""
		}
		// The rest of what a pool's Nodes have is not true of it.
		for _, label := range []string{"node-role.kubernetes.io/worker", PoolLabel, PoolNamespaceLabel} {
			delete(node.Labels, label)
		}
	}}
	if _, err := kwok.NewActuator(writer, clock.RealClock{}).Create(ctx, machine); err != nil {
		return fmt.Errorf("cluster: making node %s: %w", name, err)
	}
	return nil
}
