package upgrade

import (
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// A duration that nobody could read would keep every run of the cluster from being read: the API server refuses it.
func TestDurations(t *testing.T) {
	s := &stage{Site: harness.NewWorld(t, env).Site()}
	const many = "1h1m1s1h1m1s1h1m1s1h1m1s1h1m1s1h1m1s"
	for _, field := range []string{"jobTimeout", "nodeTimeout", "duration"} {
		for value, taken := range map[string]bool{
			"90s": true, "1h30m": true, "1.5h": true, "0s": field != "duration", "1d": false, "": false, "90": false, "-1h": false, "soon": false,
			many: false,
		} {
			spec := map[string]any{
				"canary": map[string]any{"name": "canary"}, "mutexRules": []any{map[string]any{"name": "a"}},
				"mutexTargets": []any{map[string]any{"name": "b"}},
			}
			if field == "duration" {
				spec["windows"] = []any{map[string]any{"schedule": "0 0 * * *", "duration": value}}
			} else {
				spec[field] = value
			}
			run := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
			run.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("MutexRunConfig"))
			run.SetNamespace(s.Name)
			run.SetName("durations")
			err := s.Client.Create(t.Context(), run, client.DryRunAll)
			switch {
			case taken && err != nil:
				t.Errorf("%s %q: %v", field, value, err)
			case taken || value == many && apierrors.IsInvalid(err):
			case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "must be a duration"):
				t.Errorf("%s %q: the answer is %v", field, value, err)
			}
		}
	}
}
