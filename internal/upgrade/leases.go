package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// keepLeases renews the leases that the run has, while it cannot go on. It takes none: who is done has given its own back.
func (p *pass) keepLeases(ctx context.Context) error {
	var failures []error
	for _, node := range slices.Concat(p.scene.Marked, p.scene.Prepared()) {
		ours, err := p.holds(ctx, node.Name)
		if err != nil {
			failures = append(failures, err)
		}
		if !ours {
			continue
		}
		again, err := p.Lease.Acquire(ctx, node)
		var held *nodelease.AlreadyHeldError
		switch {
		case errors.As(err, &held):
		case err != nil:
			failures = append(failures, err)
		default:
			p.later(again)
		}
	}
	return worst(failures)
}

// holds tells whether the lease of a node is this capability's. All runs have one holder; so only nodes that are no other run's are asked about.
func (p *pass) holds(ctx context.Context, node string) (bool, error) {
	lease := &coordinationv1.Lease{}
	err := p.Lease.Client.Get(ctx, types.NamespacedName{Namespace: p.Lease.Namespace, Name: nodelease.Name(node)}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	return nodelease.HolderOf(lease) == p.Lease.Holder, nil
}

// releaseAll gives back the leases of nodes that were only cleaned up. Which these are is known from their Jobs, and not from the status: the
// process may have ended between taking a lease and writing it.
func (p *pass) releaseAll(ctx context.Context) (settled bool, err error) {
	for _, node := range p.scene.Prepared() {
		if err := p.Lease.ReleaseIfHolder(ctx, node.Name); err != nil {
			return false, err
		}
	}
	return true, nil
}

// foreign tells that another run has marked a node, and so has its lease.
func (p *pass) foreign(node *corev1.Node) bool {
	run := node.Labels[plan.LabelRun]
	return run != "" && run != string(p.run.UID)
}

// busy tells whether something of a node is under way. One that has failed after it was let go still is.
func busy(step *plan.Step) bool {
	switch step.Status.Phase {
	case v1alpha1.NodeRunningJobs, v1alpha1.NodeReleased, v1alpha1.NodeUpgrading, v1alpha1.NodeCleaningUp:
		return true
	case v1alpha1.NodeFailed:
		return step.Status.Released != nil
	}
	return false
}
