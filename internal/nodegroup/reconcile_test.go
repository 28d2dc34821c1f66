package nodegroup

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/internal/nodegroup/replacement"
	"github.com/drover-io/drover/internal/rollout/gate"
)

// replaced is a NodeGroup that replaces the Machines of a MachineSet, on an API server in memory.
type replaced struct {
	*testing.T

	requests   apitest.Requests
	client     client.Client
	clock      *clocktesting.FakePassiveClock
	replacer   *replacement.Replacer
	reconciler *Reconciler
}

// newReplacing returns a group that replaces Machines.
func newReplacing() *v1alpha1.NodeGroup {
	return builder.NodeGroup("gpu", func(group *v1alpha1.NodeGroup) {
		group.Generation, group.Finalizers = 1, []string{v1alpha1.Finalizer}
		group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "machines"}
		group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	})
}

// newSet returns the MachineSet.
func newSet() *machinev1beta1.MachineSet {
	return builder.MachineSet("machines", "a", 2, builder.WithSelector(map[string]string{"set": "a"}))
}

// newOutdated returns an outdated Machine and its Node, which is Ready.
func newOutdated(name string, options ...func(*machinev1beta1.Machine)) []client.Object {
	machine := builder.Machine("machines", name, builder.WithOwner(newSet()), builder.WithNode(name), func(machine *machinev1beta1.Machine) {
		machine.Annotations[machineapi.TemplateHashAnnotation] = "v1:old"
	})
	for _, option := range options {
		option(machine)
	}
	return []client.Object{machine, builder.Node(name, builder.WithReadySince(corev1.ConditionTrue, start.Add(-time.Hour)))}
}

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newReplaced(t *testing.T, objects ...client.Object) *replaced {
	t.Helper()
	r := &replaced{T: t, requests: apitest.Requests{Names: true, Fail: map[string]error{}}, clock: clocktesting.NewFakePassiveClock(start)}
	scheme := apitest.Scheme(t, clientgoscheme.AddToScheme, machinev1beta1.Install, v1alpha1.AddToScheme)
	inMemory := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeGroup{}).
		WithInterceptorFuncs(r.requests.Interceptors())
	indexer := apitest.Indexer{Builder: inMemory}
	metrics, err := NewMetrics(prometheus.NewRegistry())
	deletes, deletesErr := replacement.NewMetrics(prometheus.NewRegistry())
	if err := errors.Join(lookup.Index(t.Context(), indexer), lookup.IndexOwners(t.Context(), indexer), err, deletesErr); err != nil {
		t.Fatal(err)
	}
	r.client = inMemory.Build()
	recorder, yes := record.NewFakeRecorder(100), func() bool { return true }
	r.replacer = replacement.New(replacement.Dependencies{
		Cache: r.client, Writer: r.client, Recorder: recorder, Metrics: deletes, Clock: r.clock,
		Creates: yes, Others: func() bool { return false },
	})
	r.reconciler = NewReconciler(Dependencies{
		Cache: r.client, Writer: r.client, Recorder: recorder, Metrics: metrics, Finder: members.NewFinder(r.client, yes),
		Gate: &gate.Gate{}, Clock: r.clock, Replacer: r.replacer,
	}, Options{Machines: yes})
	return r
}

// reconcile reconciles the group after some time and returns the writes.
func (r *replaced) reconcile(after time.Duration) (writes string, result reconcile.Result, err error) {
	r.clock.SetTime(r.clock.Now().Add(after))
	r.requests.Writes = nil
	result, err = r.reconciler.Reconcile(r.Context(), reconcile.Request{NamespacedName: types.NamespacedName{Name: "gpu"}})
	return strings.Join(r.requests.Writes, ", "), result, err
}

// status returns the status of the group.
func (r *replaced) status() *v1alpha1.NodeGroupStatus {
	r.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := r.client.Get(r.Context(), types.NamespacedName{Name: "gpu"}, group); err != nil {
		r.Fatal(err)
	}
	return &group.Status
}

// TestReconcile_StatusOfReplacement: the status says what the same reconciliation has found about Machines, and is written as often as otherwise.
func TestReconcile_StatusOfReplacement(t *testing.T) {
	r := newReplaced(t, slices.Concat([]client.Object{newReplacing(), newSet()}, newOutdated("m1"), newOutdated("m2"))...)
	exclude := func() {
		apitest.Edit(t, r.client, builder.Machine("machines", "m1"), func(machine *machinev1beta1.Machine) {
			machine.Annotations[machineapi.SkipReplacementAnnotation] = ""
		})
	}
	for _, step := range []struct {
		name         string
		change       func()
		after, again time.Duration
		writes       string
	}{
		{"the first is marked", func() {}, 0, 0, "patch Machine/m1, status NodeGroup/gpu"},
		{"at rest", func() {}, time.Minute, 0, ""},
		{"an event comes soon", exclude, minReplacingInterval / 2, minReplacingInterval / 2, ""},
		{"another one is marked", func() {}, minReplacingInterval / 2, 0, "patch Machine/m1, patch Machine/m2"},
		{"a template is undone", func() { _ = r.client.Delete(t.Context(), builder.Machine("machines", "m2")) }, time.Second, 0, "status NodeGroup/gpu"},
	} {
		step.change()
		writes, result, err := r.reconcile(step.after)
		if writes != step.writes || result.RequeueAfter != step.again || err != nil {
			t.Errorf("%s: %q, again in %s: %v", step.name, writes, result.RequeueAfter, err)
		}
	}
	progressing := meta.FindStatusCondition(r.status().Conditions, v1alpha1.ConditionProgressing)
	if r.status().Outdated != 1 || progressing == nil || progressing.Reason != plan.ReasonComplete {
		t.Errorf("%+v", r.status())
	}
}

// TestReconcile_OnePartFails: the replacement of Machines and the roll-out of metadata do not wait for each other.
func TestReconcile_OnePartFails(t *testing.T) {
	group := newReplacing()
	group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"a": "b"}}
	r := newReplaced(t, slices.Concat([]client.Object{group, newSet()}, newOutdated("m1"))...)
	r.requests.Fail["patch Machine"] = errors.New("no answer")
	if writes, _, err := r.reconcile(0); writes != "patch Machine/m1, status NodeGroup/gpu" || err == nil || r.status().Rollout == nil {
		t.Errorf("the replacement fails: %s: %v", writes, err)
	}
	delete(r.requests.Fail, "patch Machine")
	r.requests.Fail["status NodeGroup"] = errors.New("no answer")
	apitest.Edit(t, r.client, newReplacing(), func(group *v1alpha1.NodeGroup) { group.Spec.Metadata, group.Generation = nil, 2 })
	if writes, _, err := r.reconcile(time.Minute); writes != "patch Machine/m1, status NodeGroup/gpu" || err == nil {
		t.Errorf("the status fails: %s: %v", writes, err)
	}
	r.replacer.Creates = func() bool { return false }
	if writes, result, err := r.reconcile(0); writes != "status NodeGroup/gpu" || err == nil || result.RequeueAfter == 0 {
		t.Errorf("the status fails, and the replacement waits for %s: %s: %v", result.RequeueAfter, writes, err)
	}
}

// TestReconcile_SetWithoutGroup: marks of a group that is gone are removed.
func TestReconcile_SetWithoutGroup(t *testing.T) {
	r := newReplaced(t, slices.Concat([]client.Object{newSet()}, newOutdated("m1", replacing))...)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(newSet())}
	if _, err := r.reconciler.Reconcile(t.Context(), request); err != nil || strings.Join(r.requests.Writes, ", ") != "patch Machine/m1" {
		t.Errorf("%v: %v", r.requests.Writes, err)
	}
}

func unmarked(*machinev1beta1.Machine) {}

func replacing(machine *machinev1beta1.Machine) {
	machine.Annotations[machineapi.ReplacingAnnotation] = "true"
}

// markedAs has a Machine be marked as the next to be deleted.
func markedAs(value string) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) { machine.Annotations[machineapi.DeleteAnnotation] = value }
}

// TestMachineToRequests: an event of a Machine that no group replaces, and that has none of Drover's marks, causes no reconciliation. One of them
// reads all Machines of a MachineSet.
func TestMachineToRequests(t *testing.T) {
	for name, c := range map[string]struct {
		groups  []client.Object
		machine func(*machinev1beta1.Machine)
		want    string
	}{
		"its MachineSet has a group": {groups: []client.Object{newReplacing()}, machine: unmarked, want: "[/gpu]"},
		"no group":                   {machine: unmarked, want: "[]"},
		"no group any more, it is marked as the next to be deleted": {machine: markedAs(machineapi.DeletionMark), want: "[machines/a]"},
		"no group any more, it is marked as being replaced":         {machine: replacing, want: "[machines/a]"},
		"no group, a user has marked it":                            {machine: markedAs("true"), want: "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			machine := builder.Machine("machines", "m1", builder.WithOwner(newSet()), c.machine)
			r := newReplaced(t, append(c.groups, newSet())...)
			if got := fmt.Sprint(r.reconciler.machineToRequests(t.Context(), machine)); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			r.reconciler.Replacer = nil
			if got := r.reconciler.machineToRequests(t.Context(), machine); got != nil {
				t.Errorf("where Drover replaces none: %v", got)
			}
		})
	}
}
