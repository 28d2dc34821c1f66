package controller

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// GuardedPatch returns a merge patch with the changes of an object since it was observed. It fails with a conflict if the object has changed
// meanwhile.
func GuardedPatch(observed client.Object) client.Patch {
	return client.MergeFromWithOptions(observed, client.MergeFromWithOptimisticLock{})
}

// PatchCordon applies a JSON Patch, which has its guards in it, to a Node, and returns the new resourceVersion. Of the answer only the metadata is
// read.
func PatchCordon(ctx context.Context, writer client.Client, name string, patch []byte, owner client.FieldOwner) (version string, err error) {
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
	target.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	err = writer.Patch(ctx, target, client.RawPatch(types.JSONPatchType, patch), owner)
	return target.ResourceVersion, err
}
