package nodegroup

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/apitest/builder"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	maintenanceplan "github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
)

// withBudget allows so many unavailable Nodes.
func withBudget(nodes int32, options ...func(*v1alpha1.Disruption)) func(*v1alpha1.NodeGroupSpec) {
	return func(spec *v1alpha1.NodeGroupSpec) {
		spec.Disruption = &v1alpha1.Disruption{MaxUnavailable: new(intstr.FromInt32(nodes))}
		for _, option := range options {
			option(spec.Disruption)
		}
	}
}

// queued has the NodeMaintenances of users wait for the budget.
func queued(disruption *v1alpha1.Disruption) { disruption.PersonMaintenance = v1alpha1.PersonQueue }

// eventuallyBudget waits until a group has so many unavailable Nodes and reservations.
func (f *fixture) eventuallyBudget(name string, unavailable int32, reservations int) {
	f.Helper()
	f.Eventually(fmt.Sprintf("NodeGroup %s has %d unavailable Nodes and %d reservations", name, unavailable, reservations), func() error {
		if s := f.group(name).Status; s.Unavailable != unavailable || len(s.Reservations) != reservations {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
}

// maintainFor makes a NodeMaintenance that a controller owns.
func (f *fixture) maintainFor(node string) *harness.Maintenance {
	f.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "owner-of-" + node}}
	f.CreateWithCleanup(owner)
	object := builder.NodeMaintenance(node, node)
	object.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "ConfigMap", Name: owner.Name, UID: owner.UID, Controller: new(true),
	}}
	m := &harness.Maintenance{World: f.World, Name: node, Node: node}
	m.Begin(object)
	return m
}

// TestBudget_ReportsAPerson: a user's maintenance begins whatever the budget says, and the group reports that it is exceeded.
func TestBudget_ReportsAPerson(t *testing.T) {
	f := besideOthers(t, "person", 3)
	f.createSeen(f.newGroup("person", withBudget(1)))
	first := f.Maintain("person-00", nil)
	first.Phase(medik8s.PhaseSucceeded)
	f.eventuallyBudget("person", 1, 1)
	second := f.Maintain("person-01", nil)
	second.Phase(medik8s.PhaseSucceeded)
	f.AwaitEvent("NodeMaintenance", "person-01", "BudgetExceeded", "NodeGroup person: 1 of 3 Nodes are unavailable, and maxUnavailable is 1")
	f.NoEvent("NodeMaintenance", "person-00", "BudgetExceeded")
	f.eventuallyCondition("person", v1alpha1.ConditionBlocked, metav1.ConditionTrue, disruptionplan.ReasonBudgetExceeded)
	first.End()
	second.End()
	f.eventuallyBudget("person", 0, 0)
	f.eventuallyCondition("person", v1alpha1.ConditionBlocked, metav1.ConditionFalse, plan.ReasonNotBlocked)
}

// TestBudget_Suspended: a suspended group, with a budget or without one, holds what controllers begin, and not what a person does.
func TestBudget_Suspended(t *testing.T) {
	t.Parallel()
	for name, budget := range map[string]func(*v1alpha1.NodeGroupSpec){"bounded": withBudget(1), "unlimited": func(*v1alpha1.NodeGroupSpec) {}} {
		t.Run(name, func(t *testing.T) {
			f := besideOthers(t, "brake-"+name, 2)
			f.createSeen(f.newGroup(f.name, budget, suspended(true)))
			of := f.name + "-"
			held := f.maintainFor(of + "00")
			held.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "spec.suspend is set")
			person := f.Maintain(of+"01", nil)
			person.Phase(medik8s.PhaseSucceeded)
			f.AwaitEvent("NodeMaintenance", of+"01", "BudgetExceeded", "NodeGroup "+f.name+": spec.suspend is set")
			person.End()
			held.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "spec.suspend is set")
			f.update(f.name, suspended(false))
			held.Phase(medik8s.PhaseSucceeded)
			held.End()
			f.eventuallyBudget(f.name, 0, 0)
		})
	}
}

// TestBudget_QueuesMaintenance: if the budget has no place for a maintenance, the maintenance does not change its Node, and begins when another one
// ends. After a kill the next operator knows who has the place.
func TestBudget_QueuesMaintenance(t *testing.T) {
	f := newFixture(t, "queue", 3)
	f.create(f.newGroup("queue", withBudget(1, queued)))
	operator := f.Operator(harness.Options{})
	first := f.Maintain("queue-00", nil)
	first.Phase(medik8s.PhaseSucceeded)
	second := f.Maintain("queue-01", nil)
	waits := func() {
		t.Helper()
		second.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "queue-00 (disrupted for Maintenance)")
		if f.Node("queue-01").Spec.Unschedulable {
			t.Error("the Node of the maintenance that waits is cordoned")
		}
		f.NoLease("queue-01")
	}
	waits()
	f.eventuallyCondition("queue", v1alpha1.ConditionBlocked, metav1.ConditionTrue, disruptionplan.ReasonBudgetExhausted)
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Operator(harness.Options{})
	f.eventuallyCondition("queue", v1alpha1.ConditionBlocked, metav1.ConditionTrue, disruptionplan.ReasonBudgetExhausted)
	waits()
	first.End()
	second.Phase(medik8s.PhaseSucceeded)
	f.Eventually("the place is that of the second one", func() error {
		of := f.group("queue").Status.Reservations
		if len(of) != 1 || of[0].Node != "queue-01" || of[0].Object != "NodeMaintenance/queue-01" {
			return fmt.Errorf("the reservations are %s", harness.JSON(of))
		}
		return nil
	})
	second.End()
	f.eventuallyBudget("queue", 0, 0)
}

// TestBudget_ReusedName: a maintenance ends shortly before its operator is killed. A new maintenance with the same name has a place of its own.
func TestBudget_ReusedName(t *testing.T) {
	harness.TestAllOnly(t, "a minute passes; TestReturning_AdmissionIsOver has a clock of its own")
	f := newFixture(t, "reused", 3)
	f.create(f.newGroup("reused", withBudget(1, queued), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Rollout = &v1alpha1.Rollout{MinReadySeconds: 600}
	}))
	operator := f.Operator(harness.Options{})
	maintain := func(node string) *harness.Maintenance {
		m := &harness.Maintenance{World: f.World, Name: "rolling", Node: node}
		m.Begin(builder.NodeMaintenance("rolling", node))
		return m
	}
	first := maintain("reused-00")
	first.Phase(medik8s.PhaseSucceeded)
	first.End()
	f.Eventually("the Node counts until it has been available for a while", func() error {
		if s := f.group("reused").Status; s.Unavailable != 1 || len(s.Reservations) != 0 {
			return fmt.Errorf("status is %s", harness.JSON(s))
		}
		return nil
	})
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	f.Operator(harness.Options{})
	second := maintain("reused-01")
	f.EventuallyFree("the second maintenance begins", func() error {
		if !f.Node("reused-01").Spec.Unschedulable {
			return fmt.Errorf("it waits: %s; %s", harness.JSON(second.Find()), harness.JSON(f.group("reused").Status))
		}
		return nil
	})
	second.Phase(medik8s.PhaseSucceeded)
	second.End()
}

// TestBudget_CountsWhatOthersDo: a Node that another user has cordoned, or whose lease another holder has, takes a place of the budget.
func TestBudget_CountsWhatOthersDo(t *testing.T) {
	f := besideOthers(t, "others", 3)
	f.createSeen(f.newGroup("others", withBudget(1)))
	f.ChangeNode("others-00", func(node *corev1.Node) { node.Spec.Unschedulable = true })
	m := f.maintainFor("others-01")
	m.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "others-00 (Cordoned)")
	f.TakeLease("others-02", "node-healthcheck", time.Hour)
	m.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "others-00 (Cordoned)")
	f.eventuallyBudget("others", 2, 0)
	f.ChangeNode("others-00", func(node *corev1.Node) { node.Spec.Unschedulable = false })
	f.eventuallyBudget("others", 1, 0)
	m.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "others-02 (Leased)")
	f.DropLease("others-02")
	m.Phase(medik8s.PhaseSucceeded)
	m.End()
	f.eventuallyBudget("others", 0, 0)
}

// eventuallyPhase waits until a group has a phase, and a message with a text, which follow what the group does: not only when something is looked at
// again after a minute.
func (f *fixture) eventuallyPhase(name string, phase v1alpha1.Phase, message string) {
	f.Helper()
	began := time.Now()
	f.Eventually(fmt.Sprintf("NodeGroup %s is %s", name, phase), func() error {
		if status := f.group(name).Status; status.Phase != phase || !strings.Contains(status.Message, message) {
			return fmt.Errorf("status is %s", harness.JSON(status))
		}
		return nil
	})
	if took := time.Since(began); took > 30*time.Second {
		f.Errorf("NodeGroup %s is %s after %s", name, phase, took)
	}
}

// TestBudget_Freeze: nothing begins in a freeze, and what waits begins when it is over.
func TestBudget_Freeze(t *testing.T) {
	f := besideOthers(t, "freeze", 2)
	end := time.Now().Add(time.Hour).Truncate(time.Second)
	freezeUntilEnd := func(disruption *v1alpha1.Disruption) {
		disruption.Freezes = []v1alpha1.Freeze{{From: metav1.NewTime(end.Add(-24 * time.Hour)), To: metav1.NewTime(end), Reason: "the harvest"}}
	}
	f.createSeen(f.newGroup("freeze", withBudget(1, queued, freezeUntilEnd)))
	withdrawn := f.Maintain("freeze-01", nil)
	f.eventuallyPhase("freeze", v1alpha1.PhaseWaiting, "the harvest")
	withdrawn.End()
	f.eventuallyPhase("freeze", v1alpha1.PhaseIdle, "2 of 2 Nodes carry what is declared")
	m := f.Maintain("freeze-00", nil)
	m.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "the harvest")
	group := f.eventuallyCondition("freeze", v1alpha1.ConditionBlocked, metav1.ConditionTrue, disruptionplan.ReasonFrozen)
	if w := group.Status.Window; w == nil || w.Open || !w.NextChange.Time.Equal(end) {
		t.Errorf("the window is %s, and the freeze ends at %s", harness.JSON(w), end)
	}
	end = time.Now().Add(10 * time.Second).Truncate(time.Second)
	f.update("freeze", func(spec *v1alpha1.NodeGroupSpec) { freezeUntilEnd(spec.Disruption) })
	m.Phase(medik8s.PhaseSucceeded)
	if time.Now().Before(end) {
		t.Error("it has begun before the end of the freeze")
	}
	m.End()
}

// TestBudget_AdmissionIsUnused: a leader that was stopped between its admission and its first write leaves a place that is free a minute later,
// and what an earlier version has reserved takes none.
func TestBudget_AdmissionIsUnused(t *testing.T) {
	harness.TestAllOnly(t, "a minute passes; TestBegin_Admits has a clock of its own")
	f := newFixture(t, "unused", 3)
	f.create(f.newGroup("unused", withBudget(1, queued)))
	group := f.group("unused")
	left := func(node string) v1alpha1.Reservation {
		return v1alpha1.Reservation{
			Node: node, UID: f.Node(node).UID, Capability: v1alpha1.CapabilityMaintenance, Object: "NodeMaintenance/gone", Time: metav1.Now(),
		}
	}
	group.Status.Admissions = []v1alpha1.Reservation{left("unused-00")}
	group.Status.Reservations = []v1alpha1.Reservation{left("unused-02")}
	if err := f.Client.Status().Update(t.Context(), group); err != nil {
		t.Fatal(err)
	}
	f.Operator(harness.Options{})
	m := f.Maintain("unused-01", nil)
	m.Condition(maintenanceplan.ConditionCordoned, maintenanceplan.ReasonWaitingForBudget, "1 of 3 Nodes are unavailable, and maxUnavailable is 1: "+
		"unused-00")
	f.EventuallyFree("the maintenance begins", func() error {
		if !f.Node("unused-01").Spec.Unschedulable {
			return errors.New("it waits")
		}
		return nil
	})
	m.Phase(medik8s.PhaseSucceeded)
	f.eventuallyBudget("unused", 1, 1)
	m.End()
	f.eventuallyBudget("unused", 0, 0)
}
