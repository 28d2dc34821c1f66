package cmdutil

import (
	"context"
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
	err = c.Get(ctx, client.ObjectKey{Namespace: o.DroverNamespace, Name: leaseName}, lease)
	if client.IgnoreNotFound(err) != nil {
		return "", "", err
	}
	name := o.DroverNamespace + "/" + leaseName
	holder := ptr.Deref(lease.Spec.HolderIdentity, "")
	if err != nil || holder == "" || lease.Spec.RenewTime == nil {
		return "", fmt.Sprintf("no replica leads: Lease %s has no holder", name), nil
	}
	pod, _, _ = strings.Cut(holder, "_")
	ended := lease.Spec.RenewTime.Add(time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second)
	switch {
	case o.Now().After(ended):
		return "", fmt.Sprintf("no replica leads: Lease %s of %s ended %s ago", name, pod, Age(o.Now(), ended)), nil
	case len(validation.IsDNS1123Subdomain(pod)) > 0:
		// The name becomes a part of the path of a request that is made with the user's rights.
		return "", fmt.Sprintf("Lease %s is held by %q, which is no Pod", name, pod), nil
	}
	return pod, "", nil
}
