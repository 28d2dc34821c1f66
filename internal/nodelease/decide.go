// Package nodelease controls who may disrupt a node. There is one lease per node. Every controller that drains, deletes or remediates the node
// acquires it first. Both Drover's controllers and the medik8s family (node-maintenance-operator, Node Health Check) do so.
//
// The lease is a coordination.k8s.io/v1 Lease in the medik8s format: namespace medik8s-leases, name node-NAME, 3600 s, owned by its
// Node so that it is deleted with it. Every write is guarded: when two controllers take over an expired lease, one of them gets a conflict.
package nodelease

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/bounded"
)

// The medik8s format.
const (
	// DefaultNamespace is the namespace of the leases, unless the environment variable NamespaceVariable names another one.
	DefaultNamespace  = "medik8s-leases"
	NamespaceVariable = "LEASE_NAMESPACE"
	// Duration is how long a lease is valid after its last renewal.
	Duration = time.Hour
	// RenewAfter is the age at which a lease that is still needed is renewed: two renewals may fail before it is lost.
	RenewAfter = Duration / 3
)

// Name returns the name of a node's lease.
func Name(node string) string { return "node-" + strings.ToLower(node) }

// Step is what a holder has to do to acquire a lease or to keep it.
type Step string

// The steps.
const (
	// Create: the lease does not exist.
	Create Step = "create"
	// TakeOver: the lease of another holder has expired.
	TakeOver Step = "takeover"
	// Renew: the holder has the lease, and its renewal is due.
	Renew Step = "renew"
	// Keep: the holder has the lease, and its renewal is not due.
	Keep Step = "keep"
	// Wait: another holder has the lease.
	Wait Step = "wait"
)

// AlreadyHeldError is the error for a lease that another holder has.
type AlreadyHeldError struct {
	Node, Holder string
	// Until is when the lease expires if it is not renewed.
	Until time.Time
	// Since is when the holder acquired it, as the lease says; zero for not known.
	Since time.Time
}

// heldByOther returns the error for a lease that another holder has.
func heldByOther(node string, lease *coordinationv1.Lease) *AlreadyHeldError {
	held := &AlreadyHeldError{Node: node, Holder: HolderOf(lease), Until: expiry(lease.Spec)}
	if lease.Spec.AcquireTime != nil {
		held.Since = lease.Spec.AcquireTime.Time
	}
	return held
}

// Error names the node and the holder.
func (e *AlreadyHeldError) Error() string {
	return fmt.Sprintf("the lease of node %s is held by %q until %s", e.Node, e.Holder, e.Until.UTC().Format(time.RFC3339))
}

// Decide returns the next step of a holder; a nil lease does not exist. It follows the rules of medik8s, except that a lease which the holder has
// is renewed when that is due and not in every reconciliation.
func Decide(lease *coordinationv1.Lease, holder string, now time.Time) Step {
	if lease == nil {
		return Create
	}
	spec := lease.Spec
	incomplete := spec.RenewTime == nil || spec.LeaseDurationSeconds == nil
	switch {
	case spec.HolderIdentity != nil && *spec.HolderIdentity == holder:
		if incomplete || now.Sub(spec.RenewTime.Time) >= RenewAfter || now.Before(spec.RenewTime.Time) ||
			expiry(spec).Sub(now) < Duration-RenewAfter {
			return Renew
		}
		return Keep
	case incomplete, now.Before(spec.RenewTime.Time), now.After(expiry(spec)):
		// If the renewal time is in the future, a wrong clock has set it; it must not block the node forever.
		return TakeOver
	}
	return Wait
}

// IsValid reports whether a holder has a lease that has not expired.
func IsValid(lease *coordinationv1.Lease, holder string, now time.Time) bool {
	// Any other holder would have to wait for it.
	return HolderOf(lease) == holder && isValid(lease, now)
}

func expiry(spec coordinationv1.LeaseSpec) time.Time {
	return spec.RenewTime.Add(bounded.Seconds(*spec.LeaseDurationSeconds))
}

// Apply changes a lease in place to what it is after a step. The lease may be a new one.
func Apply(lease *coordinationv1.Lease, step Step, holder string, node *corev1.Node, now time.Time) {
	spec := &lease.Spec
	at := metav1.NewMicroTime(now)
	incomplete := spec.RenewTime == nil || spec.LeaseDurationSeconds == nil
	switch {
	case step == Create:
		spec.LeaseTransitions = new(int32(0))
		spec.AcquireTime = &at
	case step == TakeOver || incomplete:
		transitions := int32(1)
		if spec.LeaseTransitions != nil {
			transitions = *spec.LeaseTransitions + 1
		}
		spec.LeaseTransitions = &transitions
		spec.AcquireTime = &at
	case spec.AcquireTime == nil:
		spec.AcquireTime = &at
	}
	spec.HolderIdentity = &holder
	spec.RenewTime = &at
	spec.LeaseDurationSeconds = new(int32(Duration / time.Second))
	if node != nil {
		lease.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}}
	}
}
