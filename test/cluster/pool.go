package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"

	"github.com/drover-io/drover/internal/apitest/builder"
)

const (
	// PoolLabel is the label that the Nodes and Pods of a pool carry: the pool's name.
	PoolLabel = "sandbox.drover.io/pool"
	// PoolNamespaceLabel is another label of theirs: the namespace of the pool.
	PoolNamespaceLabel = "sandbox.drover.io/pool-namespace"
	// MachineSetLabel is the label in the selector of a pool's MachineSet. Its value is the pool's name.
	MachineSetLabel = builder.MachineSetLabel
	// MachineAnnotation of a Node names its Machine, as namespace/name.
	MachineAnnotation = "machine.openshift.io/machine"
	// ReadyAnnotation on a Node with the value "false" makes kwok turn it NotReady.
	ReadyAnnotation = "sandbox.drover.io/ready"
)

// concurrency is the number of writers that keeps two cores busy without queueing in the API server.
const concurrency = 24

// PoolOptions says what pool to make.
type PoolOptions struct {
	// Name is the name of the MachineSet. The Machines and Nodes are called NAME-0 and so on, so no two namespaces may
	// have pools of the same name.
	Name string
	// Namespace is where the MachineSet and Machines are, MachineNamespace when empty.
	Namespace string
	// Machines is the number of Machines, each with its Node. With FirstIndex the first one is called NAME-FirstIndex,
	// which makes a pool in several steps.
	Machines, FirstIndex int
	// RunningPods is the number of Pods that are made on each Node, in the namespace PodNamespace of the pool.
	RunningPods int
	// Labels, Annotations and Taints are what the MachineSet's template declares for Nodes. The Machines get a copy, as from the machineset controller;
	// the Nodes get none unless CopyToNodes is set. An existing MachineSet keeps its template.
	Labels, Annotations map[string]string
	Taints              []corev1.Taint
	// CopyToNodes gives the template's labels and taints to the Nodes too, as nodelink does.
	CopyToNodes bool
	// NodeLabels, NodeAnnotations and NodeTaints are what the Nodes have beyond that.
	NodeLabels, NodeAnnotations map[string]string
	NodeTaints                  []corev1.Taint
	// Log receives lines about the progress. Nil means nowhere.
	Log io.Writer
}

// PodNamespace returns the namespace of the Pods of a pool.
func (o PoolOptions) PodNamespace() string { return o.Name + "-pods" }

// complete fills in the defaults and validates the options.
func (o *PoolOptions) complete() error {
	if o.Namespace == "" {
		o.Namespace = MachineNamespace
	}
	// The name is also a label value and part of a namespace's name.
	if problems := validation.IsDNS1123Label(o.PodNamespace()); len(problems) > 0 {
		return fmt.Errorf("cluster: pool name %q: %v", o.Name, problems)
	}
	const highest = 1 << 16 // of the addresses that a pool has
	if o.Machines < 0 || o.FirstIndex < 0 || o.RunningPods < 0 || o.FirstIndex+o.Machines > highest {
		return fmt.Errorf("cluster: pool %s: %d machines from number %d with %d pods each; the numbers go from 0 to %d",
			o.Name, o.Machines, o.FirstIndex, o.RunningPods, highest)
	}
	return nil
}

// CreatePool makes a MachineSet with Machines that are running, each with a ready Node that kwok plays, linked to each
// other as the machine controllers leave them. What is there already is left as it is, so that a second call
// completes what a first one began.
func CreatePool(ctx context.Context, cfg *rest.Config, opts PoolOptions) error {
	begin := time.Now()
	w, err := newPoolWriter(cfg, opts)
	if err != nil {
		return err
	}
	if err := w.prepare(ctx); err != nil {
		return err
	}
	if err := w.writeMachines(ctx); err != nil {
		return err
	}
	machines := time.Since(begin)
	if err := w.writeReplicas(ctx); err != nil {
		return err
	}
	w.logf("pool %s: %d machines with their nodes in %s", w.opts.Name, w.opts.Machines, machines.Round(10*time.Millisecond))
	if w.opts.RunningPods > 0 {
		if err := w.writePods(ctx); err != nil {
			return err
		}
		w.logf("pool %s: %d pods on each node in %s", w.opts.Name, w.opts.RunningPods,
			(time.Since(begin) - machines).Round(10*time.Millisecond))
	}
	return nil
}

// DeletePool deletes the MachineSet of a pool with its Machines, Nodes and Pods and waits until they are gone. Of
// opts it reads Name, Namespace and Log. A pool that is not there gives an error.
func DeletePool(ctx context.Context, cfg *rest.Config, opts PoolOptions) error {
	begin := time.Now()
	w, err := newPoolWriter(cfg, opts)
	if err != nil {
		return err
	}
	found, err := w.deleteAll(ctx)
	if err != nil {
		return err
	}
	if !found {
		return fmt.Errorf("cluster: there is no pool %s in the namespace %s", w.opts.Name, w.opts.Namespace)
	}
	w.logf("pool %s: deleted in %s", w.opts.Name, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

// errTaken says that an object of the name is there and is not the pool's.
var errTaken = errors.New("an object of that name is there already and does not belong to the pool")

func (w *poolWriter) logf(format string, args ...any) {
	if w.opts.Log != nil {
		_, _ = fmt.Fprintf(w.opts.Log, format+"\n", args...)
	}
}
