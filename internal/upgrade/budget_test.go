package upgrade

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// membership has all nodes in one NodeGroup once they have joined it.
type membership struct {
	joined bool
	nodes  []*corev1.Node
	window disruptionplan.Window
}

func (m *membership) GroupOf(context.Context, string) (string, error) {
	if m.joined {
		return "workers", nil
	}
	return "", nil
}

func (m *membership) Members(context.Context, string) ([]*corev1.Node, error) { return m.nodes, nil }

func (*membership) Machines(context.Context, string, time.Time) (machines disruptionplan.Machines, err error) {
	return machines, nil
}

// newBudget has the nodes in a NodeGroup with a budget of one.
func newBudget(f *fixture, m *membership) {
	f.t.Helper()
	known := runtime.NewScheme()
	f.must(errors.Join(scheme.AddToScheme(known), drover.AddToScheme(known)))
	group := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	group.Spec.Disruption = &drover.Disruption{}
	groups := fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(group).WithObjects(group).Build()
	m.nodes = []*corev1.Node{newNode("n1", "infra"), newNode("n2", "infra"), newNode("w1", "other")}
	f.Budgets = disruption.New(disruption.Options{
		Reader: groups, Writer: groups, Membership: m, Clock: f.clock,
		Windows: func(*drover.NodeGroup, time.Time) disruptionplan.Window { return m.window },
	})
}

// TestBudget_LeaseLostAfterWindow has a node whose Jobs have begun lose its lease when the window has closed: it goes on.
func TestBudget_LeaseLostAfterWindow(t *testing.T) {
	f, m := newFixture(t, newObjects()...), &membership{joined: true}
	newBudget(f, m)
	f.reconcileUntil(func() bool { return f.lease("n1") != nil && len(f.created) > 0 })
	m.window = disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "no window is open"}
	f.clock.SetTime(f.clock.Now().Add(time.Hour))
	ours := &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: Holder, Clock: f.clock}
	f.must(ours.Release(t.Context(), "n1"))
	f.reconcileUntil(func() bool { return f.lease("n1") != nil })
}

// TestBudget_JoinedDuringJobs has a node join a NodeGroup without a free place while its Jobs run: it is released once there is one.
func TestBudget_JoinedDuringJobs(t *testing.T) {
	f, m := newFixture(t, newObjects()...), &membership{}
	newBudget(f, m)
	m.nodes[2].Spec.Unschedulable = true
	f.reconcileUntil(func() bool { return f.lease("n1") != nil && len(f.created) > 0 })
	m.joined = true
	for range 10 {
		f.simulate()
		f.reconcileTimes(1)
	}
	if status := f.nodeStatus("n1"); status.Phase != v1alpha1.NodeRunningJobs || !strings.Contains(status.Message, "w1 (Cordoned)") {
		t.Fatalf("node n1 is %+v", status)
	}
	if f.lease("n1") == nil {
		t.Error("a node whose Jobs run has lost its lease")
	}
	m.nodes = slices.Clone(m.nodes)
	m.nodes[2] = newNode("w1", "other")
	f.clock.SetTime(f.clock.Now().Add(time.Minute))
	f.reconcileUntil(func() bool { return f.nodeStatus("n1").Phase == v1alpha1.NodeReleased })
}

// TestBudget_WindowClosesBeforeFirstJob has the first Job of a node be denied until the window has closed: the node gives its lease
// back, and its Jobs begin in the next window.
func TestBudget_WindowClosesBeforeFirstJob(t *testing.T) {
	f, m := newFixture(t, newObjects()...), &membership{joined: true}
	newBudget(f, m)
	f.fail["create Job"] = apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "j", nil)
	f.reconcileUntil(func() bool { return f.lease("n1") != nil })
	f.reconcileTimes(3)
	if f.lease("n1") == nil || len(f.created) > 0 {
		t.Fatalf("the lease is %v, %d Jobs are created", f.lease("n1"), len(f.created))
	}
	m.window = disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "no window is open"}
	f.clock.SetTime(f.clock.Now().Add(time.Hour))
	delete(f.fail, "create Job")
	f.reconcileTimes(3)
	if f.lease("n1") != nil || len(f.created) > 0 {
		t.Errorf("the lease is %v, %d Jobs are created", f.lease("n1"), len(f.created))
	}
	m.window = disruptionplan.Window{}
	f.reconcileUntil(func() bool { return f.lease("n1") != nil && len(f.created) > 0 })
}
