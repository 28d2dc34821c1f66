package expectations

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Find returns the metadata of an object in the most recent state of the API server; nil if there is none, or if its kind is not served. live reads
// from the API server and is no cache. Find lists: that needs no permission that a watch does not, and takes any name.
func Find(ctx context.Context, live client.Reader, kind schema.GroupVersionKind, key types.NamespacedName) (*metav1.PartialObjectMetadata, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := live.List(ctx, list, client.InNamespace(key.Namespace), client.MatchingFields{metav1.ObjectNameField: key.Name})
	switch {
	case apierrors.IsNotFound(err), meta.IsNoMatchError(err), err == nil && len(list.Items) == 0:
		return nil, nil // its CRD may be gone
	case err != nil:
		return nil, fmt.Errorf("looking for %s %s: %w", kind.Kind, strings.TrimPrefix(key.String(), "/"), err)
	}
	return &list.Items[0], nil
}
