package harness

import (
	"context"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/openshift"
	"github.com/drover-io/drover/test/vcenter"
)

// SimulateOpenShift runs the machine-config simulator until the test ends, and returns when every pool has a configuration. The control plane
// needs InstallOpenShift first.
func (w *World) SimulateOpenShift(options openshift.Options) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), Patience)
	defer cancel()
	w.Cleanup(func() {
		if err := w.Cluster.StopSimulator(cluster.MachineConfig); err != nil {
			w.Error(err)
		}
	})
	if err := w.Cluster.StartMachineConfig(ctx, options); err != nil {
		w.Fatal(err)
	}
}

// StartVCenter starts a vCenter, with what Drover needs to know of it in the cluster. Both end with the test.
func (w *World) StartVCenter(options cluster.VCenterOptions) *vcenter.Site {
	w.Helper()
	site, err := w.Cluster.StartVCenter(w.Context(), options)
	if err != nil {
		w.Fatal(err)
	}
	if err := InstallVCenter(w.Context(), w.Cluster); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := w.Cluster.StopSimulator(cluster.VCenter); err != nil {
			w.Error(err)
		}
		for _, object := range site.Objects(cluster.MachineNamespace) {
			if err := w.Client.Delete(context.Background(), object); client.IgnoreNotFound(err) != nil {
				w.Error(err)
			}
		}
	})
	return site
}

// MakeVSpherePool makes a MachineSet whose Machines are virtual machines of a vCenter.
func (w *World) MakeVSpherePool(site *vcenter.Site, name string, replicas int32, change func(*machinev1beta1.VSphereMachineProviderSpec)) *Pool {
	w.Helper()
	spec := site.ProviderSpec()
	if change != nil {
		change(spec)
	}
	return w.createPool(NewMachineSet(name, replicas, func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = builder.RawProviderSpec(JSON(spec))
	}))
}
