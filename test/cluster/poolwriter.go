package cluster

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/test/openshift"
)

// poolWriter makes or deletes one pool.
type poolWriter struct {
	opts     PoolOptions
	client   client.Client
	set      *machinev1beta1.MachineSet
	nodes    map[string]*corev1.Node
	machines map[string]*machinev1beta1.Machine
}

func newPoolWriter(cfg *rest.Config, opts PoolOptions) (*poolWriter, error) {
	if err := opts.complete(); err != nil {
		return nil, err
	}
	c, err := openshift.NewClient(cfg)
	return &poolWriter{opts: opts, client: c}, err
}

// prepare makes the namespace and the MachineSet and finds what there is of the pool.
func (w *poolWriter) prepare(ctx context.Context) error {
	if err := w.applyNamespace(ctx, w.opts.Namespace); err != nil {
		return err
	}
	if err := w.findNodes(ctx); err != nil {
		return err
	}
	if err := w.findMachines(ctx); err != nil {
		return err
	}
	providerSpec, err := w.opts.providerSpec()
	if err != nil {
		return err
	}
	w.set = w.opts.machineSet(w.replicas(), providerSpec)
	err = w.client.Create(ctx, w.set)
	if apierrors.IsAlreadyExists(err) {
		err = w.readSet(ctx)
	}
	if err != nil {
		return fmt.Errorf("cluster: making the MachineSet %s: %w", w.opts.Name, err)
	}
	return nil
}

func (w *poolWriter) applyNamespace(ctx context.Context, name string) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if err := w.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("cluster: making the namespace %s: %w", name, err)
	}
	return nil
}

func (w *poolWriter) readSet(ctx context.Context) error {
	return w.client.Get(ctx, client.ObjectKey{Namespace: w.opts.Namespace, Name: w.opts.Name}, w.set)
}

func (w *poolWriter) findNodes(ctx context.Context) error {
	var list corev1.NodeList
	if err := w.client.List(ctx, &list, w.selected()); err != nil {
		return fmt.Errorf("cluster: listing the nodes of the pool %s: %w", w.opts.Name, err)
	}
	w.nodes = make(map[string]*corev1.Node, len(list.Items))
	for i := range list.Items {
		w.nodes[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

func (w *poolWriter) findMachines(ctx context.Context) error {
	var list machinev1beta1.MachineList
	if err := w.client.List(ctx, &list, client.InNamespace(w.opts.Namespace), client.MatchingLabels{MachineSetLabel: w.opts.Name}); err != nil {
		return fmt.Errorf("cluster: listing the machines of the pool %s: %w; are the CRDs of machine.openshift.io there?",
			w.opts.Name, err)
	}
	w.machines = make(map[string]*machinev1beta1.Machine, len(list.Items))
	for i := range list.Items {
		w.machines[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}

// selected selects the Nodes and Pods of the pool.
func (w *poolWriter) selected() client.MatchingLabels {
	return client.MatchingLabels{PoolLabel: w.opts.Name, PoolNamespaceLabel: w.opts.Namespace}
}

// replicas is the number of machines that the pool will have.
func (w *poolWriter) replicas() int32 {
	total := len(w.machines)
	for index := range w.opts.Machines {
		if _, ok := w.machines[w.opts.machineName(w.opts.FirstIndex+index)]; !ok {
			total++
		}
	}
	return int32(total) //nolint:gosec // complete bounds the number
}

// writeMachines makes the machines and nodes that are missing, several at once.
func (w *poolWriter) writeMachines(ctx context.Context) error {
	return w.each(ctx, "machines", func(ctx context.Context, index int) error {
		if err := w.writeMachine(ctx, index); err != nil {
			return fmt.Errorf("cluster: making the machine %s: %w", w.opts.machineName(index), err)
		}
		return nil
	})
}

// writeMachine makes a Machine, its instance, which is the Node, and then the status that links the two.
func (w *poolWriter) writeMachine(ctx context.Context, index int) error {
	machine, ok := w.machines[w.opts.machineName(index)]
	if ok && w.linked(machine) {
		return nil
	}
	if !ok {
		machine = w.opts.machine(w.set, index)
		if err := w.client.Create(ctx, machine); apierrors.IsAlreadyExists(err) {
			return errTaken
		} else if err != nil {
			return err
		}
	}
	instance, node, err := w.makeInstance(ctx, machine)
	if err != nil {
		return err
	}
	machine.Status = machineStatus(instance, node)
	return w.client.Status().Update(ctx, machine)
}

// linked reports whether a Machine has its Node.
func (w *poolWriter) linked(machine *machinev1beta1.Machine) bool {
	node, ok := w.nodes[machine.Name]
	return ok && machine.Status.NodeRef != nil && machine.Status.NodeRef.UID == node.UID
}

// each calls a function for every index of the pool, with several calls at once, and logs how far it is.
func (w *poolWriter) each(ctx context.Context, what string, work func(ctx context.Context, index int) error) error {
	var done atomic.Int64
	group, groupCtx := errgroup.WithContext(ctx)
	go w.report(groupCtx, what, &done) // the group ends its context
	group.SetLimit(concurrency)
	for index := range w.opts.Machines {
		if groupCtx.Err() != nil {
			break
		}
		group.Go(func() error {
			defer done.Add(1)
			return work(groupCtx, w.opts.FirstIndex+index)
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return ctx.Err()
}

func (w *poolWriter) report(ctx context.Context, what string, done *atomic.Int64) {
	ticker := time.NewTicker(2 * time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			w.logf("pool %s: %s %d of %d", w.opts.Name, what, done.Load(), w.opts.Machines)
		}
	}
}
