package expectations

import (
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestNextPage(t *testing.T) {
	answer := func(count, bytes int) []metav1.PartialObjectMetadata {
		items := make([]metav1.PartialObjectMetadata, count)
		for i := range items {
			items[i].Annotations = map[string]string{"a": strings.Repeat("x", bytes)}
		}
		return items
	}
	managed := metav1.PartialObjectMetadata{}
	managed.ManagedFields = []metav1.ManagedFieldsEntry{{}, {FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", pageBytes))}}
	for name, c := range map[string]struct {
		answer []metav1.PartialObjectMetadata
		want   int64
	}{
		"no objects":                {nil, minPage},
		"small objects":             {answer(10, 100), maxPage},
		"objects of 20 KB":          {answer(10, 20<<10), 51},
		"the largest objects":       {answer(100, 256<<10), minPage},
		"large only in their lists": {[]metav1.PartialObjectMetadata{managed}, minPage},
	} {
		if got := nextPage(c.answer, maxPage); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
	// No tenant creates Nodes and Machines.
	within := []client.ListOption{client.InNamespace("machines")}
	for name, c := range map[string]struct {
		kind    client.Object
		options []client.ListOption
		want    int
	}{
		"Nodes":                     {&corev1.Node{}, nil, maxTrustedPage},
		"Machines of one namespace": {&machinev1beta1.Machine{}, within, maxTrustedPage},
		"Machines of all":           {&machinev1beta1.Machine{}, nil, maxPage},
		"Pods":                      {&corev1.Pod{}, within, maxPage},
	} {
		if got := largestPage(c.kind, c.options); got != c.want {
			t.Errorf("%s: up to %d, want %d", name, got, c.want)
		}
	}
	// Nor are many objects of tenants listed one after the other.
	var barrier LeaderBarrier
	if nodes, pods := barrier.few(&corev1.Node{}), barrier.few(&corev1.Pod{}); nodes != fewTrusted || pods != fewObjects {
		t.Errorf("up to %d Nodes and %d Pods are listed", nodes, pods)
	}
}
