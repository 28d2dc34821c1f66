package nodelease

import (
	"context"
	"errors"
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

	"github.com/drover-io/drover/internal/expectations"
)

// Namespace returns the namespace of the leases in this cluster.
func Namespace() string {
	if name := os.Getenv(NamespaceVariable); name != "" {
		return name
	}
	return DefaultNamespace
}

// Leases acquires, renews and releases the leases of nodes for one holder.
type Leases struct {
	// Client reads and writes leases. Its cache may lag: every write is guarded by what was read.
	Client client.Client
	// Namespace is the namespace of the leases.
	Namespace string
	// Holder is the identity in the leases that are acquired.
	Holder string
	// Clock returns the time.
	Clock clock.PassiveClock
	// Reader reads leases that the Client has not cached; nil is the Client.
	Reader client.Reader
	// NameOf returns the name of a node's lease; nil is Name.
	NameOf func(node string) string
	// KeepReleased keeps a released lease, without holder and times, instead of deleting it.
	KeepReleased bool
	// Written records the own writes that the cache behind the Client may not show yet, of all holders in the process, by the name of the lease.
	// Nil is for a Client without a cache.
	Written *expectations.Owned
}

// errPending is the cause of the conflict for a lease whose last write the cache does not show.
var errPending = errors.New("the cache does not show the last write of it yet")

// Acquire acquires a node's lease, or renews it when that is due. It returns the delay until the next renewal. The error is an *AlreadyHeldError
// when another holder has the lease, and a conflict when another holder has just acquired it.
func (l *Leases) Acquire(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	return l.AcquireFor(ctx, node, Purpose{})
}

// AcquireFor is Acquire for a purpose, which the lease says. The zero value leaves the purpose of a lease that the holder has as it is.
func (l *Leases) AcquireFor(ctx context.Context, node *corev1.Node, purpose Purpose) (time.Duration, error) {
	lease, err := l.get(ctx, node.Name)
	if err != nil {
		return 0, err
	}
	now := l.Clock.Now()
	step := purpose.step(lease, Decide(lease, l.Holder, now), now)
	switch step {
	case Wait:
		return 0, heldByOther(node.Name, lease)
	case Keep:
		return RenewAfter - now.Sub(lease.Spec.RenewTime.Time), nil
	case Create:
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.Namespace, Name: l.name(node.Name)}}
		purpose.apply(lease, step, l.Holder, node, now)
		err = l.create(ctx, lease)
		if apierrors.IsAlreadyExists(err) {
			// Another holder has created it since it was read; the next attempt reads whose it is.
			err = apierrors.NewConflict(coordinationv1.Resource("leases"), lease.Name, err)
		}
	default:
		lease = lease.DeepCopy()
		purpose.apply(lease, step, l.Holder, node, now)
		// The update carries the resourceVersion that was read.
		err = l.update(ctx, lease)
	}
	if err != nil {
		return 0, fmt.Errorf("lease of node %s (%s): %w", node.Name, step, err)
	}
	return RenewAfter, nil
}

// Release releases a node's lease. It does not change the lease of another holder.
func (l *Leases) Release(ctx context.Context, node string) error {
	lease, err := l.get(ctx, node)
	if err != nil || lease == nil {
		return err
	}
	if holder := HolderOf(lease); holder != "" && holder != l.Holder {
		return nil
	}
	if l.KeepReleased {
		err = l.clear(ctx, lease)
	} else {
		err = l.Client.Delete(ctx, lease, client.Preconditions{UID: &lease.UID, ResourceVersion: &lease.ResourceVersion})
		if err == nil && l.Written != nil {
			l.Written.Deleted(lease.Name, lease)
		}
	}
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("releasing the lease of node %s: %w", node, err)
	}
	return nil
}

// clear empties the spec of a lease, as node-maintenance-operator of the kubevirt group does.
func (l *Leases) clear(ctx context.Context, lease *coordinationv1.Lease) error {
	if HolderOf(lease) == "" {
		return nil
	}
	changed := lease.DeepCopy()
	changed.Spec.HolderIdentity, changed.Spec.LeaseDurationSeconds = nil, nil
	changed.Spec.AcquireTime, changed.Spec.RenewTime, changed.Spec.LeaseTransitions = nil, nil, nil
	Purpose{}.annotate(changed)
	return l.update(ctx, changed)
}

// update updates a lease that has not changed since it was read, and records the write.
func (l *Leases) update(ctx context.Context, lease *coordinationv1.Lease) error {
	err := l.Client.Update(ctx, lease)
	if err == nil && l.Written != nil {
		l.Written.Updated(lease.Name, lease)
	}
	return err
}

// NamespaceError is the error for a namespace of the leases that does not exist and cannot be created. It wraps the API server's answer to the
// creation of the namespace, so that it is classified as that.
type NamespaceError struct {
	// Namespace is the namespace of the leases.
	Namespace string
	// Err is why it cannot be created.
	Err error
}

// Error names the namespace and what to do.
func (e *NamespaceError) Error() string {
	const text = "namespace %s, where the leases of nodes are, does not exist: create it, with Drover's Role in it (creating it: %v)"
	return fmt.Sprintf(text, e.Namespace, e.Err)
}

// Unwrap returns why the namespace cannot be created.
func (e *NamespaceError) Unwrap() error { return e.Err }

// create creates a lease, and its namespace if that is missing and Drover may create it, and records the write.
func (l *Leases) create(ctx context.Context, lease *coordinationv1.Lease) error {
	created := lease.DeepCopy()
	err := l.Client.Create(ctx, created)
	switch {
	case apierrors.IsNotFound(err):
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: l.Namespace}}
		if err := l.Client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
			return &NamespaceError{Namespace: l.Namespace, Err: err}
		}
		created = lease.DeepCopy()
		if err = l.Client.Create(ctx, created); apierrors.IsNotFound(err) {
			// The API server that answered does not know the namespace yet. Wrapped, this would mean that the Node is gone.
			return fmt.Errorf("namespace %s has just been created: %v", l.Namespace, err) //nolint:errorlint // see above
		}
	case apierrors.IsForbidden(err):
		// A Role goes with its namespace, and then the API server does not say which of them is missing.
		return fmt.Errorf("%w; make sure that namespace %s and Drover's Role in it exist", err, l.Namespace)
	}
	if err == nil && l.Written != nil {
		l.Written.Created(created.Name, created)
	}
	return err
}

func (l *Leases) name(node string) string {
	if l.NameOf == nil {
		return Name(node)
	}
	return l.NameOf(node)
}

// get returns a node's lease, or nil if there is none. The error is a conflict while the cache does not show the last write of the lease: a decision
// on the older version could leave a lease behind, or take over another holder's lease.
func (l *Leases) get(ctx context.Context, node string) (*coordinationv1.Lease, error) {
	if l.Written != nil {
		pending, err := l.Written.Pending(ctx, l.name(node))
		if err != nil {
			return nil, fmt.Errorf("reading the lease of node %s: %w", node, err)
		}
		if pending {
			return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), l.name(node), errPending)
		}
	}
	lease := &coordinationv1.Lease{}
	var reader client.Reader = l.Client
	if l.Reader != nil {
		reader = l.Reader
	}
	err := reader.Get(ctx, types.NamespacedName{Namespace: l.Namespace, Name: l.name(node)}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading the lease of node %s: %w", node, err)
	}
	return lease, nil
}

// HeldByOther returns the error that Acquire would return because another holder has a node's lease; nil if there is none.
func (l *Leases) HeldByOther(ctx context.Context, node string) (*AlreadyHeldError, error) {
	lease, err := l.get(ctx, node)
	if err != nil || Decide(lease, l.Holder, l.Clock.Now()) != Wait {
		return nil, err
	}
	return heldByOther(node, lease), nil
}

// IsHolder reports whether the lease of a node names this holder, even if the lease has expired.
func (l *Leases) IsHolder(ctx context.Context, node string) (bool, error) {
	lease, err := l.get(ctx, node)
	return err == nil && lease != nil && HolderOf(lease) == l.Holder, err
}

// PurposeOf returns what the lease of a node says that this holder has it for; the zero value if it says nothing, or another holder has it.
func (l *Leases) PurposeOf(ctx context.Context, node string) (Purpose, error) {
	lease, err := l.get(ctx, node)
	if err != nil || lease == nil || HolderOf(lease) != l.Holder {
		return Purpose{}, err
	}
	return PurposeOf(lease), nil
}

// HeldSince returns since when this holder has the lease of a node; zero if it has not, or if the lease has expired.
func (l *Leases) HeldSince(ctx context.Context, node string) (time.Time, error) {
	lease, err := l.get(ctx, node)
	now := l.Clock.Now()
	if err != nil || lease == nil || !IsValid(lease, l.Holder, now) || lease.Spec.AcquireTime == nil || now.Before(lease.Spec.AcquireTime.Time) {
		return time.Time{}, err
	}
	return lease.Spec.AcquireTime.Time, nil
}

// ReleaseIfHolder is Release for a caller that may never have acquired the lease: it does not touch a lease without a holder either.
func (l *Leases) ReleaseIfHolder(ctx context.Context, node string) error {
	lease, err := l.get(ctx, node)
	if err != nil || lease == nil || HolderOf(lease) != l.Holder {
		return err
	}
	return l.Release(ctx, node)
}

// ReleaseFor is ReleaseIfHolder for a lease that says nothing else than a purpose. It reports whether the holder had that.
func (l *Leases) ReleaseFor(ctx context.Context, node string, purpose Purpose) (released bool, err error) {
	lease, err := l.get(ctx, node)
	if err != nil || lease == nil || HolderOf(lease) != l.Holder || PurposeOf(lease).says() && !purpose.isOf(lease) {
		return false, err
	}
	return true, l.Release(ctx, node)
}

// RenewIfHolder is Acquire for a caller that may not have the lease: it acquires none. It returns zero if the lease has another holder or none.
func (l *Leases) RenewIfHolder(ctx context.Context, node *corev1.Node) (time.Duration, error) {
	lease, err := l.get(ctx, node.Name)
	if err != nil || lease == nil || HolderOf(lease) != l.Holder {
		return 0, err
	}
	return l.Acquire(ctx, node)
}

// HolderOf returns the holder of a lease; empty for none.
func HolderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
