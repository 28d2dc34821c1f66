package nodegroup

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/rollout/history"
)

func TestKeepHistory(t *testing.T) {
	scheme := apitest.Scheme(t, appsv1.AddToScheme)
	requests := &apitest.Requests{Fail: map[string]error{}}
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(requests.Interceptors()).Build()
	recorder := record.NewFakeRecorder(10)
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "batch", UID: "uid", Generation: 1}}
	rc := &reconciliation{
		Reconciler: &Reconciler{Dependencies: Dependencies{
			Recorder: recorder, History: &history.Store{Reader: c, Writer: c, Namespace: "drover-system", Owner: FieldOwner},
		}},
		observation: &observation{group: members.Parse(group)}, state: &groupState{}, now: time.Now(),
	}
	const create = "create ControllerRevision"
	declare := func(value string) func() {
		return func() {
			group.Generation++
			group.Spec.Metadata = &v1alpha1.Metadata{Annotations: map[string]v1alpha1.AnnotationValue{"a": v1alpha1.AnnotationValue(value)}}
		}
	}
	denied := apierrors.NewForbidden(appsv1.Resource("controllerrevisions"), "x", nil)
	conflict := apierrors.NewConflict(appsv1.Resource("controllerrevisions"), "x", nil)
	for _, step := range []struct {
		name           string
		change         func()
		writes, events string
		again          time.Duration
	}{
		{"a new group", func() {}, create, "", 0},
		{"at rest", func() {}, "", "", 0},
		{"another generation with the same metadata", func() { group.Generation++ }, "", "", 0},
		{"a change while suspended", func() { group.Spec.Suspend = true; declare("1")() }, "", "", 0},
		{"a change while tried out", func() { group.Spec.Suspend, group.Spec.DryRun = false, true; declare("2")() }, "", "", 0},
		{"rolled out", func() { group.Spec.DryRun = false }, create, "", 0},
		{"too large", declare(strings.Repeat("x", history.MaxData)), "", EventHistoryNotKept, 0},
		{"denied", func() { requests.Fail[create] = denied; declare("3")() }, create, EventHistoryNotKept, controller.RetryDenied},
		{"denied, too early", func() { rc.now = rc.now.Add(time.Second) }, "", "", controller.RetryDenied - time.Second},
		{"denied again", func() { rc.now = rc.now.Add(controller.RetryDenied) }, create, "", controller.RetryDenied},
		{"a conflict", func() {
			rc.now, requests.Fail[create] = rc.now.Add(controller.RetryDenied), conflict
		}, create, "", controller.CatchUp},
		{"allowed", func() { rc.now = rc.now.Add(controller.CatchUp); delete(requests.Fail, create) }, create, "", 0},
		{"being deleted", func() { group.DeletionTimestamp = &metav1.Time{}; declare("4")() }, "", "", 0},
	} {
		step.change()
		requests.Writes = nil
		var requeue controller.Requeue
		rc.keepHistory(t.Context(), &requeue)
		writes, events := strings.Join(requests.Writes, ","), strings.Join(apitest.Reasons(recorder), ",")
		if writes != step.writes || events != step.events || requeue.Delay() != step.again {
			t.Errorf("%s: writes %q, events %q, again in %s", step.name, writes, events, requeue.Delay())
		}
	}
}

// subjects returns what there are revisions of.
func (r *replaced) subjects() string {
	r.Helper()
	var revisions appsv1.ControllerRevisionList
	if err := r.client.List(r.Context(), &revisions); err != nil {
		r.Fatal(err)
	}
	var names []string
	for i := range revisions.Items {
		names = append(names, revisions.Items[i].Annotations[history.AnnotationSubject])
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// TestReconcile_HistoryOfMachineSetsThatAreGone: the history of a MachineSet is deleted after the MachineSet. This includes MachineSets that were
// deleted while Drover did not run.
func TestReconcile_HistoryOfMachineSetsThatAreGone(t *testing.T) {
	group, stays, goes := newReplacing(), newSet(), newSet()
	goes.Name, goes.UID = "goes", "uid-of-goes"
	r := newReplaced(t, group, stays, goes)
	store := &history.Store{Reader: r.client, Writer: r.client, Namespace: "drover-system", Owner: FieldOwner}
	if _, err := store.Keep(t.Context(), history.OfMachineSet(group, "machines", "earlier"), []byte("{}"), "", 5); err != nil {
		t.Fatal(err)
	}
	r.reconciler.History = store
	const remove, all = "delete ControllerRevision", "MachineSet machines/a, MachineSet machines/earlier, MachineSet machines/goes, NodeGroup gpu"
	for _, step := range []struct {
		name   string
		change func() error
		after  time.Duration
		want   string
	}{
		{"the API server fails", func() error { r.requests.Fail[remove] = errors.New("no"); return nil }, 0, all},
		{"later", func() error { delete(r.requests.Fail, remove); return nil }, controller.CatchUp,
			"MachineSet machines/a, MachineSet machines/goes, NodeGroup gpu"},
		{"a MachineSet is deleted", func() error { return r.client.Delete(t.Context(), goes) }, time.Minute, "MachineSet machines/a, NodeGroup gpu"},
		{"at rest", func() error { r.requests.Fail["list ControllerRevisionList"] = errors.New("no"); return nil }, time.Minute, ""},
	} {
		if err := step.change(); err != nil {
			t.Fatal(err)
		}
		_, result, err := r.reconcile(step.after)
		if err != nil {
			t.Fatal(err)
		}
		if step.want == "" {
			if result.RequeueAfter != 0 {
				t.Errorf("%s: the revisions are listed", step.name)
			}
			continue
		}
		if got := r.subjects(); got != step.want {
			t.Errorf("%s: there are revisions of %s, want %s", step.name, got, step.want)
		}
	}
	if known := r.reconciler.states.Peek(client.ObjectKeyFromObject(group)).history.revisions; len(known) != 2 {
		t.Errorf("%d revisions are known", len(known))
	}
}
