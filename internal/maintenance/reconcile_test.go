package maintenance

import (
	"context"
	"errors"
	"fmt"
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
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/nodelease"
)

func TestAWholeMaintenance(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"), podOf("b", "n2"))
	_, writes := s.pass("m")
	if want := "patch NodeMaintenance, create Lease, patch Node, status NodeMaintenance"; writes != want {
		t.Errorf("wrote %s, want %s", writes, want)
	}
	s.expect("m", medik8s.PhaseRunning, "", "Ready=Draining", "LeaseHeld=Held", "Cordoned=Cordoned", "Drained=Draining")
	if status := s.status("m"); status.TotalPods != 1 || status.EvictionPods != 1 || status.DrainProgress != 0 || len(status.PendingPodsRefs) != 1 ||
		status.PendingPods[0] != "a" {
		t.Errorf("%+v", status)
	}
	if !held(s.node("n1")) {
		t.Errorf("%+v", s.node("n1"))
	}
	object := maintenanceOf("m", "n1")
	s.read(object, "m")
	if len(object.OwnerReferences) != 1 || object.OwnerReferences[0].UID != "uid-of-n1" || object.Finalizers[0] != medik8s.Finalizer {
		t.Errorf("%+v", object.ObjectMeta)
	}
	if err := s.client.Delete(t.Context(), podOf("a", "n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance", "Drained=Drained")
	if status := s.status("m"); status.DrainProgress != 100 || status.PendingPods != nil || status.PendingPodsRefs != nil {
		t.Errorf("%+v", status)
	}
	s.givesBack(object)
	if got, want := s.told(), "BeginMaintenance SucceedMaintenance UncordonNode RemovedMaintenance"; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// givesBack deletes the maintenance m and checks that its node n1 is plain again.
func (s *stage) givesBack(object *medik8s.NodeMaintenance) {
	t := s.t
	t.Helper()
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	_, writes := s.pass("m")
	if want := "patch Node, delete Lease, patch NodeMaintenance"; writes != want {
		t.Errorf("wrote %s, want %s", writes, want)
	}
	if node := s.node("n1"); node.Spec.Unschedulable || len(node.Spec.Taints) != 0 || len(node.Labels) != 0 || len(node.Annotations) != 0 {
		t.Errorf("given back as %+v, %+v", node.Spec, node.ObjectMeta)
	}
	s.pass("m")
	if n := s.states.Len(); n != 0 {
		t.Errorf("%d NodeMaintenances have a state", n)
	}
}

// At rest nothing is written but the lease, every twenty minutes, for as long as the maintenance lasts, also after it has succeeded.
func TestTheLeaseIsRenewed(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
	result := s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	for range 12 {
		if result.RequeueAfter <= 0 || result.RequeueAfter > nodelease.RenewAfter {
			t.Fatalf("next look in %s", result.RequeueAfter)
		}
		s.clock.Step(result.RequeueAfter - time.Second)
		if _, writes := s.pass("m"); writes != "" {
			t.Fatalf("too early: %s", writes)
		}
		s.clock.Step(time.Second)
		var writes string
		if result, writes = s.pass("m"); writes != "update Lease" {
			t.Fatalf("wrote %q", writes)
		}
	}
	if got := s.told(); got != "BeginMaintenance SucceedMaintenance" {
		t.Errorf("told %s", got)
	}
}

func TestTheNodeIsMissing(t *testing.T) {
	s := newStage(t, maintenanceOf("m", "n1"))
	s.rest("m")
	s.expect("m", medik8s.PhaseFailed, `nodes "n1" not found`, "Ready=NodeNotFound", "Cordoned=NotStarted")
	if got := s.status("m").LastError; got != `nodes "n1" not found` {
		t.Errorf("%q", got)
	}
	if err := s.client.Create(t.Context(), nodeOf("n1")); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
	if got := s.told(); got != "BeginMaintenance FailedMaintenance SucceedMaintenance" {
		t.Errorf("told %s", got)
	}
}

func TestTheLeaseIsSomebodyElses(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"), leaseOf("n1", "NodeHealthCheck-x", start))
	for range 8 {
		result, writes := s.pass("m")
		if strings.Contains(writes, "Node,") || result.RequeueAfter <= 0 || result.RequeueAfter > retryLease {
			t.Fatalf("wrote %s, next look in %s", writes, result.RequeueAfter)
		}
		s.clock.Step(result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, textNotObtained, "LeaseHeld=HeldByOther", "Ready=HeldByOther", "Cordoned=NotStarted")
	if status := s.status("m"); status.ErrorOnLeaseCount != 0 || status.TotalPods != 1 || status.EvictionPods != 1 {
		t.Errorf("%+v", status)
	}
	if s.node("n1").Spec.Unschedulable {
		t.Error("the node was cordoned")
	}
	s.clock.Step(time.Hour)
	s.rest("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
	if got := s.told(); got != "BeginMaintenance" {
		t.Errorf("told %s", got)
	}
}

// steal gives the lease to somebody else, who keeps renewing it.
func (s *stage) steal(holder string) {
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

// A lease that is lost for a moment costs nothing. One that is lost for good before the drain is done ends the maintenance, after a time.
func TestALostLease(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"), podOf("a", "n1"))
	s.rest("m")
	s.steal("x")
	for range 100 {
		s.pass("m")
	}
	s.expect("m", medik8s.PhaseRunning, textNotExtended, "LeaseHeld=Lost", "Cordoned=Cordoned")
	if count := s.status("m").ErrorOnLeaseCount; count != 1 {
		t.Errorf("a hundred looks in no time count %d times", count)
	}
	s.steal(Holder)
	s.rest("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held")
	if count := s.status("m").ErrorOnLeaseCount; count != 0 {
		t.Errorf("count %d", count)
	}
	s.clock.Step(time.Hour) // the failures of before are over
	s.steal("x")
	for minutes := 0; s.status("m").Phase == medik8s.PhaseRunning; minutes++ {
		if minutes > 10 {
			t.Fatal("it goes on for ever")
		}
		if !held(s.node("n1")) {
			t.Fatalf("given back after %d minutes", minutes)
		}
		s.clock.Step(time.Minute)
		s.pass("m")
	}
	s.expect("m", medik8s.PhaseFailed, textGivenUp, "LeaseHeld=Lost", "Ready=Lost", "Cordoned=NotStarted")
	if s.node("n1").Spec.Unschedulable || s.status("m").ErrorOnLeaseCount <= maxLeaseErrors {
		t.Errorf("%+v, count %d", s.node("n1").Spec, s.status("m").ErrorOnLeaseCount)
	}
	// The new holder cordons the node: that is none of ours to undo.
	update(s, &corev1.Node{}, "n1", func(n *corev1.Node) { n.Spec.Unschedulable = true })
	s.steal("x")
	s.rest("m")
	s.expect("m", medik8s.PhaseFailed, textGivenUp)
	if !s.node("n1").Spec.Unschedulable {
		t.Error("uncordoned under the new holder's hands")
	}
	if got := s.told(); got != "BeginMaintenance UncordonNode FailedMaintenance" {
		t.Errorf("told %s", got)
	}
	// When the lease is free again the maintenance is still asked for.
	s.clock.Step(2 * time.Hour)
	s.rest("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
}

// On a node that has been drained somebody may be at work: it stays as it is, whoever has the lease.
func TestALeaseLostAfterSuccess(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
	s.rest("m")
	s.steal("x")
	for range 60 {
		s.clock.Step(time.Minute)
		s.steal("x")
		s.pass("m")
	}
	s.expect("m", medik8s.PhaseSucceeded, textNotExtended, "LeaseHeld=Lost", "Ready=Lost", "Cordoned=Cordoned")
	if !held(s.node("n1")) {
		t.Error("given back")
	}
	s.clock.Step(2 * time.Hour)
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "LeaseHeld=Held", "Ready=InMaintenance")
	if got := s.told(); got != "BeginMaintenance SucceedMaintenance" {
		t.Errorf("told %s", got)
	}
}

func TestTheOldestWins(t *testing.T) {
	older, younger := maintenanceOf("z", "n1"), maintenanceOf("a", "n1")
	older.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newStage(t, nodeOf("n1"), older, younger)
	s.rest("a")
	s.expect("a", medik8s.PhaseFailed, "a NodeMaintenance for node n1 already exists", "Ready=AnotherNodeMaintenance")
	s.rest("z")
	s.expect("z", medik8s.PhaseSucceeded, "")
	s.rest("a")
	s.read(older, "z")
	if err := s.client.Delete(t.Context(), older); err != nil {
		t.Fatal(err)
	}
	s.pass("z")
	s.rest("a")
	s.expect("a", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
}

// One that waits for the node, and goes, must not end the drain of the one in front.
func TestOneThatWaitsEndsNothing(t *testing.T) {
	front, waits := maintenanceOf("front", "n1"), maintenanceOf("waits", "n1")
	front.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newStage(t, nodeOf("n1"), front, waits, podOf("a", "n1"))
	s.rest("front")
	s.rest("waits")
	s.read(waits, "waits")
	if err := s.client.Delete(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	s.pass("waits")
	s.pass("waits")
	if got := s.evicting(); got != 1 {
		t.Errorf("%v pods are still being evicted, want 1", got)
	}
	s.read(front, "front")
	if err := s.client.Delete(t.Context(), front); err != nil {
		t.Fatal(err)
	}
	s.pass("front")
	if got := s.evicting(); got != 0 {
		t.Errorf("%v pods are still being evicted after the end", got)
	}
}

// What the incumbent began is gone on with, and what it would undo is undone.
func TestAnIncumbentsMaintenanceIsTakenOver(t *testing.T) {
	node := nodeOf("n1")
	node.Spec.Unschedulable, node.Labels = true, map[string]string{ExcludeLabel: "true"}
	node.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeUnschedulable, Effect: "NoSchedule"}, {Key: "medik8s.io/drain", Effect: "NoSchedule"}}
	object := maintenanceOf("m", "n1")
	object.Finalizers = []string{medik8s.Finalizer}
	object.Status = medik8s.NodeMaintenanceStatus{Phase: medik8s.PhaseRunning, DrainProgress: -50, EvictionPods: 3, TotalPods: 4, LastError: "old"}
	s := newStage(t, node, object, leaseOf("n1", Holder, start))
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
	if status := s.status("m"); status.DrainProgress != 100 || status.EvictionPods != 3 || status.TotalPods != 4 {
		t.Errorf("%+v", status)
	}
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.pass("m")
	if node := s.node("n1"); node.Spec.Unschedulable || len(node.Spec.Taints) != 0 || len(node.Labels) != 0 {
		t.Errorf("%+v, %v", node.Spec, node.Labels)
	}
	if got := s.told(); strings.Contains(got, EventBegin) {
		t.Errorf("told %s", got)
	}
}

// A foreign finalizer keeps the object: it must not begin anew.
func TestAForeignFinalizer(t *testing.T) {
	object := maintenanceOf("m", "n1")
	object.Finalizers = []string{"somebody.else/x"}
	s := newStage(t, nodeOf("n1"), object)
	s.rest("m")
	s.read(object, "m")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.rest("m")
	if held(s.node("n1")) {
		t.Error("cordoned again")
	}
	if _, writes := s.pass("m"); writes != "" {
		t.Errorf("wrote %s", writes)
	}
}

func TestSomebodyUncordons(t *testing.T) {
	for policy, want := range map[UncordonPolicy]bool{Repair: true, Report: false} {
		t.Run(string(policy), func(t *testing.T) {
			s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
			s.options.Uncordon = policy
			s.rest("m")
			s.told()
			update(s, &corev1.Node{}, "n1", func(n *corev1.Node) { n.Spec.Unschedulable = false })
			s.rest("m")
			if s.node("n1").Spec.Unschedulable != want {
				t.Errorf("cordoned: %v", !want)
			}
			if want {
				s.expect("m", medik8s.PhaseSucceeded, "", "Cordoned=Cordoned", "Ready=InMaintenance")
				if got := s.told(); got != EventCordonRestored {
					t.Errorf("told %q", got)
				}
				return
			}
			s.expect("m", medik8s.PhaseSucceeded, "somebody else has undone cordoned", "Cordoned=UncordonedByOther", "Ready=UncordonedByOther")
		})
	}
}

// spares is a guard that says no when it is asked for the nth time.
type spares struct {
	asked, no int
	locked    bool
	// err is the answer when it is asked the first time.
	err error
}

func (g *spares) Lock(ctx context.Context) (context.Context, func()) {
	g.locked = true
	return ctx, func() { g.locked = false }
}

func (g *spares) Applies(*corev1.Node) bool { return true }

func (g *spares) Check(context.Context, *corev1.Node) (string, error) {
	if !g.locked {
		return "", errors.New("the guard is asked without its lock")
	}
	if g.asked++; g.asked == g.no {
		return "too few are Ready", nil
	}
	err := g.err
	g.err = nil
	return "", err
}

// What the guard may not read is reported: nothing else would say why nothing happens.
func TestReconcile_GuardMayNotListLeases(t *testing.T) {
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
	s.Guard = &spares{err: apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))}
	if result, _ := s.pass("m"); result.RequeueAfter != retryDenied {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "no Role allows to list", "Cordoned=ControlPlaneQuorumUnknown", "Ready=ControlPlaneQuorumUnknown")
	if held(s.node("n1")) || s.holder("n1") != "" {
		t.Errorf("cordoned: %v; the lease is held by %q", held(s.node("n1")), s.holder("n1"))
	}
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
}

// A lease keeps remediators away, so a maintenance that may not begin holds none, whether it was refused before it acquired the lease or after.
func TestReconcile_RefusedByTheGuard(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased before: %v", leased), func(t *testing.T) {
			s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
			guard := &spares{no: 1}
			s.Guard = guard
			if leased {
				guard.no = 3
				s.fail["patch Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("no"))
				s.pass("m")
				if s.holder("n1") == "" {
					t.Fatal("the lease is not held")
				}
				delete(s.fail, "patch Node")
				guard.no = guard.asked + 1
			}
			s.pass("m")
			s.expect("m", medik8s.PhaseRunning, "too few are Ready", "Cordoned=ControlPlaneQuorum")
			if held(s.node("n1")) || s.holder("n1") != "" {
				t.Errorf("cordoned: %v; the lease is held by %q", held(s.node("n1")), s.holder("n1"))
			}
			s.rest("m")
			s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
			if s.holder("n1") != Holder || !held(s.node("n1")) {
				t.Errorf("the lease is held by %q", s.holder("n1"))
			}
		})
	}
}

// holder is who has a node's lease; empty for nobody.
func (s *stage) holder(node string) string {
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

func TestRecordsOfOthers(t *testing.T) {
	for name, c := range map[string]struct{ record, reason string }{
		"other work of Drover":       {`{"by":"Machine/x","since":"2026-07-01T10:00:00Z"}`, "HeldForOtherWork"},
		"garbage":                    {`{`, "RecordUnreadable"},
		"no owner":                   {`{}`, "RecordUnreadable"},
		"an owner of no known kind":  {`{"by":"Somebody/x","object":"ns/m","since":"2026-07-01T10:00:00Z"}`, "RecordUnreadable"},
		"a name that cannot be":      {`{"by":"Machine/x","object":"ns/../m","since":"2026-07-01T10:00:00Z"}`, "RecordUnreadable"},
		"a maintenance that is gone": {`{"by":"NodeMaintenance/old","since":"2026-07-01T10:00:00Z","cordoned":true}`, "Cordoned"},
	} {
		t.Run(name, func(t *testing.T) {
			node := nodeOf("n1")
			node.Annotations = map[string]string{drain.AnnotationCordon: c.record}
			s := newStage(t, node, maintenanceOf("m", "n1"))
			s.rest("m")
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

func TestAnswersOfTheApiServer(t *testing.T) {
	gone := apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("denied by policy"))
	s := newStage(t, nodeOf("n1"), maintenanceOf("m", "n1"))
	s.fail["patch Node"] = gone
	result, _ := s.pass("m")
	s.expect("m", medik8s.PhaseRunning, "denied by policy", "Cordoned=Denied")
	if result.RequeueAfter != retryDenied {
		t.Errorf("next try in %s", result.RequeueAfter)
	}
	s.fail["patch Node"] = apierrors.NewConflict(corev1.Resource("nodes"), "n1", nil)
	for i, want := range []time.Duration{controller.RetryConflict, 2 * controller.RetryConflict, 4 * controller.RetryConflict} {
		if result, _ = s.pass("m"); result.RequeueAfter != want {
			t.Errorf("after conflict %d: next try in %s", i+1, result.RequeueAfter)
		}
	}
	s.fail["patch Node"] = errors.New("connection refused")
	if _, err := s.Reconcile(t.Context(), named("m")); err == nil {
		t.Error("a failure is not tried again with back-off")
	}
	delete(s.fail, "patch Node")
	s.rest("m")
	s.expect("m", medik8s.PhaseSucceeded, "")
}
