package cmdutil

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DroverNamespaceFlag is --drover-namespace.
type DroverNamespaceFlag struct{ *Options }

// AddFlags adds the flag to a command.
func (f DroverNamespaceFlag) AddFlags(command *cobra.Command) {
	command.Flags().StringVar(&f.DroverNamespace, "drover-namespace", defaultDroverNamespace, "Namespace that Drover is installed in")
}

// Validate accepts all namespaces.
func (DroverNamespaceFlag) Validate() error { return nil }

// leaseName is the name of the lease of the leader election, as the manifests have it.
const leaseName = "drover"

// Leader returns the Pod of the replica that leads, or why none does. The error is why that is unknown.
func (o *Options) Leader(ctx context.Context, c client.Reader) (pod, none string, err error) {
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: o.DroverNamespace, Name: leaseName}
	if err := client.IgnoreNotFound(c.Get(ctx, key, lease)); err != nil {
		return "", "", err
	}
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if holder == "" || lease.Spec.RenewTime == nil {
		return "", fmt.Sprintf("no replica leads: Lease %s has no holder", key), nil
	}
	pod, _, _ = strings.Cut(holder, "_")
	ended := lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	switch {
	case o.Now().After(ended):
		return "", fmt.Sprintf("no replica leads: Lease %s of %s ended %s ago", key, pod, Age(o.Now(), ended)), nil
	case len(validation.IsDNS1123Subdomain(pod)) > 0:
		// The name becomes a part of the path of a request that is made with the user's rights.
		return "", fmt.Sprintf("Lease %s is held by %q, which is no Pod", key, pod), nil
	}
	return pod, "", nil
}

// needsDrover is an error about what Drover has still to do.
type needsDrover struct{ error }

func (n needsDrover) Unwrap() error { return n.error }

// NeedsDrover marks an error as one about what Drover has still to do.
func NeedsDrover(err error) error { return needsDrover{err} }

// leaderTimeout is how long a command that has failed looks for the leader.
const leaderTimeout = 5 * time.Second

// NoLeader says why Drover does not do what an error is about: no replica leads. It is empty for other errors, and where that is unknown.
func (o *Options) NoLeader(ctx context.Context, err error) string {
	if !errors.As(err, &needsDrover{}) {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, leaderTimeout)
	defer cancel()
	c, err := o.Connect()
	if err != nil {
		return ""
	}
	_, none, err := o.Leader(ctx, c)
	if err != nil || none == "" {
		return ""
	}
	return none + "; Drover changes nothing now, unless it runs in another namespace (kubectl drover check --drover-namespace)"
}
