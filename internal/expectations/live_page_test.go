package expectations

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		if got := nextPage(c.answer); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
