package maintenance

import (
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

func TestReconcile_WholeMaintenance(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"), newPod("b", "n2"))
	_, writes := s.reconcile("m")
	if want := "patch NodeMaintenance, create Lease, patch Node, status NodeMaintenance"; writes != want {
		t.Errorf("wrote %s, want %s", writes, want)
	}
	s.expect("m", medik8s.PhaseRunning, "", "Ready=Draining", "LeaseHeld=Held", "Cordoned=Cordoned", "Drained=Draining")
	if status := s.status("m"); status.TotalPods != 1 || status.EvictionPods != 1 || status.DrainProgress != 0 || len(status.PendingPodsRefs) != 1 ||
		status.PendingPods[0] != "a" {
		t.Errorf("%+v", status)
	}
	if !inMaintenance(s.node("n1")) {
		t.Errorf("%+v", s.node("n1"))
	}
	object := newMaintenance("m", "n1")
	s.read(object, "m")
	if len(object.OwnerReferences) != 1 || object.OwnerReferences[0].UID != "uid-of-n1" || object.Finalizers[0] != medik8s.Finalizer {
		t.Errorf("%+v", object.ObjectMeta)
	}
	if err := s.client.Delete(t.Context(), newPod("a", "n1")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance", "Drained=Drained")
	if status := s.status("m"); status.DrainProgress != 100 || status.PendingPods != nil || status.PendingPodsRefs != nil {
		t.Errorf("%+v", status)
	}
	s.deleteAndCheck(object)
	if got, want := s.emitted(), "BeginMaintenance SucceedMaintenance UncordonNode RemovedMaintenance"; got != want {
		t.Errorf("emitted %s, want %s", got, want)
	}
}

// deleteAndCheck deletes the maintenance m and checks that its node n1 is plain again.
func (s *fixture) deleteAndCheck(object *medik8s.NodeMaintenance) {
	t := s.t
	t.Helper()
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	_, writes := s.reconcile("m")
	if want := "patch Node, delete Lease, patch NodeMaintenance"; writes != want {
		t.Errorf("wrote %s, want %s", writes, want)
	}
	if node := s.node("n1"); node.Spec.Unschedulable || len(node.Spec.Taints) != 0 || len(node.Labels) != 0 || len(node.Annotations) != 0 {
		t.Errorf("restored to %+v, %+v", node.Spec, node.ObjectMeta)
	}
	s.reconcile("m")
	if n := s.states.Len(); n != 0 {
		t.Errorf("%d NodeMaintenances have a state", n)
	}
}

// At rest nothing is written but the lease, every twenty minutes, for as long as the maintenance lasts, also after it has succeeded.
func TestReconcile_RenewsLease(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
	result := s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	for range 12 {
		if result.RequeueAfter <= 0 || result.RequeueAfter > nodelease.RenewAfter {
			t.Fatalf("reconciled again in %s", result.RequeueAfter)
		}
		s.clock.Step(result.RequeueAfter - time.Second)
		if _, writes := s.reconcile("m"); writes != "" {
			t.Fatalf("too early: %s", writes)
		}
		s.clock.Step(time.Second)
		var writes string
		if result, writes = s.reconcile("m"); writes != "update Lease" {
			t.Fatalf("wrote %q", writes)
		}
	}
	if got := s.emitted(); got != "BeginMaintenance SucceedMaintenance" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_NodeMissing(t *testing.T) {
	s := newFixture(t, newMaintenance("m", "n1"))
	s.settle("m")
	s.expect("m", medik8s.PhaseFailed, `nodes "n1" not found`, "Ready=NodeNotFound", "Cordoned=NotStarted")
	if got := s.status("m").LastError; got != `nodes "n1" not found` {
		t.Errorf("%q", got)
	}
	if err := s.client.Create(t.Context(), newNode("n1")); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
	if got := s.emitted(); got != "BeginMaintenance FailedMaintenance SucceedMaintenance" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_LeaseHeldByOther(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"), newLease("n1", "NodeHealthCheck-x", start))
	for range 8 {
		result, writes := s.reconcile("m")
		if strings.Contains(writes, "Node,") || result.RequeueAfter <= 0 || result.RequeueAfter > time.Minute {
			t.Fatalf("wrote %s, reconciled again in %s", writes, result.RequeueAfter)
		}
		s.clock.Step(result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "failed to obtain a lease that is not owned by us",
		"LeaseHeld=HeldByOther", "Ready=HeldByOther", "Cordoned=NotStarted")
	if status := s.status("m"); status.ErrorOnLeaseCount != 0 || status.TotalPods != 1 || status.EvictionPods != 1 {
		t.Errorf("%+v", status)
	}
	if s.node("n1").Spec.Unschedulable {
		t.Error("the node was cordoned")
	}
	s.clock.Step(time.Hour)
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
	if got := s.emitted(); got != "BeginMaintenance" {
		t.Errorf("emitted %s", got)
	}
}

// acquireLease has another holder acquire the lease.
func (s *fixture) acquireLease(holder string) {
	s.t.Helper()
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: nodelease.DefaultNamespace, Name: "node-n1"}
	if err := s.client.Get(s.t.Context(), key, lease); err != nil {
		s.t.Fatal(err)
	}
	at := metav1.NewMicroTime(s.clock.Now())
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, &at
	if err := s.client.Update(s.t.Context(), lease); err != nil {
		s.t.Fatal(err)
	}
}

// A lease that is lost for a short time has no consequence. A lease that stays lost before the node is drained ends the maintenance.
func TestReconcile_LeaseLost(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
	s.settle("m")
	s.acquireLease("x")
	for range 100 {
		s.reconcile("m")
	}
	s.expect("m", medik8s.PhaseRunning, "failed to extend a lease that used to be owned by us", "LeaseHeld=Lost", "Cordoned=Cordoned")
	if count := s.status("m").ErrorOnLeaseCount; count != 1 {
		t.Errorf("a hundred reconciliations at the same time count %d times", count)
	}
	s.acquireLease(Holder)
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held")
	if count := s.status("m").ErrorOnLeaseCount; count != 0 {
		t.Errorf("count %d", count)
	}
	s.clock.Step(time.Hour) // the failures of before are over
	s.acquireLease("x")
	for minutes := 0; s.status("m").Phase == medik8s.PhaseRunning; minutes++ {
		if minutes > 10 {
			t.Fatal("the maintenance does not end")
		}
		if !inMaintenance(s.node("n1")) {
			t.Fatalf("uncordoned after %d minutes", minutes)
		}
		s.clock.Step(time.Minute)
		s.reconcile("m")
	}
	s.expect("m", medik8s.PhaseFailed, "maintenance failed: lease could not be extended", "LeaseHeld=Lost", "Ready=Lost", "Cordoned=NotStarted")
	if s.node("n1").Spec.Unschedulable || s.status("m").ErrorOnLeaseCount <= 3 {
		t.Errorf("%+v, count %d", s.node("n1").Spec, s.status("m").ErrorOnLeaseCount)
	}
	// The new holder cordons the node, which Drover does not undo.
	apitest.Edit(t, s.client, newNode("n1"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.acquireLease("x")
	s.settle("m")
	s.expect("m", medik8s.PhaseFailed, "maintenance failed: lease could not be extended")
	if !s.node("n1").Spec.Unschedulable {
		t.Error("the cordon of the new holder is undone")
	}
	if got := s.emitted(); got != "BeginMaintenance UncordonNode FailedMaintenance" {
		t.Errorf("emitted %s", got)
	}
	// When the lease has expired, the maintenance starts again.
	s.clock.Step(2 * time.Hour)
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
}

// A user may be working on a node that has been drained: it stays cordoned, also when another holder has the lease.
func TestReconcile_LeaseLostAfterSuccess(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
	s.settle("m")
	s.acquireLease("x")
	for range 60 {
		s.clock.Step(time.Minute)
		s.acquireLease("x")
		s.reconcile("m")
	}
	s.expect("m", medik8s.PhaseSucceeded, "failed to extend a lease that used to be owned by us", "LeaseHeld=Lost", "Ready=Lost", "Cordoned=Cordoned")
	if !inMaintenance(s.node("n1")) {
		t.Error("the node is uncordoned")
	}
	s.clock.Step(2 * time.Hour)
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "LeaseHeld=Held", "Ready=InMaintenance")
	if got := s.emitted(); got != "BeginMaintenance SucceedMaintenance" {
		t.Errorf("emitted %s", got)
	}
}

func TestReconcile_OldestFirst(t *testing.T) {
	older, younger := newMaintenance("z", "n1"), newMaintenance("a", "n1")
	older.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newFixture(t, newNode("n1"), older, younger)
	s.settle("a")
	s.expect("a", medik8s.PhaseFailed, "a NodeMaintenance for node n1 already exists", "Ready=AnotherNodeMaintenance")
	s.settle("z")
	s.expect("z", medik8s.PhaseSucceeded, "")
	s.settle("a")
	s.read(older, "z")
	if err := s.client.Delete(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	s.reconcile("z")
	s.settle("a")
	s.expect("a", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
}

// The deletion of a NodeMaintenance that waits for the node does not end the drain of the first one.
func TestReconcile_WaitingOneDeleted(t *testing.T) {
	front, waits := newMaintenance("front", "n1"), newMaintenance("waits", "n1")
	front.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newFixture(t, newNode("n1"), front, waits, newPod("a", "n1"))
	s.settle("front")
	s.settle("waits")
	s.read(waits, "waits")
	if err := s.client.Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	s.reconcile("waits")
	s.reconcile("waits")
	if got := s.evicting(); got != 1 {
		t.Errorf("%v pods are still being evicted, want 1", got)
	}
	s.read(front, "front")
	if err := s.client.Delete(t.Context(), front); err != nil {
		t.Fatal(err)
	}
	s.reconcile("front")
	if got := s.evicting(); got != 0 {
		t.Errorf("%v pods are still being evicted after the end", got)
	}
}

// A NodeMaintenance that is deleted and created again under the same name, for another node, ends the drain of the earlier one and starts its own.
func TestReconcile_CreatedAgain(t *testing.T) {
	s := newFixture(t, newNode("n1"), newNode("n2"), newMaintenance("m", "n1"), newPod("a", "n1"), newPod("b", "n2"), newPod("c", "n2"))
	s.settle("m")
	if got := s.evicting(); got != 1 {
		t.Fatalf("%v pods are being evicted, want 1", got)
	}
	// Deleted by force, as the operator does not see it in between.
	apitest.Edit(t, s.client, newMaintenance("m", "n1"), func(m *medik8s.NodeMaintenance) { m.Finalizers = nil })
	if err := s.client.Delete(t.Context(), newMaintenance("m", "n1")); err != nil {
		t.Fatal(err)
	}
	again := newMaintenance("m", "n2")
	again.UID = "again"
	if err := s.client.Create(t.Context(), again); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "Drained=Draining")
	if status := s.status("m"); status.EvictionPods != 2 || !inMaintenance(s.node("n2")) {
		t.Errorf("%+v, cordoned %v", status, inMaintenance(s.node("n2")))
	}
	if got := s.evicting(); got != 2 {
		t.Errorf("%v pods are being evicted, want 2: the drain of the earlier one has not ended", got)
	}
	if got := s.emitted(); got != "BeginMaintenance BeginMaintenance" {
		t.Errorf("emitted %s", got)
	}
}

// Drover continues what node-maintenance-operator has begun, and undoes what that would undo.
func TestReconcile_ContinuesAfterNodeMaintenanceOperator(t *testing.T) {
	node := newNode("n1")
	node.Spec.Unschedulable, node.Labels = true, map[string]string{ExcludeLabel: "true"}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}, {Key: "medik8s.io/drain", Effect: "NoSchedule"}}
	object := newMaintenance("m", "n1")
	object.Finalizers = []string{medik8s.Finalizer}
	object.Status = medik8s.NodeMaintenanceStatus{Phase: medik8s.PhaseRunning, DrainProgress: -50, EvictionPods: 3, TotalPods: 4, LastError: "old"}
	s := newFixture(t, node, object, newLease("n1", Holder, start))
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	if status := s.status("m"); status.DrainProgress != 100 || status.EvictionPods != 3 || status.TotalPods != 4 {
		t.Errorf("%+v", status)
	}
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.reconcile("m")
	if node := s.node("n1"); node.Spec.Unschedulable || len(node.Spec.Taints) != 0 || len(node.Labels) != 0 {
		t.Errorf("%+v, %v", node.Spec, node.Labels)
	}
	if got := s.emitted(); strings.Contains(got, EventBegin) {
		t.Errorf("emitted %s", got)
	}
}

// The finalizer of another controller keeps the object: the maintenance does not start again.
func TestReconcile_FinalizerOfAnotherController(t *testing.T) {
	object := newMaintenance("m", "n1")
	object.Finalizers = []string{"example.com/keep"}
	s := newFixture(t, newNode("n1"), object)
	s.settle("m")
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.settle("m")
	if inMaintenance(s.node("n1")) {
		t.Error("cordoned again")
	}
	if _, writes := s.reconcile("m"); writes != "" {
		t.Errorf("wrote %s", writes)
	}
}

func TestReconcile_UncordonedByAnotherWriter(t *testing.T) {
	for policy, want := range map[plan.UncordonPolicy]bool{plan.Repair: true, plan.Report: false} {
		t.Run(string(policy), func(t *testing.T) {
			s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
			s.options.Uncordon = policy
			s.settle("m")
			s.emitted()
			apitest.Edit(t, s.client, newNode("n1"), func(n *corev1.Node) { n.Spec.Unschedulable = false })
			s.settle("m")
			if s.node("n1").Spec.Unschedulable != want {
				t.Errorf("cordoned: %v", !want)
			}
			if want {
				s.expect("m", medik8s.PhaseSucceeded, "", "Cordoned=Cordoned", "Ready=InMaintenance")
				if got := s.emitted(); got != EventCordonRestored {
					t.Errorf("emitted %q", got)
				}
				return
			}
			s.expect("m", medik8s.PhaseSucceeded, "another writer has undone: cordoned", "Cordoned=UncordonedByOther", "Ready=UncordonedByOther")
		})
	}
}

// holder returns the holder of a node's lease; empty for none.
func (s *fixture) holder(node string) string {
	s.t.Helper()
	var leases coordinationv1.LeaseList
	if err := s.client.List(s.t.Context(), &leases, client.InNamespace(nodelease.DefaultNamespace)); err != nil {
		s.t.Fatal(err)
	}
	for i := range leases.Items {
		if lease := &leases.Items[i]; lease.Name == nodelease.Name(node) && lease.Spec.HolderIdentity != nil {
			return *lease.Spec.HolderIdentity
		}
	}
	return ""
}

func TestReconcile_CordonRecords(t *testing.T) {
	for name, c := range map[string]struct{ record, reason string }{
		"cordoned for a Machine":      {`{"by":"Machine/x","since":"2026-07-01T10:00:00Z"}`, "HeldForOtherWork"},
		"invalid JSON":                {`{`, "RecordUnreadable"},
		"no owner":                    {`{}`, "RecordUnreadable"},
		"an owner of an unknown kind": {`{"by":"Unknown/x","object":"ns/m","since":"2026-07-01T10:00:00Z"}`, "RecordUnreadable"},
		"an invalid name":             {`{"by":"Machine/x","object":"ns/../m","since":"2026-07-01T10:00:00Z"}`, "RecordUnreadable"},
		"a maintenance that is gone":  {`{"by":"NodeMaintenance/old","since":"2026-07-01T10:00:00Z","cordoned":true}`, "Cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode("n1")
			node.Annotations = map[string]string{drain.AnnotationCordon: c.record}
			s := newFixture(t, node, newMaintenance("m", "n1"))
			s.settle("m")
			text := ""
			if c.reason != "Cordoned" {
				text = "n1"
			}
			s.expect("m", s.status("m").Phase, text, "Cordoned="+c.reason)
			if s.node("n1").Spec.Unschedulable != (c.reason == "Cordoned") {
				t.Errorf("%+v", s.node("n1").Spec)
			}
		})
	}
}

func TestReconcile_NodePatchFails(t *testing.T) {
	gone := apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("denied by policy"))
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
	s.Fail["patch Node"] = gone
	result, _ := s.reconcile("m")
	s.expect("m", medik8s.PhaseRunning, "denied by policy", "Cordoned=Denied")
	if result.RequeueAfter != controller.RetryDenied {
		t.Errorf("next try in %s", result.RequeueAfter)
	}
	s.Fail["patch Node"] = apierrors.NewConflict(corev1.Resource("nodes"), "n1", nil)
	for i, want := range []time.Duration{controller.RetryConflict, 2 * controller.RetryConflict, 4 * controller.RetryConflict} {
		if result, _ = s.reconcile("m"); result.RequeueAfter != want {
			t.Errorf("after conflict %d: next try in %s", i+1, result.RequeueAfter)
		}
	}
	s.Fail["patch Node"] = errors.New("connection refused")
	if _, err := s.Reconcile(t.Context(), requestFor("m")); err == nil {
		t.Error("a failure is not tried again with a backoff")
	}
	delete(s.Fail, "patch Node")
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
}
