package maintenance

import (
	"context"
	"errors"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// budgetFixture has a node in a NodeGroup whose window can be closed.
type budgetFixture struct {
	*fixture

	groups client.Client
	window disruptionplan.Window
}

// GroupOf returns the one NodeGroup.
func (*budgetFixture) GroupOf(context.Context, string) (string, error) { return "workers", nil }

// Members returns its one Node.
func (*budgetFixture) Members(context.Context, string) ([]*corev1.Node, error) {
	return []*corev1.Node{newNode("n1")}, nil
}

// Machines returns none.
func (*budgetFixture) Machines(context.Context, string, time.Time) (machines disruptionplan.Machines, err error) {
	return machines, nil
}

func newBudgetFixture(t *testing.T) *budgetFixture {
	t.Helper()
	known := apitest.Scheme(t, scheme.AddToScheme, v1alpha1.AddToScheme)
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	group.Spec.Disruption = &v1alpha1.Disruption{PersonMaintenance: v1alpha1.PersonQueue}
	f := &budgetFixture{fixture: newFixture(t, newNode("n1"), newMaintenance("m", "n1"))}
	f.groups = fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(group).WithObjects(group).Build()
	f.Budgets = disruption.New(disruption.Options{
		Reader: f.groups, Writer: f.groups, Membership: f, Clock: f.clock,
		Windows: func(*v1alpha1.NodeGroup, time.Time) disruptionplan.Window { return f.window },
	})
	return f
}

// fail has a reconciliation fail after its admission.
func (f *budgetFixture) fail(request string) {
	f.t.Helper()
	f.Fail[request] = errors.New("broken")
	if _, err := f.Reconcile(f.t.Context(), requestFor("m")); err == nil {
		f.t.Fatal("the reconciliation does not fail")
	}
	delete(f.Fail, request)
}

// The window closes between the admission and the cordon.
func TestBudget_WindowClosesBeforeCordon(t *testing.T) {
	f := newBudgetFixture(t)
	f.fail("patch Node")
	f.window = disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "no window is open"}
	f.settle("m")
	f.expect("m", medik8s.PhaseRunning, "no window is open", "Cordoned=WaitingForBudget")
	if f.holder() != "" {
		t.Errorf("a maintenance that waits keeps the lease for %s", f.holder())
	}
	f.window = disruptionplan.Window{}
	f.settle("m")
	f.expect("m", medik8s.PhaseSucceeded, "")
}

// holder returns the holder of the lease of the node; empty for none.
func (f *budgetFixture) holder() string {
	f.t.Helper()
	lease := &coordinationv1.Lease{}
	err := f.client.Get(f.t.Context(), client.ObjectKey{Namespace: nodelease.DefaultNamespace, Name: nodelease.Name("n1")}, lease)
	if client.IgnoreNotFound(err) != nil {
		f.t.Fatal(err)
	}
	return nodelease.HolderOf(lease)
}

// The window closes after the cordon: the maintenance goes on.
func TestBudget_WindowClosesAfterCordon(t *testing.T) {
	f := newBudgetFixture(t)
	f.settle("m")
	f.window = disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "no window is open"}
	f.clock.Step(time.Hour)
	f.settle("m")
	f.expect("m", medik8s.PhaseSucceeded, "")
}

// A maintenance that has to wait for something else than the budget cordons nothing.
func TestBudget_WaitsForLeaseOrQuorum(t *testing.T) {
	for name, block := range map[string]func(*budgetFixture){
		"lease": func(f *budgetFixture) {
			if err := f.client.Create(f.t.Context(), newLease("n1", "another", f.clock.Now())); err != nil {
				f.t.Fatal(err)
			}
		},
		"quorum": func(f *budgetFixture) { f.Guard = &lostQuorum{} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newBudgetFixture(t)
			f.fail("create Lease")
			block(f)
			f.reconcile("m")
			if inMaintenance(f.node("n1")) || f.holder() == Holder {
				t.Error("the node is cordoned, or its lease held")
			}
		})
	}
}

// lostQuorum is a guard of a control plane that can spare no node.
type lostQuorum struct{ fakeGuard }

func (*lostQuorum) Check(context.Context, *corev1.Node) (string, error) {
	return "too few are Ready", nil
}
