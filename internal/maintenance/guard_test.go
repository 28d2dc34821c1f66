package maintenance

import (
	"context"
	"errors"
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/controller"
)

// fakeGuard denies the nth request.
type fakeGuard struct {
	requests, deny int
	locked         bool
	// err is the answer to the first request.
	err error
}

func (g *fakeGuard) Lock(ctx context.Context) (context.Context, func()) {
	g.locked = true
	return ctx, func() { g.locked = false }
}

func (g *fakeGuard) Applies(*corev1.Node) bool { return true }

func (g *fakeGuard) Check(context.Context, *corev1.Node) (string, error) {
	if !g.locked {
		return "", errors.New("the guard is asked without the lock")
	}
	if g.requests++; g.requests == g.deny {
		return "too few are Ready", nil
	}
	err := g.err
	g.err = nil
	return "", err
}

// The status reports what the guard may not read.
func TestReconcile_GuardDenied(t *testing.T) {
	s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
	s.Guard = &fakeGuard{err: apierrors.NewForbidden(coordinationv1.Resource("leases"), "", errors.New("no Role allows to list"))}
	if result, _ := s.reconcile("m"); result.RequeueAfter != controller.RetryDenied {
		t.Errorf("again in %s", result.RequeueAfter)
	}
	s.expect("m", medik8s.PhaseRunning, "no Role allows to list", "Cordoned=ControlPlaneQuorumUnknown", "Ready=ControlPlaneQuorumUnknown")
	if inMaintenance(s.node("n1")) || s.holder("n1") != "" {
		t.Errorf("cordoned: %v; the lease is held by %q", inMaintenance(s.node("n1")), s.holder("n1"))
	}
	s.settle("m")
	s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
}

// A lease keeps remediators away: a maintenance that may not start has none, whether the guard denied it before or after it acquired the lease.
func TestReconcile_QuorumBlocked(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased before: %v", leased), func(t *testing.T) {
			s := newFixture(t, newNode("n1"), newMaintenance("m", "n1"))
			guard := &fakeGuard{deny: 1}
			s.Guard = guard
			if leased {
				guard.deny = 3
				s.Fail["patch Node"] = apierrors.NewForbidden(corev1.Resource("nodes"), "n1", errors.New("no"))
				s.reconcile("m")
				if s.holder("n1") == "" {
					t.Fatal("the lease is not held")
				}
				delete(s.Fail, "patch Node")
				guard.deny = guard.requests + 1
			}
			s.reconcile("m")
			s.expect("m", medik8s.PhaseRunning, "too few are Ready", "Cordoned=ControlPlaneQuorum")
			if inMaintenance(s.node("n1")) || s.holder("n1") != "" {
				t.Errorf("cordoned: %v; the lease is held by %q", inMaintenance(s.node("n1")), s.holder("n1"))
			}
			s.settle("m")
			s.expect("m", medik8s.PhaseSucceeded, "", "Ready=InMaintenance")
			if s.holder("n1") != Holder || !inMaintenance(s.node("n1")) {
				t.Errorf("the lease is held by %q", s.holder("n1"))
			}
		})
	}
}
