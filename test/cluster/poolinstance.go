package cluster

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
	"github.com/drover-io/drover/provider/kwok"
)

// makeInstance has the provider kwok make the instance of a Machine, as Drover would have it made, and returns its Node, too.
func (w *poolWriter) makeInstance(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, *corev1.Node, error) {
	nodes := &nodeWriter{Client: w.client, complete: func(node *corev1.Node) { w.opts.link(w.set, node) }}
	instance, err := kwok.NewActuator(nodes, clock.RealClock{}).Create(ctx, machine)
	if err != nil {
		return nil, nil, err
	}
	if nodes.node == nil {
		// It has a MachineSet already, whose providerSpec is another one.
		return nil, nil, errors.New("the instance has no Node yet; do its providerSpec's bootDelay and failure ask for that?")
	}
	return instance, nodes.node, nil
}

// nodeWriter remembers the Node that an actuator makes or finds, and completes a new one.
type nodeWriter struct {
	client.Client
	complete func(*corev1.Node)
	node     *corev1.Node
}

// Create makes the Node with what nodelink adds to it, in the same request.
func (n *nodeWriter) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	node, ok := object.(*corev1.Node)
	if !ok {
		return fmt.Errorf("a %T is no part of a pool", object)
	}
	n.complete(node)
	if err := n.Client.Create(ctx, node, options...); err != nil {
		return err
	}
	n.node = node
	return nil
}

// Get reads the Node that was there already.
func (n *nodeWriter) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if err := n.Client.Get(ctx, key, object, options...); err != nil {
		return err
	}
	if node, ok := object.(*corev1.Node); ok {
		n.node = node
	}
	return nil
}
