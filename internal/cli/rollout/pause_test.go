package rollout

import (
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/metadata/plan"
)

func TestDecide_Annotations(t *testing.T) {
	const paused, because = plan.AnnotationPaused, plan.AnnotationPausedReason
	for _, c := range []struct {
		name   string
		pause  bool
		reason string
		live   map[string]string
		want   map[string]any
		done   string
	}{
		{"pause", true, "", nil, map[string]any{paused: "true"}, "paused"},
		{"pause with a reason", true, "x", nil, map[string]any{paused: "true", because: "x"}, "paused"},
		{"pause what is paused", true, "", map[string]string{paused: "true", because: "x"}, nil, "already paused"},
		{"pause what is paused for the same reason", true, "x", map[string]string{paused: "true", because: "x"}, nil, "already paused"},
		{"give another reason", true, "y", map[string]string{paused: "true", because: "x"}, map[string]any{paused: "true", because: "y"},
			"already paused, reason changed"},
		{"pause where a typo pauses", true, "", map[string]string{paused: "yes"}, nil, "already paused"},
		{"pause after an old reason", true, "", map[string]string{because: "x"}, map[string]any{paused: "true", because: nil}, "paused"},
		{"pause where it says false", true, "", map[string]string{paused: "false"}, map[string]any{paused: "true"}, "paused"},
		{"resume", false, "", map[string]string{paused: "true"}, map[string]any{paused: nil, because: nil}, "resumed"},
		{"resume what is not paused", false, "", map[string]string{"other": "x"}, nil, "not paused"},
		{"resume where it says false", false, "", map[string]string{paused: "false"}, map[string]any{paused: nil, because: nil},
			"not paused, annotation removed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Annotations: c.live}}
			fields, done := decideResume(node, nil, time.Time{})
			if c.pause {
				fields, done = decidePause(node, c.reason)
			}
			var want map[string]any
			if c.want != nil {
				want = withAnnotations(c.want)
			}
			if !reflect.DeepEqual(fields, want) || done != c.done {
				t.Errorf("%v %q", fields, done)
			}
		})
	}
}
