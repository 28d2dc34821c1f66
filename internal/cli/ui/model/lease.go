package model

import (
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"

	"github.com/drover-io/drover/internal/nodelease"
)

// leasePrefix is how the name of a node's lease begins.
var leasePrefix = nodelease.Name("")

// Lease is the lease of a node.
type Lease struct {
	Holder string `json:"holder"`
	// Capability and Object say what Drover has the lease for. They are empty for other holders.
	Capability string `json:"capability,omitempty"`
	Object     string `json:"object,omitempty"`
	Acquired   string `json:"acquired,omitempty"`
	Expires    string `json:"expires,omitempty"`
	Valid      bool   `json:"valid"`
}

// NewLease returns what a lease says.
func NewLease(lease *coordinationv1.Lease, now time.Time) *Lease {
	purpose, expiry := nodelease.PurposeOf(lease), leaseExpiry(lease)
	out := &Lease{
		Holder: Text(nodelease.HolderOf(lease), maxName), Capability: Text(purpose.Capability, maxReason), Object: Text(purpose.Object, maxName),
		Expires: Stamp(expiry), Valid: isLeased(lease, now),
	}
	if lease.Spec.AcquireTime != nil {
		out.Acquired = Stamp(lease.Spec.AcquireTime.Time)
	}
	return out
}

// leaseExpiry returns when a lease expires; zero for a lease without a holder.
func leaseExpiry(lease *coordinationv1.Lease) time.Time {
	spec := &lease.Spec
	if nodelease.HolderOf(lease) == "" || spec.RenewTime == nil || spec.LeaseDurationSeconds == nil {
		return time.Time{}
	}
	return spec.RenewTime.Add(time.Duration(*spec.LeaseDurationSeconds) * time.Second)
}

// clockSkew is how far this computer's clock may be behind the cluster's clocks.
const clockSkew = 5 * time.Minute

// isLeased reports whether a lease is valid for the operator, which takes over a lease whose renewal is in the future.
func isLeased(lease *coordinationv1.Lease, now time.Time) bool {
	holder := nodelease.HolderOf(lease)
	return holder != "" && (nodelease.IsValid(lease, holder, now) || nodelease.IsValid(lease, holder, now.Add(clockSkew)))
}

// leased returns the state of a node with a valid lease. Drover's own leases say what they are for.
func leased(lease *coordinationv1.Lease) why {
	since := time.Time{}
	if lease.Spec.AcquireTime != nil {
		since = lease.Spec.AcquireTime.Time
	}
	if purpose := nodelease.PurposeOf(lease); purpose.Capability != "" {
		return why{RollingOut, purpose.Capability, fmt.Sprintf("Drover has the lease of the node for %s", purpose.Object), since}
	}
	return why{Disrupted, "Leased", fmt.Sprintf("%q has the lease of the node", nodelease.HolderOf(lease)), since}
}
