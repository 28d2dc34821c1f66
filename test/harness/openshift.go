package harness

import (
	"context"

	"github.com/drover-io/drover/test/openshift"
)

// SimulateOpenShift runs the machine-config simulator until the test ends, and returns when every pool has a configuration. The control plane
// needs InstallOpenShift first.
func (w *World) SimulateOpenShift(options openshift.Options) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), Patience)
	defer cancel()
	if err := w.Cluster.StartMachineConfig(ctx, options); err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() {
		if err := w.Cluster.StopMachineConfig(); err != nil {
			w.Error(err)
		}
	})
	if err := openshift.AwaitPools(ctx, w.Client); err != nil {
		w.Fatal(err)
	}
}
