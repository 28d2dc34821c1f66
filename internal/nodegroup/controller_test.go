package nodegroup

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
)

// TestWait: a group of many Nodes is left alone for long after it was reconciled, but not when a user changes it.
func TestWait(t *testing.T) {
	scheme := apitest.Scheme(t, v1alpha1.AddToScheme)
	edit := func(group *v1alpha1.NodeGroup) { group.Generation++ }
	resume := func(group *v1alpha1.NodeGroup) { group.Annotations = map[string]string{"a": "b"} }
	now, key := time.Unix(1_700_000_000, 0), types.NamespacedName{Name: "workers"}
	for name, c := range map[string]struct {
		change func(*v1alpha1.NodeGroup)
		// unwritten reports that the last reconciliation has not written the status.
		unwritten bool
		after     time.Duration
		want      time.Duration
	}{
		"unchanged":              {after: time.Second, want: 4 * time.Second},
		"over":                   {after: 5 * time.Second},
		"another spec":           {change: edit, after: 400 * time.Millisecond, want: 600 * time.Millisecond},
		"another spec, later":    {change: edit, after: 2 * time.Second},
		"another spec, at rest":  {change: edit, unwritten: true, after: 400 * time.Millisecond},
		"a user resumes it":      {change: resume, after: 2 * time.Second},
		"a user resumes it soon": {change: resume, unwritten: true, after: 400 * time.Millisecond, want: 600 * time.Millisecond},
		"the clock was set back": {after: -time.Hour},
		"gone":                   {change: func(group *v1alpha1.NodeGroup) { group.Name = "others" }, after: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: key.Name, Generation: 1}}
			if c.change != nil {
				c.change(group)
			}
			r := NewReconciler(Dependencies{Cache: fake.NewClientBuilder().WithScheme(scheme).WithObjects(group).Build()}, Options{})
			state := r.states.Get(key, "uid")
			state.reconciled, state.interval, state.generation = now, controller.MaxInterval, 1
			if !c.unwritten {
				state.written = now
			}
			if got, err := r.wait(t.Context(), key, now.Add(c.after)); got != c.want || err != nil {
				t.Errorf("wait %s, want %s: %v", got, c.want, err)
			}
		})
	}
}
