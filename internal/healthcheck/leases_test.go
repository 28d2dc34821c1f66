package healthcheck

import (
	"errors"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/controller/delay"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

func TestRemediate_AcquiresLease(t *testing.T) {
	s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("unw")...)
	s.mustReconcile("c", "delete Machine/m1, "+statusC)
	// The machine controller goes on with the lease.
	s.mustReconcile("c", "create Lease/node-n-m0, delete Machine/m0, "+statusC)
	s.mustReconcile("c", "")
	if got := s.leaseHolder("n-m0"); got != holder {
		t.Errorf("held by %q", got)
	}
}

// leaseHolder returns the holder of the lease of a node; empty for none.
func (s *fixture) leaseHolder(node string) string {
	lease := &coordinationv1.Lease{}
	key := types.NamespacedName{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name(node)}
	if err := s.client.Get(s.t.Context(), key, lease); err != nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}

func TestRemediate_LeaseOfAnotherHolder(t *testing.T) {
	s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, append(newObjects("uuw"), newLease("n-m0", "node-maintenance"))...)
	if result := s.mustReconcile("c", "create Lease/node-n-m1, delete Machine/m1, "+statusC); result.RequeueAfter != delay.Lease {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
	s.expectStatus("c", "3 1 1", "RemediationProgressing=False/LeaseHeldByOther")
	if got := s.conditionMessage("c", plan.ConditionProgressing); got != `Machine m0: the lease of node n-m0 is held by "node-maintenance"` {
		t.Errorf("%s", got)
	}
	s.mustReconcile("c", "")
	if got := s.emitted(); got != "Normal DetectedUnhealthy, Normal DetectedUnhealthy, Normal MachineDeleted, Warning RemediationDeferred" {
		t.Errorf("emitted %s", got)
	}
	if err := s.client.Delete(t.Context(), newLease("n-m0", "")); err != nil {
		t.Fatal(err)
	}
	s.mustReconcile("c", "create Lease/node-n-m0, delete Machine/m0, "+statusC)
	s.expectStatus("c", "3 1 1", nothingToDo)
}

// A lease keeps other controllers from the node: where the deletion is denied it is released, and else it expires soon.
func TestRemediate_LeaseWithoutDeletion(t *testing.T) {
	forbidden := apierrors.NewForbidden(machinev1beta1.GroupVersion.WithResource("machines").GroupResource(), "m0", errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		want string
	}{"denied": {forbidden, ""}, "not answered": {errors.New("no answer"), holder}} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uw")...)
			s.Fail["delete Machine"] = c.err
			if _, _, err := s.reconcile("c"); (err == nil) != apierrors.IsForbidden(c.err) {
				t.Errorf("error %v", err)
			}
			if got := s.leaseHolder("n-m0"); got != c.want {
				t.Errorf("held by %q, want %q", got, c.want)
			}
			s.clock.SetTime(s.clock.Now().Add(nodelease.Trial + time.Second))
			other := &nodelease.Leases{Client: s.client, Namespace: nodelease.DefaultNamespace, Holder: "another", Clock: s.clock}
			if _, err := other.Acquire(t.Context(), newNode("n-m0")); err != nil {
				t.Errorf("another controller waits: %v", err)
			}
		})
	}
}

func TestRemediate_LeaseCannotBeAcquired(t *testing.T) {
	s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uw")...)
	s.Fail["get Lease"] = errors.New("no answer")
	if _, writes, err := s.reconcile("c"); err == nil || writes != statusC {
		t.Errorf("wrote %s, error %v", writes, err)
	}
	s.Fail = map[string]error{"create Lease": apierrors.NewAlreadyExists(coordinationv1.Resource("leases"), "node-n-m0")}
	if result := s.mustReconcile("c", "create Lease/node-n-m0, "+statusC); result.RequeueAfter != controller.RetryConflict {
		t.Errorf("requeues after %s", result.RequeueAfter)
	}
}
