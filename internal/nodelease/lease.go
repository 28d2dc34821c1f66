package nodelease

import (
	"context"
	"fmt"
	"os"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Namespace is where the leases are on this cluster.
func Namespace() string {
	if name := os.Getenv(NamespaceVariable); name != "" {
		return name
	}
	return DefaultNamespace
}

// Leases takes, renews and releases the leases of nodes for one holder.
type Leases struct {
	// Client reads and writes leases. A cached one may be behind: every write is guarded by what was read.
	Client client.Client
	// Namespace is where the leases are.
	Namespace string
	// Holder is the identity that is written into them.
	Holder string
	// Clock tells the time.
	Clock clock.PassiveClock
}

// Hold makes sure that the holder has a node's lease, and renews it when that is due. It returns when to call again for the next
// renewal. The error is a *HeldError when somebody else has it, and a conflict when somebody else was faster just now.
func (l *Leases) Hold(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	lease, err := l.get(ctx, node.Name)
	if err != nil {
		return 0, err
	}
	now := l.Clock.Now()
	step := Decide(lease, l.Holder, now)
	switch step {
	case Wait:
		return 0, &HeldError{Node: node.Name, Holder: holderOf(lease), Until: expiry(lease.Spec)}
	case Keep:
		return RenewAfter - now.Sub(lease.Spec.RenewTime.Time), nil
	case Create:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: Name(node.Name)}}
		Apply(lease, step, l.Holder, node, now)
		err = l.Client.Create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			// Somebody made it since we looked: whose it is will be seen next time.
			err = apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, err)
		}
	default:
		lease = lease.DeepCopy()
		Apply(lease, step, l.Holder, node, now)
		// The update carries the resourceVersion that was read.
		err = l.Client.Update(ctx, lease)
	}
	if err != nil {
		return 0, fmt.Errorf("lease of node %s (%s): %w", node.Name, step, err)
	}
	return RenewAfter, nil
}

// Release gives a node's lease back. A lease that is absent, or somebody else's by now, is left as it is: then there is nothing to give.
func (l *Leases) Release(ctx context.Context, node string) error {
	lease, err := l.get(ctx, node)
	if err != nil || lease == nil {
		return err
	}
	if holder := holderOf(lease); holder != "" && holder != l.Holder {
		return nil
	}
	err = l.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the lease of node %s: %w", node, err)
	}
	return nil
}

// get reads a node's lease, nil when there is none.
func (l *Leases) get(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{}
	err := l.Client.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: Name(node)}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	return lease, nil
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
