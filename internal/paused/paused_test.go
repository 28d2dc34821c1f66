package paused

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestBy(t *testing.T) {
	for name, test := range map[string]struct {
		annotations map[string]string
		want        string
	}{
		"no annotation":              {nil, ""},
		"true":                       {map[string]string{Annotation: "true"}, Annotation},
		"empty":                      {map[string]string{Annotation: ""}, Annotation},
		"typing error":               {map[string]string{Annotation: "False"}, Annotation},
		"false":                      {map[string]string{Annotation: "false"}, ""},
		"Cluster API's":              {map[string]string{ClusterAPIAnnotation: ""}, ClusterAPIAnnotation},
		"Cluster API's false":        {map[string]string{ClusterAPIAnnotation: "false"}, ClusterAPIAnnotation},
		"false beside Cluster API's": {map[string]string{Annotation: "false", ClusterAPIAnnotation: "true"}, ClusterAPIAnnotation},
	} {
		t.Run(name, func(t *testing.T) {
			if got := By(&metav1.ObjectMeta{Annotations: test.annotations}); got != test.want {
				t.Errorf("paused by %q, want %q", got, test.want)
			}
			if got := Is(test.annotations); got != (test.want == Annotation) {
				t.Errorf("Is reports %v", got)
			}
		})
	}
}
