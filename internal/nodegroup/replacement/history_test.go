package replacement

import (
	"errors"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodegroup/history"
)

// subjects returns what there are revisions of.
func (f *fixture) subjects() string {
	f.Helper()
	var revisions appsv1.ControllerRevisionList
	if err := f.client.List(f.Context(), &revisions); err != nil {
		f.Fatal(err)
	}
	var names []string
	for i := range revisions.Items {
		names = append(names, strings.TrimPrefix(revisions.Items[i].Annotations[history.AnnotationSubject], "MachineSet "))
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestReconcile_HistoryOfMachineSetsThatAreGone: the history of a MachineSet goes after it, also of one that went while Drover did not run.
func TestReconcile_HistoryOfMachineSetsThatAreGone(t *testing.T) {
	group, stays, goes := newGroup(), newSet(0), newSet(0)
	goes.Name, goes.UID = "goes", "uid-of-goes"
	f := newFixture(t, group, stays, goes)
	store := &history.Store{Reader: f.client, Writer: f.client, Namespace: "drover-system", Owner: FieldOwner}
	if _, err := store.Keep(t.Context(), history.OfMachineSet(group, "machines", "earlier"), []byte("{}"), "", 5); err != nil {
		t.Fatal(err)
	}
	f.replacer.History = store
	const remove = "delete ControllerRevision"
	for _, step := range []struct {
		name   string
		change func() error
		want   string
	}{
		{"the API server fails", func() error { f.requests.Fail[remove] = errors.New("no"); return nil }, "machines/a machines/earlier machines/goes"},
		{"too early", func() error { delete(f.requests.Fail, remove); return nil }, "machines/a machines/earlier machines/goes"},
		{"later", func() error { f.clock.SetTime(start.Add(controller.CatchUp)); return nil }, "machines/a machines/goes"},
		{"a MachineSet is deleted", func() error { return f.client.Delete(t.Context(), goes) }, "machines/a"},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.reconcile(); err != nil {
			t.Fatal(err)
		}
		if got := f.subjects(); got != step.want {
			t.Errorf("%s: there are revisions of %s, want %s", step.name, got, step.want)
		}
	}
	if kept := f.state.history.kept; len(kept) != 1 {
		t.Errorf("%d templates are known", len(kept))
	}
	f.requests.Fail["list ControllerRevisionList"] = errors.New("no")
	if result := f.reconciles(); result.RequeueAfter == controller.CatchUp {
		t.Error("the revisions are listed at rest")
	}
}
