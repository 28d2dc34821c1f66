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
	// DefaultNamespace is where the leases are, unless the environment variable NamespaceVariable names another namespace.
	DefaultNamespace  = "medik8s-leases"
	NamespaceVariable = "LEASE_NAMESPACE"
	// Duration is how long a lease is good after its last renewal.
	Duration = time.Hour
	// RenewAfter is the age at which a lease that is still needed is renewed: two renewals may fail before it is lost.
	RenewAfter = Duration / 3
)

// Name is the name of a node's lease. Names of nodes are lower-case already.
func Name(node string) string { return "node-" + strings.ToLower(node) }

// Step is what has to be done to hold a lease.
type Step string

// The steps.
const (
	// Create: there is no lease yet.
	Create Step = "create"
	// TakeOver: nobody holds it any more.
	TakeOver Step = "takeover"
	// Renew: it is ours, and due.
	Renew Step = "renew"
	// Keep: it is ours, and fresh.
	Keep Step = "keep"
	// Wait: somebody else holds it.
	Wait Step = "wait"
)

// AlreadyHeldError says that somebody else holds a node's lease.
type AlreadyHeldError struct {
	Node, Holder string
	// Until is when the lease runs out if it is not renewed.
	Until time.Time
}

// Error names the holder.
func (e *AlreadyHeldError) Error() string {
	return fmt.Sprintf("the lease of node %s is held by %q until %s", e.Node, e.Holder, e.Until.UTC().Format(time.RFC3339))
}

// Decide says what a holder has to do about a lease, nil for one that is absent. It follows the medik8s rules, but for a lease of
// one's own: that is renewed when it is due, not on every look.
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
		// A renewal in the future is a clock gone wrong; it must not hold a node for ever.
		return TakeOver
	}
	return Wait
}

func expiry(spec coordinationv1.LeaseSpec) time.Time {
	return spec.RenewTime.Add(bounded.Seconds(*spec.LeaseDurationSeconds))
}

// Apply makes a lease what it is after a step. The lease may be new; it is changed in place.
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
