package replacement

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/undecodable"
)

// half is a MachineSet of two outdated Machines. One of them is being replaced, and the new Machine exists.
func half(options ...func(*machinev1beta1.Machine, *corev1.Node)) []client.Object {
	return all([]client.Object{newSet(2)}, newPair("old-a", outdated, replacing), newPair("old-b", outdated), newPair("new", options...))
}

// withLabel has a group declare a label, whose roll-out has begun at a time.
func withLabel(begun time.Time) func(*v1alpha1.NodeGroup) {
	return func(group *v1alpha1.NodeGroup) {
		group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"a": "b"}}
		group.Status.Rollout = &v1alpha1.RolloutStatus{StartTime: new(metav1.NewTime(begun))}
	}
}

// failed has a Machine fail before it has had a Node.
func failed(machine *machinev1beta1.Machine, _ *corev1.Node) {
	machine.Status.NodeRef, machine.Status.Phase = nil, new(machinev1beta1.PhaseFailed)
	machine.Status.ErrorReason = new(machinev1beta1.CreateMachineError)
}

// resumed has a user resume the replacement.
func resumed(group *v1alpha1.NodeGroup) {
	group.Annotations = map[string]string{v1alpha1.AnnotationResume: start.Format(time.RFC3339)}
}

func TestReconcile_Replaces(t *testing.T) {
	for name, c := range map[string]struct {
		objects []client.Object
		want    []string
	}{
		"nothing is outdated": {all([]client.Object{newGroup(), newSet(1)}, newPair("new")), nil},
		"the first is marked": {
			all([]client.Object{newGroup(), newSet(2)}, newPair("a", outdated), newPair("b", outdated)), []string{"patch Machine/a"},
		},
		"the new one is available": {append(half(), newGroup()), []string{"patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-b"}},
		"the new one is joining":   {append(half(joining), newGroup()), nil},
		"the first is skipped": {
			all([]client.Object{newGroup(), newSet(2)}, newPair("a", outdated, skipped), newPair("b", outdated)), []string{"patch Machine/b"},
		},
		"a Node of the control plane": {
			all([]client.Object{newGroup(), newSet(2)}, newPair("a", outdated, controlPlane), newPair("b", outdated)), []string{"patch Machine/b"},
		},
		"a new Node that lacks the group's label": {append(half(), newGroup(withLabel(start.Add(-24*time.Hour)))), nil},
		"a Node that waits for its wave": {
			append(half(), newGroup(withLabel(start))), []string{"patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-b"},
		},
		"a new Node that waits for its wave, since the taints of MachineSets have changed": {
			append(half(), newGroup(withLabel(start.Add(-24*time.Hour)), func(group *v1alpha1.NodeGroup) {
				group.Status.Rollout.MachineSetTime = new(metav1.NewTime(start))
			})), []string{"patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-b"},
		},
		"the last new one has failed": {all([]client.Object{newGroup(), newSet(1)}, newPair("new", failed)), nil},
		"the last new one has failed, and a user has resumed": {
			all([]client.Object{newGroup(resumed), newSet(1)}, newPair("new", failed)), []string{"patch Machine/new", "delete Machine/new"},
		},
		"a group of other MachineSets": {
			append(half(), newGroup(func(group *v1alpha1.NodeGroup) { group.Spec.Nodes.MachineSets.Names = []string{"b"} })), nil,
		},
		"an older group has the MachineSet": {
			append(half(), newGroup(func(group *v1alpha1.NodeGroup) { group.CreationTimestamp = metav1.NewTime(start) }), newGroup(
				func(group *v1alpha1.NodeGroup) {
					group.Name, group.UID, group.Spec.Replacement = "older", "uid-of-older", nil
				})), nil,
		},
	} {
		t.Run(name, func(t *testing.T) { newFixture(t, c.objects...).reconciles(c.want...) })
	}
}

func TestReconcile_MarksAndDeletes(t *testing.T) {
	f := newFixture(t, append(half(), newGroup())...)
	f.reconciles("patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-b")
	machine := &machinev1beta1.Machine{}
	if err := f.client.Get(t.Context(), types.NamespacedName{Namespace: "machines", Name: "old-a"}, machine); err != nil {
		t.Fatal(err)
	}
	if machine.DeletionTimestamp == nil || machine.Annotations[machineapi.DeleteAnnotation] == "" {
		t.Errorf("it is %+v", machine.ObjectMeta)
	}
	if reasons := apitest.Reasons(f.events); !slices.Equal(reasons, []string{EventReplaced}) {
		t.Errorf("the events are %v", reasons)
	}
	if report := f.report; report.Outdated != 2 || !report.Replacing || report.Reason != "" {
		t.Errorf("%+v", report)
	}
	f.reconciles()
}

func TestReconcile_Budget(t *testing.T) {
	f := newFixture(t, append(half(cordoned), newGroup(builder.WithDisruption))...)
	if result := f.reconciles(); result.RequeueAfter != delay.Budget {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	if report := f.report; report.Reason != "BudgetExhausted" || !report.Replacing {
		t.Errorf("%+v", report)
	}
	apitest.Edit(t, f.client, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "new"}}, func(node *corev1.Node) { node.Spec.Unschedulable = false })
	f.reconciles("status NodeGroup/gpu", "patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-b")
	if report := f.report; report.Reason != "" {
		t.Errorf("%+v", report)
	}
	group := &v1alpha1.NodeGroup{}
	if err := f.client.Get(t.Context(), types.NamespacedName{Name: "gpu"}, group); err != nil {
		t.Fatal(err)
	}
	if got := group.Status.Admissions; len(got) != 1 || got[0].Object != "Machine/machines/old-a" || got[0].UID != "uid-of-node-old-a" ||
		got[0].Capability != v1alpha1.CapabilityReplacement {
		t.Errorf("the admissions are %+v", got)
	}
}

// TestReconcile_BudgetForSome: a Machine that has gone gives its place beyond replicas to the next one, while others wait for the budget.
func TestReconcile_BudgetForSome(t *testing.T) {
	surge := func(group *v1alpha1.NodeGroup) {
		group.Spec.Replacement.MaxSurge, group.Spec.Replacement.MaxInFlight = new(intstr.FromInt32(2)), new(intstr.FromInt32(2))
	}
	f := newFixture(t, all([]client.Object{newGroup(builder.WithDisruption, surge), newSet(4)}, newPair("old-a", outdated, replacing),
		newPair("old-b", outdated, replacing), newPair("old-c", outdated), newPair("old-d", outdated), newPair("new-a"), newPair("new-b"))...)
	f.reconciles("status NodeGroup/gpu", "patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-c")
	if report := f.report; report.Reason != "BudgetExhausted" {
		t.Errorf("%+v", report)
	}
	f.reconciles()
}

func TestReconcile_Failures(t *testing.T) {
	machines := schema.GroupResource{Group: machinev1beta1.GroupName, Resource: "machines"}
	f := newFixture(t, append(half(), newGroup())...)
	f.requests.Fail["patch Machine"] = apierrors.NewConflict(machines, "old-a", errors.New("modified"))
	if result := f.reconciles("patch Machine/old-a"); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("after a conflict it tries again in %s", result.RequeueAfter)
	}
	delete(f.requests.Fail, "patch Machine")

	// A Machine that must not be deleted does not keep others from being replaced.
	f.requests.Fail["delete Machine"] = apierrors.NewForbidden(machines, "old-a", errors.New("a policy"))
	f.reconciles("patch Machine/old-a", "delete Machine/old-a", "patch Machine/old-a")
	delete(f.requests.Fail, "delete Machine")
	if result := f.reconciles("patch Machine/old-b", "delete Machine/old-b"); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("it is tried again in %s", result.RequeueAfter)
	}

	// While the Machines cannot be read, the group reports what was found last.
	before := f.report
	f.requests.Fail["list MachineSetList"] = errors.New("no answer")
	if _, err := f.reconcile(); err == nil || f.report != before {
		t.Errorf("without MachineSets: %v, %+v", err, f.report)
	}
	// A process that has found nothing yet reports that.
	f.state = NewState()
	group := &v1alpha1.NodeGroup{}
	if err := f.client.Get(t.Context(), types.NamespacedName{Name: "gpu"}, group); err != nil {
		t.Fatal(err)
	}
	group.Status.Outdated = 2
	if err := f.client.Status().Update(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	if _, err := f.reconcile(); err == nil || f.report.Outdated != 2 || !strings.Contains(f.report.Progress, "no answer") {
		t.Errorf("after a restart: %v, %+v", err, f.report)
	}
}

// TestReconcile_MarkDenied: a Machine that Drover may not mark, such as one whose annotations have no space, keeps no other one from being replaced.
func TestReconcile_MarkDenied(t *testing.T) {
	tooLong := apierrors.NewInvalid(machinev1beta1.GroupVersion.WithKind("Machine").GroupKind(), "old-a", field.ErrorList{
		field.TooLong(field.NewPath("metadata", "annotations"), "", 262144),
	})
	f := newFixture(t, all([]client.Object{newGroup(), newSet(2)}, newPair("old-a", outdated), newPair("old-b", outdated))...)
	f.requests.Fail["patch Machine"] = tooLong
	f.reconciles("patch Machine/old-a")
	delete(f.requests.Fail, "patch Machine")
	if result := f.reconciles("patch Machine/old-b"); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("it is tried again in %s", result.RequeueAfter)
	}

	// The mark of a Machine that is not to be replaced any more cannot be removed.
	f = newFixture(t, append(half(), newGroup(func(group *v1alpha1.NodeGroup) { group.Spec.Replacement.Type = v1alpha1.ReplacementNone }))...)
	f.requests.Fail["patch Machine"] = tooLong
	if result := f.reconciles("patch Machine/old-a"); result.RequeueAfter == 0 {
		t.Error("it is not tried again")
	}
	f.reconciles()

	// Its group is gone.
	f = newFixture(t, all([]client.Object{newSet(2)}, newPair("old-a", outdated, replacing), newPair("old-b", outdated, replacing))...)
	f.requests.Fail["patch Machine"] = tooLong
	f.requests.Writes = nil
	groups, err := f.finder.Groups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := f.replacer.ReconcileSet(t.Context(), groups, types.NamespacedName{Namespace: "machines", Name: "a"})
	if got := strings.Join(f.requests.Writes, ", "); out.Err == nil || got != "patch Machine/old-a, patch Machine/old-b" {
		t.Errorf("the writes are %s: %v", got, out.Err)
	}
}

// TestReconcile_UndecodableMachine: a Machine that cannot be decoded has its MachineSet left alone. The Machines of other MachineSets are replaced.
// The report says so, also when no other Machine is outdated.
func TestReconcile_UndecodableMachine(t *testing.T) {
	other := newSet(1)
	other.Name, other.UID = "b", "uid-of-b"
	other.Spec.Selector.MatchLabels = map[string]string{"set": "b"}
	unreadable := func(machine *machinev1beta1.Machine, _ *corev1.Node) {
		machine.Annotations[undecodable.Annotation] = apitest.UndecodableMark(t)
		machine.Labels["set"] = "b"
		machine.OwnerReferences[0].Name, machine.OwnerReferences[0].UID = other.Name, other.UID
	}
	objects := all([]client.Object{newGroup(), newSet(1), other}, newPair("unreadable", outdated, unreadable))
	f := newFixture(t, all(objects, newPair("old-a", outdated))...)
	const leftOut = "MachineSets left out, because they or Machines of them cannot be decoded: b"
	if f.fails("patch Machine/old-a"); f.report.Progress != "1 Machines are outdated; to be created: 1; "+leftOut {
		t.Errorf("the group says %q", f.report.Progress)
	}

	f = newFixture(t, all(objects, newPair("new"))...)
	if f.fails(); f.report.Progress != leftOut || !f.report.Replacing {
		t.Errorf("the group says %+v", f.report)
	}
}

// fails reconciles, and checks the writes and that the request has failed for an object that cannot be decoded.
func (f *fixture) fails(want ...string) {
	f.Helper()
	f.writes(func() (reconcile.Result, error) {
		result, err := f.reconcile()
		if !undecodable.Is(err) {
			f.Errorf("the request fails with %v", err)
		}
		return result, nil
	}, want...)
}

// TestReconcile_LeaseHeldByAnother: a Machine whose Node another controller works on, for days perhaps, does not keep others from being replaced. It
// is reported when it is the last one.
func TestReconcile_LeaseHeldByAnother(t *testing.T) {
	f := newFixture(t, append(half(), newGroup())...)
	leases := func(holder string) *nodelease.Leases {
		return &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: holder, Clock: f.clock}
	}
	f.replacer.Leases = leases("own")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "old-a", UID: "uid-of-node-old-a"}}
	if _, err := leases("node-maintenance").Acquire(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	f.reconciles("create Lease/node-old-b", "patch Machine/old-b", "delete Machine/old-b")
	if report := f.report; report.Reason != "" {
		t.Errorf("while others are replaced: %+v", report)
	}

	f = newFixture(t, all([]client.Object{newGroup(), newSet(1)}, newPair("old-a", outdated, replacing), newPair("new"))...)
	f.replacer.Leases = leases("own")
	if _, err := leases("node-maintenance").Acquire(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	f.reconciles()
	const want = `the lease of node old-a is held by "node-maintenance"`
	if report := f.report; report.Reason != "BudgetExhausted" || !strings.Contains(report.Message, want) {
		t.Errorf("the last one waits: %+v", report)
	}
}

// TestReconcile_UnknownWhoCreates: nothing is done before it is known who creates Machines; beside machine-api-operator the old one goes first.
func TestReconcile_UnknownWhoCreates(t *testing.T) {
	f := newFixture(t, append(half(), newGroup())...)
	f.replacer.Creates = func() bool { return false }
	if result := f.reconciles(); result.RequeueAfter != retryBlocked {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	if report := f.report; report.Reason != plan.ReasonSurgeUnavailable || report.Outdated != 2 {
		t.Errorf("%+v", report)
	}
	f = newFixture(t, all([]client.Object{newGroup(), newSet(2)}, newPair("old-a", outdated), newPair("old-b", outdated))...)
	f.replacer.Creates, f.replacer.Others = func() bool { return false }, func() bool { return true }
	f.reconciles("patch Machine/old-a", "delete Machine/old-a")
	f.reconciles()
}

// TestReconcile_SetWithoutGroup: marks that a group has left are removed.
func TestReconcile_SetWithoutGroup(t *testing.T) {
	f := newFixture(t, half()...)
	f.reconcilesSet("a", "patch Machine/old-a")
	f.reconcilesSet("a")
	f.reconcilesSet("gone")
	f = newFixture(t, append(half(), newGroup())...)
	f.reconcilesSet("a")
}
