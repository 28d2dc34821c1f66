package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// membership has all nodes in one NodeGroup once they have joined it, except the node elsewhere. listed counts how often the budget was compared.
type membership struct {
	joined    bool
	elsewhere string
	nodes     []*corev1.Node
	window    disruptionplan.Window
	listed    int
}

func (m *membership) GroupOf(_ context.Context, node string) (string, error) {
	if m.joined && node != m.elsewhere {
		return "workers", nil
	}
	return "", nil
}

func (m *membership) Members(context.Context, string) ([]*corev1.Node, error) {
	m.listed++
	return m.nodes, nil
}

func (*membership) Machines(context.Context, string, time.Time) (machines disruptionplan.Machines, err error) {
	return machines, nil
}

// newBudget has the nodes in a NodeGroup with a budget of one.
func newBudget(f *fixture, m *membership) (groups client.Client, group *drover.NodeGroup) {
	f.t.Helper()
	known := runtime.NewScheme()
	f.must(errors.Join(scheme.AddToScheme(known), drover.AddToScheme(known)))
	group = &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	group.Spec.Disruption = &drover.Disruption{}
	groups = fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(group).WithObjects(group).Build()
	m.nodes = []*corev1.Node{newNode("n1", "infra"), newNode("n2", "infra"), newNode("w1", "other")}
	f.Budgets = disruption.New(disruption.Options{
		Reader: groups, Writer: groups, Membership: m, Clock: f.clock,
		Windows: func(*drover.NodeGroup, time.Time) disruptionplan.Window { return m.window },
	})
	return groups, group
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

// TestBudget_PassedOver has the first node wait for its NodeGroup: the other one, of no group, is upgraded meanwhile.
func TestBudget_PassedOver(t *testing.T) {
	suspended := &drover.NodeGroupSpec{Suspend: true}
	none := &drover.NodeGroupSpec{Disruption: &drover.Disruption{MaxUnavailable: new(intstr.FromInt32(0))}}
	open := &drover.NodeGroupSpec{Disruption: &drover.Disruption{}}
	closed := disruptionplan.Window{Closed: true, Reason: disruptionplan.ReasonWindowClosed, Message: "no window is open"}
	for name, test := range map[string]struct {
		spec   *drover.NodeGroupSpec
		window disruptionplan.Window
		want   string
	}{
		"suspended":        {suspended, disruptionplan.Window{}, "spec.suspend is set"},
		"maxUnavailable 0": {none, disruptionplan.Window{}, "maxUnavailable is 0"},
		"no window":        {open, closed, "no window is open"},
	} {
		t.Run(name, func(t *testing.T) {
			f, m := newFixture(t, newObjects()...), &membership{joined: true, elsewhere: "n2", window: test.window}
			groups, group := newBudget(f, m)
			group.Spec = *test.spec
			f.must(groups.Update(t.Context(), group))
			f.reconcileUntil(func() bool { return f.nodeStatus("n2").Phase == v1alpha1.NodeRunningJobs })
			f.expectPassedOver("n1", test.want)
			// As long as no slot is free, it is not asked again.
			f.reconcileTimes(2)
			f.expectAtRest()
			f.expectPassedOver("n1", test.want)
			f.reconcileToRest(v1alpha1.PhaseWaiting)
			f.expectAtRest()
			f.expectPassedOver("n1", test.want)
			if run := f.run(); f.nodeStatus("n2").Phase != v1alpha1.NodeDone || !strings.Contains(run.Status.Message, test.want) {
				t.Errorf("n2 is %s, the message of the run %q", f.nodeStatus("n2").Phase, run.Status.Message)
			}
			if started := f.countEvents(EventNodeStarted, "numo/run"); started != 1 {
				t.Errorf("%d nodes are reported as started, want n2", started)
			}
			f.must(groups.Get(t.Context(), client.ObjectKeyFromObject(group), group))
			group.Spec, m.window = *open, disruptionplan.Window{}
			f.must(groups.Update(t.Context(), group))
			f.reconcileToRest(v1alpha1.PhaseDone)
		})
	}
}

// expectPassedOver checks that nothing was done for a node, and that node and run say why.
func (f *fixture) expectPassedOver(node, why string) {
	f.t.Helper()
	if n := f.nodeStatus(node); n.Phase != v1alpha1.NodePending || n.Job != "" || n.Started != nil || !strings.Contains(n.Message, why) {
		f.t.Errorf("node %s is %+v", node, n)
	}
	ready := meta.FindStatusCondition(f.run().Status.Conditions, plan.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionTrue || !strings.Contains(ready.Message, node+" (") || !strings.Contains(ready.Message, why) {
		f.t.Errorf("the condition is %+v", ready)
	}
	if f.lease(node) != nil {
		f.t.Errorf("node %s is leased", node)
	}
}

// expectAtRest checks that reconciliations write nothing.
func (f *fixture) expectAtRest() {
	f.t.Helper()
	before := f.writes
	if f.reconcileTimes(3); f.writes != before {
		f.t.Errorf("%d writes at rest", f.writes-before)
	}
}

// TestBudget_ManyWait has a NodeGroup whose budget is used up and that has many nodes. A reconciliation does not ask for each of them. A node that is
// unavailable already needs no place, wherever it is in the order.
func TestBudget_ManyWait(t *testing.T) {
	objects := newObjects()
	for i := range 20 {
		objects = append(objects, newNode(fmt.Sprintf("n3%02d", i), "infra"))
	}
	down := newNode("n400", "infra")
	down.Status.Conditions[0].Status = corev1.ConditionFalse
	f, m := newFixture(t, append(objects, down)...), &membership{joined: true}
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.MaxConcurrentNodes = 2 })
	newBudget(f, m)
	m.nodes[2].Spec.Unschedulable = true
	m.nodes = append(m.nodes, down)
	f.reconcileUntil(func() bool { return f.nodeStatus("n400").Phase == v1alpha1.NodeRunningJobs })
	if m.listed = 0; f.reconcile() != nil || m.listed > 2 {
		t.Errorf("the budget is compared %d times, with maxConcurrentNodes 2", m.listed)
	}
	for _, node := range []string{"n1", "n2", "n300", "n319"} {
		if n := f.nodeStatus(node); n.Phase != v1alpha1.NodePending || !strings.Contains(n.Message, "w1 (Cordoned)") {
			t.Errorf("node %s is %+v", node, n)
		}
	}
	ready := meta.FindStatusCondition(f.run().Status.Conditions, plan.ConditionReady)
	if !strings.HasSuffix(ready.Message, " and 17 more") {
		t.Errorf("the condition is %+v", ready)
	}
	f.expectAtRest()
}
