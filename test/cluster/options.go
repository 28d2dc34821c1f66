package cluster

import (
	"fmt"
	"io"
	"slices"
)

// The names of the components, which are the names of their programs.
const (
	Etcd              = "etcd"
	APIServer         = "kube-apiserver"
	ControllerManager = "kube-controller-manager"
	Scheduler         = "kube-scheduler"
	Kwok              = "kwok"
)

// MachineNamespace is the namespace of OpenShift's machines; every control plane of this package has it.
const MachineNamespace = "openshift-machine-api"

// startOrder lists every component in start order. They stop in the opposite order.
var startOrder = []string{Etcd, APIServer, ControllerManager, Scheduler, Kwok}

// Components returns the names of all components, in start order.
func Components() []string { return slices.Clone(startOrder) }

// Options says what control plane to run. The zero value is a temporary etcd and kube-apiserver with the CRDs of
// machine.openshift.io.
type Options struct {
	// Dir is the folder of its data, certificates and logs, kept when it stops. When Dir holds the data of an earlier
	// run that is resumed, with the same certificates and, if they are free, the same ports. Empty means a temporary
	// folder, which is removed when it stops.
	Dir string
	// Components lists what runs in addition to etcd and kube-apiserver: any of ControllerManager, Scheduler and Kwok. With Detach, nil means the
	// components and the other choices of the earlier run, if there was one.
	Components []string
	// UnsafeNoFsync lets etcd acknowledge writes before they are on disk. That is much faster on slow disks and loses
	// data when the machine, not just etcd, dies. The default is safe.
	UnsafeNoFsync bool
	// MigrationCRDs installs the CRDs with the authoritativeAPI fields instead of the ones of a production cluster.
	MigrationCRDs bool
	// NoNodeLeases stops kwok from renewing the leases of its nodes. A kube-controller-manager then takes the nodes
	// for dead after about 200 s.
	NoNodeLeases bool
	// KubeletLeases has kwok renew the leases of its nodes as often as a kubelet does, every 10 s; otherwise it is every
	// 40 s, since thousands of nodes take much of a small machine.
	KubeletLeases bool
	// Keep keeps the temporary folder, which Stop otherwise removes. The environment variable DROVER_SANDBOX_KEEP=1
	// does the same.
	Keep bool
	// Detach lets the control plane live on when the process that started it ends. Open finds it again.
	Detach bool
	// Log receives lines about what happens. Nil means nowhere.
	Log io.Writer
}

// components returns the components to run, in start order.
func (o Options) components() ([]string, error) {
	for _, name := range o.Components {
		if !slices.Contains(startOrder, name) {
			return nil, fmt.Errorf("cluster: no component %q; there are %v", name, startOrder)
		}
	}
	var wanted []string
	for _, name := range startOrder {
		if name == Etcd || name == APIServer || slices.Contains(o.Components, name) {
			wanted = append(wanted, name)
		}
	}
	return wanted, nil
}

// logf writes a line to Log.
func (o Options) logf(format string, args ...any) {
	if o.Log != nil {
		_, _ = fmt.Fprintf(o.Log, format+"\n", args...)
	}
}
