package maintenance

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	kubevirt "github.com/drover-io/drover/api/kubevirt/v1beta1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/nodelease"
)

// staleCache lists the NodeMaintenances of both groups as they were when it was made, as a cache does whose watch lags.
type staleCache struct {
	client.Reader
	medik8s  medik8s.NodeMaintenanceList
	kubevirt kubevirt.NodeMaintenanceList
}

func newStaleCache(s *fixture) *staleCache {
	s.t.Helper()
	frozen := &staleCache{Reader: s.client}
	for _, list := range []client.ObjectList{&frozen.medik8s, &frozen.kubevirt} {
		if err := s.client.List(s.t.Context(), list); err != nil {
			s.t.Fatal(err)
		}
	}
	return frozen
}

func (c *staleCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch list := list.(type) {
	case *medik8s.NodeMaintenanceList:
		c.medik8s.DeepCopyInto(list)
	case *kubevirt.NodeMaintenanceList:
		c.kubevirt.DeepCopyInto(list)
	}
	return nil
}

// TestRelease_DeletedTogether deletes two NodeMaintenances of one node while the cache still shows each of them the other.
func TestRelease_DeletedTogether(t *testing.T) {
	for _, order := range [][]string{{"front", "waits"}, {"waits", "front"}} {
		t.Run(strings.Join(order, " before "), func(t *testing.T) {
			front, waits := newMaintenance("front", "n1"), newMaintenance("waits", "n1")
			front.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
			s := newFixture(t, newNode("n1"), front, waits)
			s.settle("front")
			s.settle("waits")
			for name, object := range map[string]*medik8s.NodeMaintenance{"front": front, "waits": waits} {
				s.read(object, name)
				if err := s.client.Delete(t.Context(), object); err != nil {
					t.Fatal(err)
				}
			}
			s.Registry.cache = newStaleCache(s)
			for _, name := range order {
				s.reconcile(name)
				if node := s.node("n1"); inMaintenance(node) && s.holder("n1") == "" {
					t.Errorf("after the end of %s the node is cordoned and its lease is released", name)
				}
			}
			if node := s.node("n1"); inMaintenance(node) || s.holder("n1") != "" {
				t.Errorf("cordoned %v, lease held by %q", inMaintenance(node), s.holder("n1"))
			}
		})
	}
}

// TestRelease_OtherDeletedMeanwhile deletes the NodeMaintenance that waits right after the first one has uncordoned the node.
func TestRelease_OtherDeletedMeanwhile(t *testing.T) {
	front, waits := newMaintenance("front", "n1"), newMaintenance("waits", "n1")
	front.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newFixture(t, newNode("n1"), front, waits)
	s.settle("front")
	s.settle("waits")
	if err := s.client.Delete(t.Context(), front); err != nil {
		t.Fatal(err)
	}
	s.Writer = deletesAfterPatch{s.client, waits}
	s.reconcile("front")
	s.Writer = s.client
	s.reconcile("waits")
	if node := s.node("n1"); inMaintenance(node) || s.holder("n1") != "" {
		t.Errorf("cordoned %v, lease held by %q", inMaintenance(node), s.holder("n1"))
	}
}

// TestRelease_OwnLeaseOfOlderGroup deletes a NodeMaintenance of the older group while one of the newer group continues.
func TestRelease_OwnLeaseOfOlderGroup(t *testing.T) {
	object := newKubevirt("older", "n1")
	object.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	s := newFixture(t, newNode("n1"), object, newMaintenance("m", "n1"))
	older := &fixture{t: t, Requests: s.Requests, Reconciler: NewReconciler(Kubevirt(), s.Dependencies, s.options), client: s.client, clock: s.clock}
	older.settle("older")
	s.settle("m")
	s.read(object, "older")
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	older.reconcile("older")
	lease := &coordinationv1.Lease{}
	if err := s.client.Get(t.Context(), types.NamespacedName{Namespace: "own", Name: "n1"}, lease); err != nil || lease.Spec.HolderIdentity != nil {
		t.Errorf("the second lease is %+v (%v)", lease.Spec, err)
	}
	if got := s.holder("n1"); got != Holder {
		t.Errorf("the lease, which the other NodeMaintenance needs, is held by %q", got)
	}
}

// TestReconcile_FirstReleasedWithFinalizer has another controller's finalizer keep a NodeMaintenance that has released its node.
func TestReconcile_FirstReleasedWithFinalizer(t *testing.T) {
	kept, next := newMaintenance("kept", "n1"), newMaintenance("next", "n1")
	kept.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
	kept.Finalizers = []string{"example.com/keep"}
	s := newFixture(t, newNode("n1"), kept, next)
	s.settle("kept")
	s.settle("next")
	s.expect("next", medik8s.PhaseFailed, "a NodeMaintenance for node n1 already exists")
	s.read(kept, "kept")
	if err := s.client.Delete(t.Context(), kept); err != nil {
		t.Fatal(err)
	}
	s.settle("kept")
	s.settle("next")
	s.expect("next", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
}

// TestLease_Denied has the API server deny the lease: the status says why, and no Pod is evicted.
func TestLease_Denied(t *testing.T) {
	missing := apierrors.NewNotFound(corev1.Resource("namespaces"), nodelease.DefaultNamespace)
	forbidden := apierrors.NewForbidden(corev1.Resource("namespaces"), nodelease.DefaultNamespace, errors.New("no Role"))
	for name, test := range map[string]struct {
		fail         map[string]error
		reason, text string
	}{
		"namespace missing, and Drover may not create it": {
			map[string]error{"create Lease": missing, "create Namespace": forbidden}, "LeaseNamespaceMissing",
			"namespace medik8s-leases, where the leases of nodes are, does not exist: create it",
		},
		"namespace missing with its Role": {
			map[string]error{"create Lease": forbidden}, "Denied", "make sure that namespace medik8s-leases and Drover's Role in it exist",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
			s.Fail = test.fail
			if result, _ := s.reconcile("m"); result.RequeueAfter != controller.RetryDenied {
				t.Errorf("the next attempt is in %s", result.RequeueAfter)
			}
			s.expect("m", medik8s.PhaseRunning, test.text, "LeaseHeld="+test.reason, "Ready="+test.reason, "Cordoned=NotStarted")
			if inMaintenance(s.node("n1")) || s.evicting() != 0 {
				t.Error("the node is cordoned without its lease")
			}
			clear(s.Fail)
			s.settle("m")
			s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
		})
	}
}

// TestLease_RenewalDenied keeps the cordon and stops the drain.
func TestLease_RenewalDenied(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
	s.settle("m")
	s.Fail["update Lease"] = apierrors.NewForbidden(corev1.Resource("leases"), "node-n1", errors.New("no Role"))
	s.clock.Step(nodelease.RenewAfter)
	s.reconcile("m")
	s.expect("m", medik8s.PhaseRunning, "no Role", "LeaseHeld=Denied", "Cordoned=Cordoned")
	if !inMaintenance(s.node("n1")) || s.evicting() != 0 {
		t.Errorf("cordoned %v, %v pods are being evicted", inMaintenance(s.node("n1")), s.evicting())
	}
	clear(s.Fail)
	s.settle("m")
	s.expect("m", medik8s.PhaseRunning, "", "LeaseHeld=Held", "Cordoned=Cordoned")
	if s.evicting() != 1 {
		t.Error("the drain does not continue")
	}
}

// TestRelease_InvalidSpec deletes NodeMaintenances whose spec.drain is older than the validation in the schema. The release does not read it.
func TestRelease_InvalidSpec(t *testing.T) {
	longest, shortest := &metav1.Duration{Duration: math.MaxInt64}, &metav1.Duration{Duration: math.MinInt64}
	for name, invalid := range map[string]*medik8s.DrainSpec{
		"durations that overflow": {Deadline: longest, Force: true, MinimumTime: longest, WaitForVolumes: true, VolumesTimeout: longest},
		"negative durations":      {Deadline: shortest, Force: true, MinimumTime: shortest, VolumesTimeout: shortest},
		"unknown values":          {Order: "?", Unreachable: "?", Honor: []medik8s.Convention{"?"}},
		"an invalid selector": {PodRules: []medik8s.PodRule{{PodSelector: &metav1.LabelSelector{
			MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "", Operator: "?"}},
		}}}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"), newPod("a", "n1"))
			s.settle("m")
			apitest.Edit(t, s.client, newMaintenance("m", "n1"), func(m *medik8s.NodeMaintenance) { m.Spec.Drain = invalid })
			s.reconcile("m")
			if status := s.status("m"); status.Phase != medik8s.PhaseRunning {
				t.Errorf("before the deletion it is %s: %s", status.Phase, status.LastError)
			}
			object := newMaintenance("m", "n1")
			s.read(object, "m")
			s.deleteAndCheck(object)
		})
	}
}
