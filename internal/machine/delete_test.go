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

	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/provider"
)

// running is a stage with a Machine that runs on a node.
func running(t *testing.T, objects ...client.Object) *stage {
	t.Helper()
	s := newStage(t, append(objects, machineOf("m"), nodeOf("m"))...)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.told()
	return s
}

func TestAMachineGoesWithAllThatIsItsOwn(t *testing.T) {
	s := running(t)
	s.doom("m")
	_, _, calls := s.pass("m")
	if calls != "delete get" || s.machine("m") != nil || s.node("m") != nil || len(s.leases()) != 0 {
		t.Errorf("calls %q, left are %v, %v, %v", calls, s.machine("m"), s.node("m"), s.leases())
	}
	if got := s.told(); got != "Delete, DrainSucceeded" {
		t.Errorf("told %s", got)
	}
	// Its Deleted event ends what is remembered.
	s.pass("m")
	if len(s.known) != 0 || s.versions.Len() != 0 {
		t.Error("a Machine that is gone is remembered")
	}
}

func (s *stage) leases() []coordinationv1.Lease {
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

func TestPodsLeaveFirst(t *testing.T) {
	s := running(t, podOf("p", "m"))
	s.doom("m")
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining", "Ready=Deleting")
	if !s.node("m").Spec.Unschedulable || len(s.leases()) != 1 || len(s.cloud.instances) != 1 {
		t.Error("the node is to be leased and cordoned, and to stay")
	}
	if err := s.client.Delete(t.Context(), podOf("p", "m")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if s.machine("m") != nil || len(s.cloud.instances) != 0 {
		t.Error("it is still there")
	}
	if got := s.told(); got != "Delete, Deleted, DrainProceeds, DrainSucceeded" {
		t.Errorf("told %s", got)
	}
}

// Beside the deletion itself and the provider's own requests a Machine costs the lease, the cordon, the finalizer and two events.
func TestRemove_Writes(t *testing.T) {
	s := running(t)
	s.doom("m")
	_, writes, _ := s.pass("m")
	if want := "create Lease, patch Node, delete Node, patch Machine"; writes != want || s.machine("m") != nil {
		t.Errorf("writes %q, want %q", writes, want)
	}
	if got := s.told(); got != "Delete, DrainSucceeded" {
		t.Errorf("events %s", got)
	}
}

func TestDrainsThatAreLeftOut(t *testing.T) {
	excluded := running(t, podOf("p", "m"))
	excluded.edit("m", func(m *machinev1beta1.Machine) {
		m.Annotations[AnnotationExclude] = ""
		m.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
	})
	unlinked := newStage(t, machineOf("m"))
	unlinked.rest("m")
	unlinked.told()
	for name, s := range map[string]*stage{"excluded": excluded, "without a node": unlinked} {
		t.Run(name, func(t *testing.T) {
			s.doom("m")
			s.rest("m")
			if got := s.told(); s.machine("m") != nil || got != "Delete, DrainSkipped" {
				t.Errorf("told %s; left is %v", got, s.machine("m"))
			}
		})
	}
}

// The incumbent leaves such a Node behind.
func TestANodeThatNeverCameIntoNodeRefGoesToo(t *testing.T) {
	s := newStage(t, machineOf("m"))
	s.rest("m")
	s.doom("m")
	s.make(nodeOf("m"))
	s.rest("m")
	if s.machine("m") != nil || s.node("m") != nil {
		t.Error("the Node is left")
	}
}

func TestHooksHoldUpTheEnd(t *testing.T) {
	s := running(t)
	s.edit("m", func(m *machinev1beta1.Machine) {
		m.Spec.LifecycleHooks.PreDrain = []machinev1beta1.LifecycleHook{{Name: "Save", Owner: "backup"}}
		m.Spec.LifecycleHooks.PreTerminate = []machinev1beta1.LifecycleHook{{Name: "Etcd", Owner: "etcd"}}
	})
	s.doom("m")
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drainable=HookPresent", "Terminable=HookPresent", "Drained=-")
	if s.node("m").Spec.Unschedulable {
		t.Error("the node is cordoned although the drain is held up")
	}
	s.edit("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreDrain = nil })
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drainable=True", "Terminable=HookPresent", "Drained=True")
	if len(s.cloud.instances) != 1 {
		t.Error("the instance was ended before the hook was gone")
	}
	s.edit("m", func(m *machinev1beta1.Machine) { m.Spec.LifecycleHooks.PreTerminate = nil })
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
	if got := s.told(); got != "Delete, DrainBlocked, DrainSucceeded" {
		t.Errorf("told %s", got)
	}
}

func TestTheNodeIsSomebodyElses(t *testing.T) {
	s := running(t)
	other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "node-maintenance", Clock: s.clock}
	if _, err := other.Acquire(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.doom("m")
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=LeaseHeldByOther")
	if s.node("m").Spec.Unschedulable || len(s.cloud.instances) != 1 {
		t.Error("it was touched")
	}
	if err := other.Release(t.Context(), "m"); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

// A record is a past holder's when the lease is free: what it had to give back goes with the node.
func TestARecordOnTheNodeIsTakenOver(t *testing.T) {
	s := running(t, podOf("p", "m"))
	node := s.node("m")
	node.Spec.Unschedulable = true
	node.Annotations = map[string]string{
		drain.AnnotationCordon: `{"by":"NodeMaintenance/x","since":"2026-01-01T00:00:00Z","taints":["dedicated:NoSchedule"]}`,
	}
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.doom("m")
	s.rest("m")
	hold, err := drain.ReadCordonRecord(s.node("m"))
	if err != nil || hold.By != "Machine/uid-of-m" || hold.Since.Before(start) || len(hold.Taints) > 0 {
		t.Errorf("%v, the record is %+v", err, hold)
	}
	node = s.node("m")
	node.Annotations[drain.AnnotationCordon] = "{"
	if err := s.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=RecordUnreadable")
}

func TestTheTimeForADrain(t *testing.T) {
	s := running(t, podOf("p", "m"))
	s.edit("m", func(m *machinev1beta1.Machine) { m.Annotations[AnnotationDrainTimeout] = "5m" })
	s.doom("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Time)
	s.rest("m")
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(4 * time.Minute))
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=Draining")
	s.clock.Step(time.Minute)
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("the time is over, and it is still there")
	}
	odd := running(t, podOf("p", "m"))
	odd.edit("m", func(m *machinev1beta1.Machine) { m.Annotations[AnnotationDrainTimeout] = "soon" })
	odd.doom("m")
	odd.rest("m")
	if got := odd.told(); got != "DrainProceeds, FailedValidate" {
		t.Errorf("told %s", got)
	}
}

func TestInstancesThatDoNotEnd(t *testing.T) {
	for name, c := range map[string]struct {
		err   error
		fails bool
	}{"refused": {errors.New("busy"), true}, "takes its time": {provider.RequeueAfter(9*time.Second, "ends"), false}} {
		t.Run(name, func(t *testing.T) {
			s := running(t)
			s.cloud.fail["delete"] = c.err
			s.doom("m")
			result, _, _, err := s.try("m")
			if (err != nil) != c.fails || !c.fails && result.RequeueAfter != 9*time.Second {
				t.Errorf("error %v, again in %s", err, result.RequeueAfter)
			}
			if s.machine("m") == nil || s.node("m") == nil {
				t.Fatal("it is gone while its instance is there")
			}
			delete(s.cloud.fail, "delete")
			s.cloud.slow = true
			s.pass("m")
			if s.machine("m") == nil {
				t.Fatal("it is gone while its instance ends")
			}
			if _, writes, calls := s.pass("m"); writes != "" || calls != "get" {
				t.Errorf("a moment later: calls %q, writes %q", calls, writes)
			}
			s.clock.Step(settleInstance)
			if _, _, calls := s.pass("m"); !strings.HasPrefix(calls, "delete get") {
				t.Errorf("it has not gone by itself: calls %q", calls)
			}
			s.rest("m")
			if s.machine("m") != nil {
				t.Error("it is still there")
			}
		})
	}
	failed := newStage(t, machineOf("m"))
	failed.cloud.fail["create"] = provider.InvalidConfiguration("no such image")
	failed.cloud.fail["delete"] = provider.InvalidConfiguration("no such image")
	failed.rest("m")
	failed.doom("m")
	failed.rest("m")
	if failed.machine("m") != nil {
		t.Error("it never had an instance, and cannot go")
	}
}

// One of the same name that is another Machine's by now is not touched.
func TestAnotherMachinesNodeStays(t *testing.T) {
	s := running(t)
	if err := s.client.Delete(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	foreign := nodeOf("m")
	foreign.UID, foreign.Spec.ProviderID = "foreign", "cloud:///other"
	s.make(foreign)
	s.doom("m")
	s.rest("m")
	if s.machine("m") != nil || s.node("m") == nil || s.node("m").Spec.Unschedulable {
		t.Error("the Node of another Machine was touched, or the Machine cannot go")
	}
}

type guard struct {
	denial string
	err    error
	// locked tells that the lock is held; unlocked counts the checks without it.
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

func TestTheControlPlaneCannotSpareTheNode(t *testing.T) {
	s := running(t)
	g := &guard{denial: "one is away already"}
	s.Guard = g
	s.doom("m")
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=ControlPlaneQuorum")
	if len(s.leases()) != 0 || s.node("m").Spec.Unschedulable {
		t.Error("it holds the lease, or has cordoned the node")
	}
	g.denial = ""
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("it is still there")
	}
}

// What the guard may not read is reported, and is no quorum: no timeout ends the wait for it.
func TestDrain_GuardMayNotListLeases(t *testing.T) {
	forbidden := apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))
	s := deletedWithTimeout(t, func(s *stage) { s.Guard = &guard{err: forbidden} })
	s.rest("m")
	result, _, _ := s.pass("m")
	s.expect("m", machinev1beta1.PhaseDeleting, "Drained=ControlPlaneQuorumUnknown")
	drained := status.MachineCondition(s.machine("m").Status.Conditions, ConditionDrained)
	if !strings.Contains(drained.Message, "no Role allows to list") || result.RequeueAfter != retryDenied {
		t.Errorf("again in %s: %s", result.RequeueAfter, drained.Message)
	}
	s.clock.Step(time.Hour)
	s.rest("m")
	if s.machine("m") == nil || len(s.cloud.instances) != 1 {
		t.Error("the Machine is gone")
	}
	s.Guard = &guard{}
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("the Machine is still there")
	}
}

func TestNodeObjectsThatCannotBeDeleted(t *testing.T) {
	s := running(t)
	s.edit("m", func(m *machinev1beta1.Machine) { m.Annotations[AnnotationNodeDeletionTimeout] = "1m" })
	s.doom("m")
	s.fail["delete Node"] = errors.New("no")
	if _, _, _, err := s.try("m"); err == nil || s.machine("m") == nil {
		t.Errorf("error %v", err)
	}
	s.clock.SetTime(s.machine("m").DeletionTimestamp.Add(time.Minute))
	s.rest("m")
	if s.machine("m") != nil {
		t.Error("the time is over, and it is still there")
	}
}

// Two Machines that name one instance: the pods on its Node must not lose it undrained.
func TestANodeThatTwoMachinesClaimIsNotTakenUndrained(t *testing.T) {
	s := running(t, podOf("p", "m"))
	twin := machineOf("twin")
	twin.Spec.ProviderID, twin.Status.NodeRef = new("cloud:///m"), s.machine("m").Status.NodeRef
	s.make(twin)
	s.doom("m")
	s.rest("m")
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
	s.make(twin)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.rest("twin")
	s.expect("twin", machinev1beta1.PhaseFailed)
	// The Node registers anew.
	if err := s.client.Delete(t.Context(), s.node("m")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=NodeNotFound")
	again := nodeOf("m")
	again.UID = "another"
	s.make(again)
	s.rest("m")
	s.expect("m", machinev1beta1.PhaseRunning, "Ready=True")
	s.doom("m")
	s.rest("m")
	if s.machine("m") != nil || s.node("m") != nil {
		t.Errorf("the Machine is %v, its Node %v", s.machine("m"), s.node("m"))
	}
}

func TestAMachineThatNobodyServesGetsNoFinalizer(t *testing.T) {
	machine := machineOf("m")
	machine.Finalizers, machine.Spec.ProviderSpec.Value.Raw = nil, []byte(`{"apiVersion":"other.example.com/v1","kind":"Spec"}`)
	s := newStage(t, machine)
	s.rest("m")
	if got := s.machine("m").Finalizers; len(got) != 0 {
		t.Errorf("finalizers %v", got)
	}
}
