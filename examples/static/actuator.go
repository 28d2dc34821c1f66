package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider"
)

// spec is spec.providerSpec.value of a static Machine.
type spec struct {
	// NodeName is the Node that the server has registered, or will register.
	NodeName string `json:"nodeName"`
}

// actuator makes nothing: it waits until the server is there.
type actuator struct{ nodes client.Reader }

// Create finds the Node. Until it has registered there is nothing to do but to wait.
func (a *actuator) Create(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	instance, err := a.Get(ctx, machine)
	if err == nil && instance == nil {
		err = provider.RequeueAfter(10*time.Second, "the server has not registered its Node yet")
	}
	return instance, err
}

// Get looks at the Node. A Machine that is being deleted has let go of its server.
func (a *actuator) Get(ctx context.Context, machine *machinev1beta1.Machine) (*provider.Instance, error) {
	if machine.DeletionTimestamp != nil {
		return nil, nil
	}
	var s spec
	if err := json.Unmarshal(machine.Spec.ProviderSpec.Value.Raw, &s); err != nil {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value: %w", err)
	}
	if s.NodeName == "" {
		return nil, provider.InvalidConfiguration("spec.providerSpec.value.nodeName: the name of the server's Node is missing")
	}
	node := &corev1.Node{}
	err := a.nodes.Get(ctx, types.NamespacedName{Name: s.NodeName}, node)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", s.NodeName, err)
	}
	return &provider.Instance{ProviderID: node.Spec.ProviderID, Addresses: node.Status.Addresses, Type: "static"}, nil
}

// Delete has nothing to end: the server stays where it is.
func (a *actuator) Delete(context.Context, *machinev1beta1.Machine) error { return nil }
