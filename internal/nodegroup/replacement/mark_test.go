package replacement

import (
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
)

// markedAs has a Machine be marked as the next to be deleted.
func markedAs(value string) func(*machinev1beta1.Machine, *corev1.Node) {
	return func(machine *machinev1beta1.Machine, _ *corev1.Node) {
		machine.Annotations[machineapi.DeleteAnnotation] = value
	}
}

// undone has a Machine match the template again.
func undone(machine *machinev1beta1.Machine) {
	machine.Annotations[machineapi.TemplateHashAnnotation] = machineapi.TemplateOf(newSet(0)).Hash()
}

// edit changes a Machine as another writer would.
func (f *fixture) edit(name string, change func(*machinev1beta1.Machine)) {
	f.Helper()
	apitest.Edit(f.T, f.client, &machinev1beta1.Machine{ObjectMeta: builder.Machine("machines", name).ObjectMeta}, change)
}

// marks returns the marks of a Machine.
func (f *fixture) marks(name string) (replacing bool, next string) {
	f.Helper()
	machine := &machinev1beta1.Machine{}
	if err := f.client.Get(f.Context(), types.NamespacedName{Namespace: "machines", Name: name}, machine); err != nil {
		f.Fatal(err)
	}
	_, replacing = machine.Annotations[machineapi.ReplacingAnnotation]
	return replacing, machine.Annotations[machineapi.DeleteAnnotation]
}

// TestReconcile_DeletionFails: the mark stays for the next attempt, and is removed when the template is undone.
func TestReconcile_DeletionFails(t *testing.T) {
	machines := schema.GroupResource{Group: machinev1beta1.GroupName, Resource: "machines"}
	for name, failure := range map[string]error{
		"timeout": apierrors.NewTimeoutError("no answer", 1), "too many requests": apierrors.NewTooManyRequests("later", 1),
		"an error of the server": apierrors.NewInternalError(errors.New("etcd")),
		"a conflict":             apierrors.NewConflict(machines, "old-a", errors.New("modified")),
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t, append(half(), newGroup())...)
			f.requests.Fail["delete Machine"] = failure
			// Some are errors.
			_, _ = f.reconcile()
			if _, next := f.marks("old-a"); next != machineapi.DeletionMark {
				t.Fatalf("marked as %q", next)
			}
			delete(f.requests.Fail, "delete Machine")
			f.edit("old-a", undone)
			f.edit("old-b", undone)
			f.reconciles("patch Machine/old-a")
			if replacing, next := f.marks("old-a"); replacing || next != "" {
				t.Errorf("replacing %t, marked as %q", replacing, next)
			}
			f.reconciles()
		})
	}
}

// TestReconcile_KilledBeforeDeletion: what a predecessor has marked as the next to be deleted.
func TestReconcile_KilledBeforeDeletion(t *testing.T) {
	const own = machineapi.DeletionMark
	machines := schema.GroupResource{Group: machinev1beta1.GroupName, Resource: "machines"}
	none := func(group *v1alpha1.NodeGroup) { group.Spec.Replacement = nil }
	for name, c := range map[string]struct {
		mark    string
		machine func(*machinev1beta1.Machine)
		group   func(*v1alpha1.NodeGroup)
		denied  bool
		want    []string
		next    string
	}{
		"it goes on":               {mark: own, want: []string{"delete Machine/old-a", "patch Machine/old-b"}, next: own},
		"the template is undone":   {mark: own, machine: undone, want: []string{"patch Machine/old-a"}},
		"a user excludes it":       {mark: own, machine: func(m *machinev1beta1.Machine) { skipped(m, nil) }, want: []string{"patch Machine/old-a"}},
		"the group replaces none":  {mark: own, group: none, want: []string{"patch Machine/old-a"}},
		"the group is held":        {mark: own, machine: undone, group: stopped, want: []string{"patch Machine/old-a"}},
		"the group is suspended":   {mark: own, machine: undone, group: func(group *v1alpha1.NodeGroup) { group.Spec.Suspend = true }, next: own},
		"the deletion is denied":   {mark: own, denied: true, want: []string{"delete Machine/old-a", "patch Machine/old-a"}},
		"a user's, undone":         {mark: "true", machine: undone, want: []string{"patch Machine/old-a"}, next: "true"},
		"a user's, and it goes on": {mark: "true", want: []string{"delete Machine/old-a", "patch Machine/old-b"}, next: "true"},
		"a user's, denied":         {mark: "true", denied: true, want: []string{"delete Machine/old-a"}, next: "true"},
	} {
		t.Run(name, func(t *testing.T) {
			group := newGroup()
			if c.group != nil {
				c.group(group)
			}
			f := newFixture(t, all([]client.Object{newSet(2), group}, newPair("old-a", outdated, replacing, markedAs(c.mark)), newPair("old-b", outdated),
				newPair("new"))...)
			if c.machine != nil {
				f.edit("old-a", c.machine)
			}
			if c.denied {
				f.requests.Fail["delete Machine"] = apierrors.NewForbidden(machines, "old-a", errors.New("a policy"))
			}
			f.reconciles(c.want...)
			if _, next := f.marks("old-a"); next != c.next {
				t.Errorf("marked as %q, want %q", next, c.next)
			}
		})
	}
}

// TestReconcile_MarkWithoutGroup: the mark of a group that is gone is removed, a user's stays.
func TestReconcile_MarkWithoutGroup(t *testing.T) {
	f := newFixture(t, all([]client.Object{newSet(2)}, newPair("own", outdated, markedAs(machineapi.DeletionMark)),
		newPair("users", outdated, markedAs("true")))...)
	f.reconcilesSet("a", "patch Machine/own")
	f.reconcilesSet("a")
}

// stopped has the roll-out of a group's metadata be stopped, so that no Machine is replaced.
func stopped(group *v1alpha1.NodeGroup) {
	group.Status.Rollout = &v1alpha1.RolloutStatus{Stopped: "a Node is not Ready", StopReason: "NodesNotReady"}
}
