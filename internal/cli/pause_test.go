package cli

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// TestPause_ObjectCreatedAgain shows that a Node created again under the same name does not change.
func TestPause_ObjectCreatedAgain(t *testing.T) {
	f := &fakeCluster{}
	f.machineSet("workers", 1, declare(nil, nil))
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
	got := runOn(t, cluster(conflict, f.all...), "", "pause", "node/workers-0")
	if got.code != exitError || !strings.Contains(got.errors, "was created again in the meantime") {
		t.Errorf("%+v", got)
	}
	if want := `{"metadata":{"annotations":{"drover.dev/paused":"true"},"uid":"node-workers-0"}}`; sent != want {
		t.Errorf("sent %s, want %s", sent, want)
	}
}

// TestPause_NodeGroup: pause and resume also take NodeGroups. Pausing what is paused changes nothing.
func TestPause_NodeGroup(t *testing.T) {
	f := &fakeCluster{}
	f.group("batch", "blue", nil)
	on := f.client()
	for _, step := range []struct{ args, want string }{
		{"pause nodegroup/batch", "nodegroup.drover.dev/batch paused\n"},
		{"pause ng batch", "nodegroup.drover.dev/batch already paused\n"},
		{"resume ng/batch -o name", "nodegroup.drover.dev/batch\n"},
		{"resume ng/batch", "nodegroup.drover.dev/batch not paused\n"},
	} {
		if got := runOn(t, on, "", strings.Fields(step.args)...); got.code != exitOK || got.out != step.want {
			t.Errorf("%s: %+v", step.args, got)
		}
	}
}
