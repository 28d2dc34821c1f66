package machine

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/machine/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// running returns a fixture with a Machine that runs on a Node.
func running(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	s := newFixture(t, append(objects, machineOf("m"), nodeOf("m"))...)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.emitted()
	return s
}

func TestDelete_RemovesInstanceAndNode(t *testing.T) {
	s := running(t)
	s.delete("m")
	_, _, calls := s.reconcile("m")
	if calls != "delete get" || s.machine("m") != nil || s.node("m") != nil || len(s.leases()) != 0 {
		t.Errorf("calls %q, left are %v, %v, %v", calls, s.machine("m"), s.node("m"), s.leases())
	}
	if got := s.emitted(); got != "Delete, DrainSucceeded" {
		t.Errorf("events %s", got)
	}
	// Its Deleted event ends what is remembered.
	s.reconcile("m")
	if s.states.Len() != 0 || s.versions.Len() != 0 {
		t.Error("a Machine that is gone is remembered")
	}
}

func (s *fixture) leases() []coordinationv1.Lease {
	s.t.Helper()
	var list coordinationv1.LeaseList
	if err := s.client.List(s.t.Context(), &list); err != nil {
		s.t.Fatal(err)
	}
	// The garbage collector deletes the lease of a Node that is gone.
	return slices.DeleteFunc(list.Items, func(lease coordinationv1.Lease) bool {
		node := s.node(lease.OwnerReferences[0].Name)
		return node == nil || node.UID != lease.OwnerReferences[0].UID
	})
}

func TestDelete_DrainsFirst(t *testing.T) {
	s := running(t, podOf("p", "m"))
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining", "Ready=Deleting")
	if !s.node("m").Spec.Unschedulable || len(s.leases()) != 1 || len(s.cloud.instances) != 1 {
		t.Error("the node is to be leased and cordoned, and to stay")
	}
	if err := s.client.Delete(t.Context(), podOf("p", "m")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if s.machine("m") != nil || len(s.cloud.instances) != 0 {
		t.Error("it is still there")
	}
	if got := s.emitted(); got != "Delete, Deleted, DrainProceeds, DrainSucceeded" {
		t.Errorf("events %s", got)
	}
}

// Beside the deletion itself and the provider's own requests a Machine costs the lease, the cordon, the finalizer and two events.
func TestDelete_Writes(t *testing.T) {
	s := running(t)
	s.delete("m")
	_, writes, _ := s.reconcile("m")
	if want := "create Lease, patch Node, delete Node, patch Machine"; writes != want || s.machine("m") != nil {
		t.Errorf("writes %q, want %q", writes, want)
	}
	if got := s.emitted(); got != "Delete, DrainSucceeded" {
		t.Errorf("events %s", got)
	}
}

func TestDelete_DrainSkipped(t *testing.T) {
	excluded := running(t, podOf("p", "m"))
	excluded.update("m", func(m *machinev1beta1.Machine) {
		m.Annotations[plan.AnnotationExclude] = ""
		m.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
	})
	unlinked := newFixture(t, machineOf("m"))
	unlinked.settle("m")
	unlinked.emitted()
	for name, s := range map[string]*fixture{"excluded": excluded, "without a node": unlinked} {
		t.Run(name, func(t *testing.T) {
			s.delete("m")
			s.settle("m")
			if got := s.emitted(); s.machine("m") != nil || got != "Delete, DrainSkipped" {
				t.Errorf("events %s; left is %v", got, s.machine("m"))
			}
		})
	}
}

// machine-api-operator leaves such a Node behind.
func TestDelete_NodeThatNeverCameIntoNodeRef(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.settle("m")
	s.delete("m")
	s.create(nodeOf("m"))
	s.settle("m")
	if s.machine("m") != nil || s.node("m") != nil {
		t.Error("the Node is left")
	}
}

func TestDelete_Hooks(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) {
		m.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
		m.Spec.LifecycleHooks.PreTerminate = []machinev1beta1.LifecycleHook{{Name: "Etcd", Owner: "etcd"}}
	})
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drainable=HookPresent", "Terminable=HookPresent", "Drained=-")
	if s.node("m").Spec.Unschedulable {
		t.Error("the node is cordoned although the drain is held up")
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = nil })
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drainable=True", "Terminable=HookPresent", "Drained=True")
	if len(s.cloud.instances) != 1 {
		t.Error("the instance was ended before the hook was gone")
	}
	s.update("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = nil })
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
	if got := s.emitted(); got != "Delete, DrainBlocked, DrainSucceeded" {
		t.Errorf("events %s", got)
	}
}

func TestDelete_LeaseHeldByAnotherController(t *testing.T) {
	s := running(t)
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	if _, err := other.Acquire(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=LeaseHeldByOther")
	if s.node("m").Spec.Unschedulable || len(s.cloud.instances) != 1 {
		t.Error("it was touched")
	}
	if err := other.Release(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

// A record is a past holder's when the lease is free: what it had to give back goes with the node.
func TestDelete_CordonRecordOfAnotherOwner(t *testing.T) {
	s := running(t, podOf("p", "m"))
	node := s.node("m")
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{
		drain.AnnotationCordon: `{"by":"NodeMaintenance/x","since":"2026-01-01T00:00:00Z","taints":["dedicated:NoSchedule"]}`,
	}
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.delete("m")
	s.settle("m")
	hold, err := drain.ReadCordonRecord(s.node("m"))
	if err != nil || hold.By != "Machine/uid-of-m" || hold.Since.Before(start) || len(hold.Taints) > 0 {
		t.Errorf("%v, the record is %+v", err, hold)
	}
	node = s.node("m")
	node.Annotations[drain.AnnotationCordon] = "{"
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=RecordUnreadable")
}

func TestDrainTimeout_Annotation(t *testing.T) {
	s := running(t, podOf("p", "m"))
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationDrainTimeout] = "5m" })
	s.delete("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Time)
	s.settle("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(4 * time.Minute))
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining")
	s.clock.Step(time.Minute)
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("the time is over, and it is still there")
	}
	odd := running(t, podOf("p", "m"))
	odd.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationDrainTimeout] = "soon" })
	odd.delete("m")
	odd.settle("m")
	if got := odd.emitted(); got != "DrainProceeds, FailedValidate" {
		t.Errorf("events %s", got)
	}
}

func TestDelete_ProviderErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{"refused": {errors.New("busy"), true}, "takes its time": {provider.RequeueAfter(9*time.Second, "ends"), false}} {
		t.Run(name, func(t *testing.T) {
			s := running(t)
			s.cloud.fail["delete"] = c.err
			s.delete("m")
			result, _, _, err := s.tryReconcile("m")
			if (err != nil) != c.fails || !c.fails && result.RequeueAfter != 9*time.Second {
				t.Errorf("error %v, again in %s", err, result.RequeueAfter)
			}
			if s.machine("m") == nil || s.node("m") == nil {
				t.Fatal("it is gone while its instance is there")
			}
			delete(s.cloud.fail, "delete")
			s.cloud.slow = true
			s.reconcile("m")
			if s.machine("m") == nil {
				t.Fatal("it is gone while its instance ends")
			}
			if _, writes, calls := s.reconcile("m"); writes != "" || calls != "get" {
				t.Errorf("a moment later: calls %q, writes %q", calls, writes)
			}
			s.clock.Step(5 * time.Second)
			if _, _, calls := s.reconcile("m"); !strings.HasPrefix(calls, "delete get") {
				t.Errorf("the deletion is not repeated: calls %q", calls)
			}
			s.settle("m")
			if s.machine("m") != nil {
				t.Error("it is still there")
			}
		})
	}
	failed := newFixture(t, machineOf("m"))
	failed.cloud.fail["create"] = provider.InvalidConfiguration("no such image")
	failed.cloud.fail["delete"] = provider.InvalidConfiguration("no such image")
	failed.settle("m")
	failed.delete("m")
	failed.settle("m")
	if failed.machine("m") != nil {
		t.Error("it never had an instance, and cannot go")
	}
}

// A provider may call the configuration invalid only when it is asked for the instance after it has accepted the deletion.
func TestDelete_InvalidConfigurationAfterTheDeletion(t *testing.T) {
	s := newFixture(t, machineOf("m"))
	s.cloud.fail["create"] = provider.InvalidConfiguration("no such image")
	s.settle("m")
	s.cloud.fail["get"] = provider.InvalidConfiguration("no such image")
	s.delete("m")
	if _, _, calls, err := s.tryReconcile("m"); err != nil || calls != "get delete get" || s.machine("m") != nil {
		t.Errorf("calls %q, error %v; the Machine is %v", calls, err, s.machine("m"))
	}
}

// One of the same name that is another Machine's by now is not touched.
func TestDelete_KeepsNodeOfAnotherMachine(t *testing.T) {
	s := running(t)
	if err := s.client.Delete(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	foreign := nodeOf("m")
	foreign.UID, foreign.Spec.ProviderID = "foreign", "cloud:///other"
	s.create(foreign)
	s.delete("m")
	s.settle("m")
	if s.machine("m") != nil || s.node("m") == nil || s.node("m").Spec.Unschedulable {
		t.Error("the Node of another Machine was touched, or the Machine cannot go")
	}
}

type guard struct {
	denial string
	err    error
	// locked reports that the lock is held; unlocked counts the checks without it.
	locked   bool
	unlocked int
}

func (g *guard) MissingNode(machine *machinev1beta1.Machine) *corev1.Node {
	return nodeOf(machine.Name)
}

func (g *guard) Lock(ctx context.Context) (context.Context, func()) {
	if g.locked {
		panic("the lock is not reentrant")
	}
	g.locked = true
	return ctx, func() { g.locked = false }
}

func (g *guard) Applies(*corev1.Node) bool { return true }

func (g *guard) Check(context.Context, *corev1.Node) (string, error) {
	if !g.locked {
		g.unlocked++
	}
	return g.denial, g.err
}

func TestDelete_ControlPlaneQuorum(t *testing.T) {
	s := running(t)
	g := &guard{denial: "one is away already"}
	s.Guard = g
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=ControlPlaneQuorum")
	if len(s.leases()) != 0 || s.node("m").Spec.Unschedulable {
		t.Error("it holds the lease, or has cordoned the node")
	}
	g.denial = ""
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

// What the guard may not read is reported, and is no quorum: no timeout ends the wait for it.
func TestDrain_GuardMayNotListLeases(t *testing.T) {
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))
	s := deletedWithTimeout(t, func(s *fixture) { s.Guard = &guard{err: forbidden} })
	s.settle("m")
	result, _, _ := s.reconcile("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=ControlPlaneQuorumUnknown")
	drained := status.MachineCondition(s.machine("m").Status.Conditions, plan.ConditionDrained)
	if !strings.Contains(drained.Message, "no Role allows to list") || result.RequeueAfter != controller.RetryDenied {
		t.Errorf("again in %s: %s", result.RequeueAfter, drained.Message)
	}
	s.clock.Step(time.Hour)
	s.settle("m")
	if s.machine("m") == nil || len(s.cloud.instances) != 1 {
		t.Error("the Machine is gone")
	}
	s.Guard = &guard{}
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("the Machine is still there")
	}
}

func TestDelete_NodeDeletionTimeout(t *testing.T) {
	s := running(t)
	s.update("m", func(m *machinev1beta1.Machine) { m.Annotations[plan.AnnotationNodeDeletionTimeout] = "1m" })
	s.delete("m")
	s.Fail["delete Node"] = errors.New("no")
	if _, _, _, err := s.tryReconcile("m"); err == nil || s.machine("m") == nil {
		t.Errorf("error %v", err)
	}
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(time.Minute))
	s.settle("m")
	if s.machine("m") != nil {
		t.Error("the time is over, and it is still there")
	}
}

// Two Machines that name one instance: the pods on its Node must not lose it undrained.
func TestDelete_NodeOfTwoMachinesIsNotDeletedUndrained(t *testing.T) {
	s := running(t, podOf("p", "m"))
	twin := machineOf("twin")
	twin.Spec.ProviderID, twin.Status.NodeRef = new("cloud:///m"), s.machine("m").Status.NodeRef
	s.create(twin)
	s.delete("m")
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=NodeLinkConflict")
	if len(s.cloud.instances) != 1 || s.node("m") == nil {
		t.Error("the instance or its Node is gone")
	}
}

// A Machine that repeats the providerID of another one, whose Node it does not have, changes nothing for that one.
func TestLink_RepeatedProviderIDDoesNotDisableTheMachine(t *testing.T) {
	s := running(t)
	twin := machineOf("twin")
	twin.Spec.ProviderID = new("cloud:///m")
	s.create(twin)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.settle("twin")
	s.expect("twin", machinev1beta1.PhaseFailed)
	// The Node registers anew.
	if err := s.client.Delete(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotFound")
	again := nodeOf("m")
	again.UID = "another"
	s.create(again)
	s.settle("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.delete("m")
	s.settle("m")
	if s.machine("m") != nil || s.node("m") != nil {
		t.Errorf("the Machine is %v, its Node %v", s.machine("m"), s.node("m"))
	}
}

func TestReconcile_NoFinalizerWithoutProvider(t *testing.T) {
	machine := machineOf("m")
	machine.Finalizers, machine.Spec.ProviderSpec.Value.Raw = nil, []byte(`{"apiVersion":"other.example.com/v1","kind":"Spec"}`)
	s := newFixture(t, machine)
	s.settle("m")
	if got := s.machine("m").Finalizers; len(got) != 0 {
		t.Errorf("finalizers %v", got)
	}
}
