package healthcheck

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/nodelease"
)

// inGroup has all Nodes, and the Machines that have none, in the NodeGroup "workers".
type inGroup struct{ s *fixture }

func (g inGroup) GroupOf(context.Context, string) (string, error) { return "workers", nil }

func (g inGroup) Members(ctx context.Context, _ string) (nodes []*corev1.Node, err error) {
	var list corev1.NodeList
	err = g.s.client.List(ctx, &list)
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, err
}

// newBudgetFixture returns a fixture in which all Nodes are in a group that so many remediations may be in flight in.
func newBudgetFixture(t *testing.T, kinds string, most int32) *fixture {
	t.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers"}}
	group.Spec.Disruption = &v1alpha1.Disruption{Remediation: &v1alpha1.RemediationPace{MaxInFlight: new(intstr.FromInt32(most))}}
	s := newFixture(t, Options{MaxInFlight: 5, Leases: &nodelease.Leases{Holder: holder}}, append(newObjects(kinds), group)...)
	s.withBudgets()
	return s
}

// withBudgets has a new process, with budgets.
func (s *fixture) withBudgets() {
	s.options.Budgets = disruption.New(disruption.Options{Reader: s.client, Writer: s.client, Membership: inGroup{s}, Clock: s.clock})
	s.restart()
}

// reserved returns which places are reserved for remediations, sorted.
func (s *fixture) reserved() string {
	s.t.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := s.client.Get(s.t.Context(), types.NamespacedName{Name: "workers"}, group); err != nil {
		s.t.Fatal(err)
	}
	var names []string
	for _, r := range group.Status.Reservations {
		names = append(names, fmt.Sprintf("%s for %s", r.Node, r.Object))
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// TestBudget_OneInFlight: of Machines that are unhealthy in different ways, one is deleted at a time, in a new process as well.
func TestBudget_OneInFlight(t *testing.T) {
	for kinds, place := range map[string]string{
		"uuw": "n-m0 for Machine/machines/m0",
		"nnw": "Machine/machines/m0 for Machine/machines/m0",
		"nuw": "Machine/machines/m0 for Machine/machines/m0",
		"ffw": "n-m0 for Machine/machines/m0",
	} {
		t.Run(kinds, func(t *testing.T) {
			s := newBudgetFixture(t, kinds, 1)
			if _, writes, err := s.reconcile("c"); err != nil || strings.Count(writes, "delete Machine/") != 1 {
				t.Fatalf("wrote %s, error %v", writes, err)
			}
			deleted := s.deletedMachines("m0", "m1")
			if want := strings.ReplaceAll(place, "m0", deleted); s.reserved() != want {
				t.Errorf("reserved are %s, want %s", s.reserved(), want)
			}
			message := s.conditionMessage("c", plan.ConditionProgressing)
			if !strings.Contains(message, "NodeGroup workers: 1 remediations are in flight, and maxInFlight is 1") {
				t.Errorf("%s", message)
			}
			s.withBudgets()
			s.clock.SetTime(s.clock.Now().Add(10 * time.Minute))
			if _, writes, err := s.reconcile("c"); err != nil || strings.Contains(writes, "delete Machine/") {
				t.Errorf("in a new process: wrote %s, error %v", writes, err)
			}
		})
	}
}

// TestBudget_MostInFlight: Machines with and without a Node share the places.
func TestBudget_MostInFlight(t *testing.T) {
	s := newBudgetFixture(t, "nnnnuuuuww", 3)
	s.reconcileUntilQuiet("c")
	if got := strings.Fields(s.deletedMachines("m0", "m1", "m2", "m3", "m4", "m5", "m6", "m7")); len(got) != 3 {
		t.Errorf("deleted are %q", got)
	}
	if got := strings.Count(s.reserved(), " for "); got != 3 {
		t.Errorf("reserved are %s", s.reserved())
	}
}

// TestBudget_JoinsAfterAll: the place of a Machine that gets its Node before it is deleted is given back.
func TestBudget_JoinsAfterAll(t *testing.T) {
	s := newBudgetFixture(t, "nw", 1)
	finished := s.finishedGroups()
	// The process has ended after the reservation, before the deletion.
	request := disruption.Request{Group: "workers"}
	request.Node, request.UID, request.Object = "Machine/machines/m0", "uid-of-m0", "Machine/machines/m0"
	request.Capability = v1alpha1.CapabilityRemediation
	if answer, err := s.options.Budgets.Reserve(t.Context(), request); err != nil || !answer.Allowed {
		t.Fatalf("%+v, error %v", answer, err)
	}
	s.create(newNode("n-m0"))
	edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) {
		m.Status.NodeRef = &corev1.ObjectReference{Kind: "Node", Name: "n-m0", UID: "uid-of-n-m0"}
		m.Status.Phase = new(machinev1beta1.PhaseRunning)
	})
	s.reconcileUntilQuiet("c")
	if got := finished(); got != 1 {
		t.Errorf("%d events of an end", got)
	}
	works, err := s.options.Budgets.Works(t.Context(), "workers", func(context.Context, *v1alpha1.Reservation) (bool, error) { return true, nil })
	if err != nil || len(works) != 1 || !works[0].Over {
		t.Errorf("the works are %+v, error %v", works, err)
	}
}

// finishedGroups returns a function that returns how many events of an end there were.
func (s *fixture) finishedGroups() func() int {
	s.t.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	err := s.options.Budgets.Finished(func(_ context.Context, group string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: group}}}
	}).Start(s.t.Context(), queue)
	if err != nil {
		s.t.Fatal(err)
	}
	return queue.Len
}

// TestBudget_WakesMachineWithoutNode: a place that becomes free has the MachineHealthCheck of a Machine that never had a Node try again.
func TestBudget_WakesMachineWithoutNode(t *testing.T) {
	s := newBudgetFixture(t, "nw", 1)
	for name, want := range map[string]string{"Machine/machines/m0": "c", "n-m1": "c", "Machine/machines/gone": "", "n-gone": ""} {
		var got []string
		for _, request := range s.nodeNameToHealthChecks(t.Context(), name) {
			got = append(got, request.Name)
		}
		if strings.Join(got, ",") != want {
			t.Errorf("%s wakes %q", name, got)
		}
	}
}

// TestBudget_SuccessorFails: a replacement that gets no Node waits for a place as well, as one of those that have waited.
func TestBudget_SuccessorFails(t *testing.T) {
	for kinds, place := range map[string]string{"uuw": "n-m0", "nnw": "Machine/machines/m0"} {
		t.Run(kinds, func(t *testing.T) {
			s := newBudgetFixture(t, kinds, 1)
			s.reconcileUntilQuiet("c")
			if got := s.deletedMachines("m0", "m1"); got != "m0" {
				t.Fatalf("deleted are %s", got)
			}
			edit(s, newMachine("m0", ""), func(m *machinev1beta1.Machine) { m.Finalizers = nil })
			if err := client.IgnoreNotFound(s.client.Delete(t.Context(), newNode("n-m0"))); err != nil {
				t.Fatal(err)
			}
			step := func(d time.Duration) { s.clock.SetTime(s.clock.Now().Add(d)) }
			step(time.Second)
			s.create(newMachine("r0", "", s.starting))
			for range 3 {
				step(10 * time.Minute)
				s.reconcileUntilQuiet("c")
			}
			if got := s.deletedMachines("r0", "m1"); got != "" {
				t.Errorf("deleted are %s", got)
			}
			if got, want := s.reserved(), place+" for Machine/machines/m0"; got != want {
				t.Errorf("reserved are %s, want %s", got, want)
			}
		})
	}
}

// TestBudget_NodeNamedAsMachine: who writes the status of a Machine cannot take the place of another one.
func TestBudget_NodeNamedAsMachine(t *testing.T) {
	s := newBudgetFixture(t, "nw", 1)
	s.reconcileUntilQuiet("c")
	s.create(newMachine("evil", "Machine/machines/m0", func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseFailed) }))
	s.reconcileUntilQuiet("c")
	if got := s.deletedMachines("m0", "evil"); got != "m0" {
		t.Errorf("deleted are %s", got)
	}
	if got := s.reserved(); got != "Machine/machines/m0 for Machine/machines/m0" {
		t.Errorf("reserved are %s", got)
	}
}
