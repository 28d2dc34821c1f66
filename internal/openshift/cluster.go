// Package openshift is what Drover does on OpenShift alone when it makes the Machines there: it takes the cluster's name from the
// Infrastructure object, and says in the ClusterOperator how it is, where the machine-api-operator did both.
package openshift

import (
	"context"
	"fmt"

	configv1 "github.com/openshift/api/config/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// infrastructure is the name of the one Infrastructure object.
const infrastructure = "cluster"

// ClusterName reads the name of the cluster from the Infrastructure object; empty on a cluster that has none.
func ClusterName(ctx context.Context, live client.Reader) (string, error) {
	object := &configv1.Infrastructure{}
	err := live.Get(ctx, types.NamespacedName{Name: infrastructure}, object)
	if absent(err) {
		return "", nil
	}
	if apierrors.IsForbidden(err) {
		return "", fmt.Errorf("%w; without it new Machines get no label with the cluster's name; config/machines has the permission", err)
	}
	if err != nil {
		return "", fmt.Errorf("reading the Infrastructure object: %w", err)
	}
	return object.Status.InfrastructureName, nil
}

// absent reports whether an object, or its kind, is not there.
func absent(err error) bool { return apierrors.IsNotFound(err) || meta.IsNoMatchError(err) }
