package machine

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/machine/plan"
)

// observe returns what is known of a Machine before any step. An instance that has just been recorded is known still.
func (rc *reconciliation) observe(machine *machinev1beta1.Machine, unserved error) plan.Input {
	in := plan.Input{Machine: machine, State: &rc.state.State, Settings: &rc.options.Settings, Unserved: unserved}
	if recorded := rc.state.Recorded; recorded != nil && machine.DeletionTimestamp == nil {
		in.Get = plan.Answer{Asked: true, Instance: recorded}
	}
	rc.state.Recorded = nil
	return in
}

// getInstance asks the provider for the instance.
func (rc *reconciliation) getInstance(ctx context.Context, machine *machinev1beta1.Machine) plan.Answer {
	ctx, cancel := context.WithTimeout(ctx, rc.options.ProviderTimeout)
	defer cancel()
	instance, err := rc.actuator.Get(ctx, machine)
	return plan.Answer{Asked: true, Instance: instance, Err: err}
}

// findNode finds the Machine's Node. The addresses that the provider has returned in this reconciliation count already.
func (rc *reconciliation) findNode(ctx context.Context, in *plan.Input) (plan.Link, error) {
	known := in.Known()
	referred, err := rc.referredNode(ctx, in.Machine)
	if err != nil {
		return plan.Link{}, err
	}
	found, err := rc.finder.NodeOf(ctx, known, referred)
	if err != nil || referred == nil {
		return plan.LinkOf(in, found, nil, false), err
	}
	foreign, err := rc.finder.Foreign(ctx, known, referred)
	return plan.LinkOf(in, found, referred, foreign), err
}

// referredNode returns the Node that a Machine's nodeRef names; nil for none.
func (rc *reconciliation) referredNode(ctx context.Context, machine *machinev1beta1.Machine) (*corev1.Node, error) {
	ref := machine.Status.NodeRef
	if ref == nil {
		return nil, nil
	}
	node := &corev1.Node{}
	switch err := rc.Cache.Get(ctx, types.NamespacedName{Name: ref.Name}, node); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading Node %s: %w", ref.Name, err)
	}
	return node, nil
}

// findLateNode returns a Node of the Machine that the cache does not show yet; nil for none.
func (rc *reconciliation) findLateNode(ctx context.Context, in *plan.Input) (*corev1.Node, error) {
	for _, name := range plan.LateNodeNames(in) {
		node := &corev1.Node{}
		err := rc.Live.Get(ctx, types.NamespacedName{Name: name}, node)
		switch {
		case client.IgnoreNotFound(err) != nil:
			return nil, fmt.Errorf("reading Node %s: %w", name, err)
		case err == nil && plan.IsLateNode(in, node):
			return node, nil
		}
	}
	return nil, nil
}
