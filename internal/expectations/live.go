package expectations

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// Live reads metadata from the API server itself, in its most recent state. It lists where it could get: a controller may list what it watches,
// and needs no further permission. With a nil *Live no write stands that the cache does not show.
type Live struct {
	// Reader reads from the API server; it must not be a cache.
	Reader client.Reader
	// Scheme knows the kinds that are read.
	Scheme *runtime.Scheme
}

// NewLive returns a reader of metadata that uses the same connection as an uncached reader.
func NewLive(reader client.Reader, scheme *runtime.Scheme) *Live {
	return &Live{Reader: reader, Scheme: scheme}
}

// Each object of an answer may have 256 KiB of annotations, and the API server bounds an answer by the number of its objects alone. The first answer
// has few, the next ones as many as make up pageBytes when they are as large as those of the answer before.
const (
	minPage, maxPage = 10, 100
	pageBytes        = 1 << 20
)

// nextPage returns how many objects to ask for after an answer.
func nextPage(answer []metav1.PartialObjectMetadata) int64 {
	size := 1
	for i := range answer {
		for _, entries := range []map[string]string{answer[i].Annotations, answer[i].Labels} {
			for key, value := range entries {
				size += len(key) + len(value)
			}
		}
		for _, entry := range answer[i].ManagedFields {
			if entry.FieldsV1 != nil {
				size += len(entry.FieldsV1.GetRawBytes())
			}
		}
	}
	return int64(min(max(len(answer)*pageBytes/size, minPage), maxPage))
}

// list calls a function with the metadata of each object of a kind, and returns the version of the list.
func (l *Live) list(
	ctx context.Context, kind client.Object, each func(*metav1.PartialObjectMetadata), options ...client.ListOption,
) (version string, err error) {
	gvk, err := apiutil.GVKForObject(kind, l.Scheme)
	if err != nil {
		return "", fmt.Errorf("finding the kind of %T: %w", kind, err)
	}
	gvk.Kind += "List"
	page, limit := &metav1.PartialObjectMetadataList{}, int64(minPage)
	for {
		next := &metav1.PartialObjectMetadataList{}
		next.SetGroupVersionKind(gvk)
		if err := l.Reader.List(ctx, next, append(options, client.Limit(limit), client.Continue(page.Continue))...); err != nil {
			return "", fmt.Errorf("listing %s: %w", gvk.Kind, err)
		}
		limit = nextPage(next.Items)
		for i := range next.Items {
			each(&next.Items[i])
		}
		if page = next; page.Continue == "" {
			return page.ResourceVersion, nil
		}
	}
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

// stands reports whether a write that made a version of an object is still to reach the cache. It is not when the object is gone, is another
// one, or is older than the write: then etcd was restored from a backup. While the API server does not answer, it is.
func (l *Live) stands(ctx context.Context, object client.Object, version string) bool {
	if l == nil {
		return false
	}
	found, err := l.find(ctx, object, client.ObjectKeyFromObject(object))
	if err != nil {
		log.FromContext(ctx).Error(err, "cannot ask the API server about a write that the cache does not show", "object", object.GetName())
		return true
	}
	return found != nil && found.UID == object.GetUID() && !older(found.ResourceVersion, version)
}

// older reports whether one version comes before another. Versions that cannot be compared are not older.
func older(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order < 0
}

// reached reports whether one version is the other or comes after it. Versions that cannot be compared have not reached each other.
func reached(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err == nil && order >= 0
}
