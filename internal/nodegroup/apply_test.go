package nodegroup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// TestHasEnded: the event says once that a roll-out has ended, not when a Node joins or is repaired later.
func TestHasEnded(t *testing.T) {
	running, ended := &v1alpha1.RolloutStatus{Revision: "a"}, &v1alpha1.RolloutStatus{Revision: "a", EndTime: &metav1.Time{}}
	for name, test := range map[string]struct {
		before, after *v1alpha1.RolloutStatus
		want          bool
	}{
		"it begins":                 {nil, running, false},
		"it goes on":                {running, running, false},
		"it ends":                   {running, ended, true},
		"it has ended before":       {ended, ended, false},
		"there is nothing to write": {nil, ended, false},
		"another revision":          {&v1alpha1.RolloutStatus{Revision: "b"}, ended, false},
	} {
		if got := hasEnded(test.before, test.after); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
