package healthcheck

import (
	"context"
	"errors"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/healthcheck/plan"
)

// Requests lists the remediation requests of the templates that MachineHealthChecks name, from the API server.
type Requests struct {
	// Cache has MachineHealthChecks and Machines; Live reads any kind from the API server, and Client knows any kind.
	Cache, Live client.Reader
	Client      client.Client
	// Kinds are those of the templates that may be used; without any, nothing is read.
	Kinds []string
}

// List returns the Machines of a namespace for which there is a request; an empty one is all namespaces. A kind that cannot be listed until a user
// changes something has none: its MachineHealthCheck says so, and creates none either.
func (r *Requests) List(ctx context.Context, namespace string) (found []disruptionplan.Requested, err error) {
	if len(r.Kinds) == 0 {
		return nil, nil
	}
	var checks machinev1beta1.MachineHealthCheckList
	if err := r.Cache.List(ctx, &checks, client.InNamespace(namespace)); err != nil {
		return nil, fmt.Errorf("listing MachineHealthChecks: %w", err)
	}
	type source struct {
		kind      schema.GroupVersionKind
		namespace string
	}
	listed := map[source]bool{}
	for i := range checks.Items {
		reference := checks.Items[i].Spec.RemediationTemplate
		if reference == nil {
			continue
		}
		kind, failure := plan.RequestKind(reference, r.Kinds)
		of := source{kind, checks.Items[i].Namespace}
		if failure.Reason != "" || listed[of] {
			continue
		}
		listed[of] = true
		requests, err := r.listKind(ctx, kind, of.namespace)
		switch {
		case errors.Is(err, errClusterScoped), isUnavailable(err):
			continue
		case err != nil:
			return nil, fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
		}
		for j := range requests.Items {
			if found, err = r.add(ctx, found, &requests.Items[j], reference.GroupVersionKind().GroupKind()); err != nil {
				return nil, err
			}
		}
	}
	return found, nil
}

// add adds the Machine that a request was created for.
func (r *Requests) add(
	ctx context.Context, found []disruptionplan.Requested, request *metav1.PartialObjectMetadata, template schema.GroupKind,
) ([]disruptionplan.Requested, error) {
	machine, key := &machinev1beta1.Machine{}, client.ObjectKeyFromObject(request)
	err := r.Cache.Get(ctx, key, machine)
	if client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading Machine %s: %w", key, err)
	}
	if err == nil && plan.IsRequestFor(request, machine, template) {
		of := disruptionplan.Requested{Machine: key, UID: machine.UID, Since: request.CreationTimestamp.Time}
		if ref := machine.Status.NodeRef; ref != nil {
			of.Node, of.NodeUID = ref.Name, ref.UID
		}
		found = append(found, of)
	}
	return found, nil
}

// errClusterScoped is returned for requests of a kind that is not namespaced: a list would be of all objects of the cluster.
var errClusterScoped = errors.New("the kind is not namespaced")

// listKind lists the remediation requests of a kind in a namespace.
func (r *Requests) listKind(ctx context.Context, kind schema.GroupVersionKind, namespace string) (*metav1.PartialObjectMetadataList, error) {
	request := &metav1.PartialObjectMetadata{}
	request.SetGroupVersionKind(kind)
	namespaced, err := r.Client.IsObjectNamespaced(request)
	switch {
	case err != nil:
		return nil, err
	case !namespaced:
		return nil, errClusterScoped
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	return list, r.Live.List(ctx, list, client.InNamespace(namespace))
}

// isUnavailable reports whether an object cannot be read until a user changes something: it, its kind, or the permission is missing.
func isUnavailable(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) || apierrors.IsForbidden(err)
}
