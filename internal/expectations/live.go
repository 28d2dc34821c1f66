package expectations

import (
	"context"
	"fmt"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Live reads metadata from the API server, in its most recent state. It lists single objects, too: a controller may list what it watches, and needs
// no further permission. A nil *Live reports no write.
type Live struct {
	// Reader reads from the API server; it must not be a cache.
	Reader client.Reader
	// Scheme has the kinds that are read.
	Scheme *runtime.Scheme
}

// NewLive returns a reader of metadata that uses the same connection as an uncached reader.
func NewLive(reader client.Reader, scheme *runtime.Scheme) *Live {
	return &Live{Reader: reader, Scheme: scheme}
}

// Each object may have 256 KiB of annotations, and the API server bounds a page only by its number of objects. The first page has minPage objects.
// Each next page has as many objects as add up to pageBytes if they are as large as the objects of the page before, and at most maxPage. A page of
// Nodes, or of the Machines of one namespace, has maxTrustedPage objects: there are many of them, and no tenant creates them.
const (
	minPage, maxPage, maxTrustedPage = 10, 100, 500
	pageBytes                        = 1 << 20
)

// largestPage returns how many objects of a kind a page may have.
func largestPage(kind client.Object, options []client.ListOption) int {
	switch kind.(type) {
	case *corev1.Node:
		return maxTrustedPage
	case *machinev1beta1.Machine:
		if new(client.ListOptions).ApplyOptions(options).Namespace != "" {
			return maxTrustedPage
		}
	}
	return maxPage
}

// nextPage returns how many objects to request after a page.
func nextPage(page []metav1.PartialObjectMetadata, largest int) int64 {
	size := 1
	for i := range page {
		for _, entries := range []map[string]string{page[i].Annotations, page[i].Labels} {
			for key, value := range entries {
				size += len(key) + len(value)
			}
		}
		for _, entry := range page[i].ManagedFields {
			if entry.FieldsV1 != nil {
				size += len(entry.FieldsV1.GetRawBytes())
			}
		}
	}
	return int64(min(max(len(page)*pageBytes/size, minPage), largest))
}

// emptyList returns a list of the metadata of a kind.
func (l *Live) emptyList(kind client.Object) (*metav1.PartialObjectMetadataList, error) {
	gvk, err := apiutil.GVKForObject(kind, l.Scheme)
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %T: %w", kind, err)
	}
	gvk.Kind += "List"
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(gvk)
	return list, nil
}

// list calls a function with the metadata of each object of a kind, and returns the resourceVersion of the list.
func (l *Live) list(
	ctx context.Context, kind client.Object, each func(*metav1.PartialObjectMetadata), options ...client.ListOption,
) (version string, err error) {
	limit, from := int64(minPage), ""
	for {
		page, err := l.page(ctx, kind, limit, from, options...)
		if err != nil {
			return "", err
		}
		limit = nextPage(page.Items, largestPage(kind, options))
		for i := range page.Items {
			each(&page.Items[i])
		}
		if from = page.Continue; from == "" {
			return page.ResourceVersion, nil
		}
	}
}

// page returns the metadata of some objects of a kind, from the end of another page on; from the first object if that is empty.
func (l *Live) page(
	ctx context.Context, kind client.Object, limit int64, from string, options ...client.ListOption,
) (*metav1.PartialObjectMetadataList, error) {
	page, err := l.emptyList(kind)
	if err != nil {
		return nil, err
	}
	if err := l.Reader.List(ctx, page, append(options, client.Limit(limit), client.Continue(from))...); err != nil {
		return nil, fmt.Errorf("listing %s: %w", page.Kind, err)
	}
	return page, nil
}

// find returns the metadata of one object; nil when there is none of that name.
func (l *Live) find(ctx context.Context, kind client.Object, key types.NamespacedName) (found *metav1.PartialObjectMetadata, err error) {
	options := []client.ListOption{client.MatchingFields{"metadata.name": key.Name}}
	if key.Namespace != "" {
		options = append(options, client.InNamespace(key.Namespace))
	}
	_, err = l.list(ctx, kind, func(object *metav1.PartialObjectMetadata) { found = object }, options...)
	return found, err
}

// has reports whether the API server has the write that created a version of an object. It has not when the object is gone, has another UID, or is
// older than the write, because etcd was restored from a backup. While the API server does not answer, it is assumed to have it.
func (l *Live) has(ctx context.Context, object client.Object, version string) bool {
	if l == nil {
		return false
	}
	found, err := l.find(ctx, object, client.ObjectKeyFromObject(object))
	if err != nil {
		log.FromContext(ctx).Error(err, "reading from the API server what the cache does not show", "object", object.GetName())
		return true
	}
	return found != nil && found.UID == object.GetUID() && !Older(found.ResourceVersion, version)
}

// Older reports whether one resourceVersion comes before another of the same kind. Versions that cannot be compared are not older.
func Older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// reached reports whether one version is the other or comes after it. Versions that cannot be compared have not reached each other.
func reached(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}
