// Package paused says which objects a user has paused. Every capability asks it, so that an annotation means the same to all of them.
package paused

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// Annotation pauses what Drover does for the object that carries it. With the value "false" it does not; any other value counts, also an
	// empty one, so that a typing error stops Drover instead of letting it go on.
	Annotation = "drover.dev/paused"
	// ClusterAPIAnnotation is the annotation of Cluster API and the Machine API. It pauses whatever its value is
	// (annotations.HasPaused of sigs.k8s.io/cluster-api/util).
	ClusterAPIAnnotation = "cluster.x-k8s.io/paused"
)

// Is reports whether Annotation pauses an object with these annotations.
func Is(annotations map[string]string) bool {
	value, there := annotations[Annotation]
	return there && value != "false"
}

// By returns the annotation that pauses an object of a kind that Cluster API's annotation pauses, too; empty for none.
func By(object metav1.Object) string {
	annotations := object.GetAnnotations()
	if Is(annotations) {
		return Annotation
	}
	if _, there := annotations[ClusterAPIAnnotation]; there {
		return ClusterAPIAnnotation
	}
	return ""
}
