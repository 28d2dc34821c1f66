package harness

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/apitest/builder"
)

// LeaseNamespace is where the medik8s family keeps the leases of nodes.
const LeaseNamespace = "medik8s-leases"

// LeaseOf reads the lease that the medik8s family takes for a node; nil when there is none.
func (w *World) LeaseOf(node string) *coordinationv1.Lease {
	w.Helper()
	return w.GetLease(LeaseNamespace, "node-"+node)
}

// GetLease reads a lease; nil when there is none.
func (w *World) GetLease(namespace, name string) *coordinationv1.Lease {
	w.Helper()
	lease := &coordinationv1.Lease{}
	err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: namespace, Name: name}, lease)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		w.Fatalf("reading lease %s/%s: %v", namespace, name, err)
	}
	return lease
}

// Holder returns the holder of a node's lease, or an empty string. The lease of a Node that is gone belongs to the garbage collector, which
// not every control plane of the tests has.
func (w *World) Holder(node string) string {
	w.Helper()
	lease := w.LeaseOf(node)
	if lease == nil || lease.Spec.HolderIdentity == nil || w.ownerGone(lease) {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

// ownerGone reports whether the Node that owns a lease is gone.
func (w *World) ownerGone(lease *coordinationv1.Lease) bool {
	w.Helper()
	for _, owner := range lease.OwnerReferences {
		node := &corev1.Node{}
		err := w.Client.Get(w.Context(), types.NamespacedName{Name: owner.Name}, node)
		if apierrors.IsNotFound(err) || err == nil && node.UID != owner.UID {
			return true
		}
		if err != nil {
			w.Fatalf("reading Node %s: %v", owner.Name, err)
		}
	}
	return false
}

// AwaitHolder waits until a node's lease has a holder; an empty one means that it is free.
func (w *World) AwaitHolder(node, holder string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the lease of node %s is held by %q", node, holder), func() error {
		if got := w.Holder(node); got != holder {
			return fmt.Errorf("it is held by %q", got)
		}
		return nil
	})
}

// NoLease fails the test when there is a holder of a node's lease.
func (w *World) NoLease(node string) {
	w.Helper()
	if holder := w.Holder(node); holder != "" {
		w.Errorf("the lease of node %s is held by %q", node, holder)
	}
}

// TakeLease gives a node's lease to another holder although it may be held, as a client that ignores the protocol does.
func (w *World) TakeLease(node, holder string, duration time.Duration) {
	w.Helper()
	w.Eventually("taking the lease of node "+node, func() error {
		taken := builder.NodeLease(LeaseNamespace, node, holder, time.Now())
		taken.Spec.LeaseDurationSeconds = new(int32(duration / time.Second)) //nolint:gosec // it is a short time
		lease := w.LeaseOf(node)
		if lease == nil {
			return w.Client.Create(w.Context(), taken)
		}
		lease.Spec = taken.Spec
		return w.Client.Update(w.Context(), lease)
	})
}

// DropLease deletes a node's lease.
func (w *World) DropLease(node string) {
	w.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: LeaseNamespace, Name: "node-" + node}}
	if err := w.Client.Delete(w.Context(), lease); err != nil {
		w.Fatalf("deleting the lease of node %s: %v", node, err)
	}
}
