package healthcheck

import (
	"errors"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/paused"
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
	if result := s.mustReconcile("c", "create Lease/node-n-m1, delete Machine/m1, "+statusC); result.RequeueAfter != retryLease {
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

// A lease that is not needed keeps other controllers from the node.
func TestReleaseLeases_MachineNotDeleted(t *testing.T) {
	forbidden := apierrors.NewForbidden(machinev1beta1.GroupVersion.WithResource("machines").GroupResource(), "m0", errors.New("no"))
	for name, c := range map[string]struct {
		err  error
		then func(s *fixture)
		want string
	}{
		"the deletion is denied": {forbidden, func(*fixture) {}, ""},
		"the node recovers": {errors.New("no answer"), func(s *fixture) {
			edit(s, newNode("n-m0"), func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue })
		}, ""},
		"another client deletes it": {errors.New("no answer"), func(s *fixture) {
			delete(s.Fail, "delete Machine")
			if err := s.client.Delete(s.t.Context(), newMachine("m0", "")); err != nil {
				s.t.Fatal(err)
			}
		}, holder},
		"the deletion is tried again": {errors.New("no answer"), func(*fixture) {}, holder},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uw")...)
			s.Fail["delete Machine"] = c.err
			if _, _, err := s.reconcile("c"); (err == nil) != apierrors.IsForbidden(c.err) {
				t.Errorf("error %v", err)
			}
			c.then(s)
			if _, _, err := s.reconcile("c"); err != nil && c.want == "" {
				t.Errorf("error %v", err)
			}
			if got := s.leaseHolder("n-m0"); got != c.want {
				t.Errorf("held by %q, want %q", got, c.want)
			}
		})
	}
}

// The deletion of a Machine fails, and then the MachineHealthCheck does not remediate it any more: the lease would stay for an hour.
func TestReleaseLeases_MachineHealthCheckNotActive(t *testing.T) {
	gone := func(s *fixture) {
		if err := s.client.Delete(s.t.Context(), newCheck("c")); err != nil {
			s.t.Fatal(err)
		}
	}
	machineGone := func(s *fixture) {
		edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Finalizers = nil })
		if err := s.client.Delete(s.t.Context(), newMachine("m0", "")); err != nil {
			s.t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		then func(s *fixture)
		want string
	}{
		"deleted": {gone, ""},
		"deleted and created again": {func(s *fixture) {
			gone(s)
			again := newCheck("c", limit("0"))
			again.UID = "another"
			if err := s.client.Create(s.t.Context(), again); err != nil {
				s.t.Fatal(err)
			}
		}, ""},
		"paused": {func(s *fixture) {
			edit(s, newCheck("c"), func(c *machinev1beta1.MachineHealthCheck) { c.Annotations = map[string]string{paused.Annotation: ""} })
		}, ""},
		"Machine not selected": {func(s *fixture) {
			edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Labels = nil })
		}, ""},
		"deleted, Machine deleted": {func(s *fixture) {
			gone(s)
			if err := s.client.Delete(s.t.Context(), newMachine("m0", "")); err != nil {
				s.t.Fatal(err)
			}
		}, holder},
		"deleted, Machine gone": {func(s *fixture) { gone(s); machineGone(s) }, holder},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uw")...)
			s.Fail["delete Machine"] = errors.New("no answer")
			if _, _, err := s.reconcile("c"); err == nil || s.leaseHolder("n-m0") != holder {
				t.Fatalf("error %v, the lease is held by %q", err, s.leaseHolder("n-m0"))
			}
			delete(s.Fail, "delete Machine")
			c.then(s)
			if _, _, err := s.reconcile("c"); err != nil {
				t.Error(err)
			}
			if got := s.leaseHolder("n-m0"); got != c.want {
				t.Errorf("the lease is held by %q, want %q", got, c.want)
			}
		})
	}
}

func TestReleaseLeases_Errors(t *testing.T) {
	leases := coordinationv1.Resource("leases")
	for name, c := range map[string]struct {
		at      string
		err     error
		retried bool
	}{
		"Machine not read": {"get Machine", errors.New("no answer"), true},
		"conflict":         {"delete Lease", apierrors.NewConflict(leases, "node-n-m0", errors.New("changed")), true},
		"denied":           {"delete Lease", apierrors.NewForbidden(leases, "node-n-m0", errors.New("no")), false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newFixture(t, Options{Leases: &nodelease.Leases{Holder: holder}}, newObjects("uw")...)
			s.Fail["delete Machine"] = errors.New("no answer")
			if _, _, err := s.reconcile("c"); err == nil {
				t.Fatal("the Machine is deleted")
			}
			if err := s.client.Delete(t.Context(), newCheck("c")); err != nil {
				t.Fatal(err)
			}
			s.Fail = map[string]error{c.at: c.err}
			if result, _, err := s.reconcile("c"); (err != nil || result.RequeueAfter > 0) != c.retried {
				t.Errorf("error %v, requeues after %s", err, result.RequeueAfter)
			}
			s.Fail = map[string]error{}
			if _, _, err := s.reconcile("c"); err != nil || s.leaseHolder("n-m0") == "" != c.retried {
				t.Errorf("error %v, the lease is held by %q", err, s.leaseHolder("n-m0"))
			}
			if s.leases.Len() != 0 {
				t.Error("leases remain")
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
