package cli

import (
	"context"
	"maps"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/drover-io/drover/internal/metadata/plan"
)

func TestPauseAnnotations(t *testing.T) {
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
			"not paused, annotation cleared"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, done := (&pauseCommand{pause: c.pause, reason: c.reason}).annotations(c.live)
			if !maps.Equal(got, c.want) || done != c.done {
				t.Errorf("%v %q", got, done)
			}
		})
	}
}

func TestPauseTargets(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"workers", "machineset.machine.openshift.io/workers"},
		{"pool/workers machineset/infra", "machineset.machine.openshift.io/workers machineset.machine.openshift.io/infra"},
		{"node a b", "node/a node/b"},
		{"machines a", "machine.machine.openshift.io/a"},
		{"machine.machine.openshift.io/a no/b", "machine.machine.openshift.io/a node/b"},
		{"node", "machineset.machine.openshift.io/node"},
	} {
		targets, err := (&pauseCommand{}).targets(strings.Fields(c.args))
		var got []string
		for _, target := range targets {
			got = append(got, target.String())
		}
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v %v", c.args, got, err)
		}
	}
}

// TestPauseOfAReplacedObject shows that a Node made anew under the same name is left alone.
func TestPauseOfAReplacedObject(t *testing.T) {
	f := &fakeObjects{}
	f.pool("workers", 1, declare(nil, nil))
	var sent string
	conflict := interceptor.Funcs{Patch: func(
		_ context.Context, _ client.WithWatch, object client.Object, patch client.Patch, _ ...client.PatchOption,
	) error {
		content, err := patch.Data(object)
		if err != nil {
			return err
		}
		sent = string(content)
		return apierrors.NewConflict(schema.GroupResource{Resource: "nodes"}, object.GetName(), nil)
	}}
	cluster := fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper()).WithObjects(f.all...).WithInterceptorFuncs(conflict).Build()
	got := runOn(t, cluster, "", "pause", "node/workers-0")
	if got.code != exitError || !strings.Contains(got.errors, "was made anew in the meantime") {
		t.Errorf("%+v", got)
	}
	if want := `{"metadata":{"annotations":{"drover.dev/paused":"true"},"uid":"node-workers-0"}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}
