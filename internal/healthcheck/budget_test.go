package healthcheck

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/healthcheck/plan"
	"github.com/drover-io/drover/internal/machineapi"
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

// Machines has one MachineSet that does not replace deleted Machines.
func (g inGroup) Machines(ctx context.Context, _ string, _ time.Time) (machines disruptionplan.Machines, err error) {
	var list machinev1beta1.MachineList
	err = g.s.client.List(ctx, &list)
	active, set := map[types.UID]bool{}, disruptionplan.MachineSet{}
	for i := range list.Items {
		machine := &list.Items[i]
		switch node := machineapi.NodeName(machine); {
		case machine.DeletionTimestamp == nil:
			active[machine.UID] = true
		case node != "":
			machines.Deleted = append(machines.Deleted, node)
		default:
			set.NotCreated++
		}
	}
	machines.Sets = []disruptionplan.MachineSet{set}
	machines.IsActive = func(_ types.NamespacedName, uid types.UID) bool { return active[uid] }
	return machines, err
}

// newBudgetFixture returns a fixture whose Nodes are all in one group. At most so many remediations may be in flight in the group.
func newBudgetFixture(t *testing.T, kinds string, most int32) *fixture {
	t.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers"}}
	group.Spec.Disruption = &v1alpha1.Disruption{Remediation: &v1alpha1.RemediationPace{MaxInFlight: new(intstr.FromInt32(most))}}
	s := newFixture(t, Options{MaxUnseenStarts: 5, Leases: &nodelease.Leases{Holder: holder}}, append(newObjects(kinds), group)...)
	s.withBudgets()
	return s
}

// withBudgets has a new process, with budgets.
func (s *fixture) withBudgets() {
	s.options.Budgets = disruption.New(disruption.Options{Reader: s.client, Writer: s.client, Membership: inGroup{s}, Clock: s.clock})
	s.restart()
}

// TestBudget_OneInFlight: of Machines that are unhealthy in different ways, one is deleted at a time, in a new process as well.
func TestBudget_OneInFlight(t *testing.T) {
	for _, kinds := range []string{"uuw", "nnw", "nuw", "ffw"} {
		t.Run(kinds, func(t *testing.T) {
			s := newBudgetFixture(t, kinds, 1)
			if _, writes, err := s.reconcile("c"); err != nil || strings.Count(writes, "delete Machine/") != 1 {
				t.Fatalf("wrote %s, error %v", writes, err)
			}
			message := s.conditionMessage("c", plan.ConditionProgressing)
			if !strings.Contains(message, "NodeGroup workers: 1 remediations are in flight, and maxInFlight is 1") {
				t.Errorf("%s", message)
			}
			s.withBudgets()
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

// TestBudget_NodeNamedAsMachine: who writes the status of a Machine cannot take the place of another one.
func TestBudget_NodeNamedAsMachine(t *testing.T) {
	s := newBudgetFixture(t, "nw", 1)
	s.reconcileUntilQuiet("c")
	s.create(newMachine("evil", "Machine/machines/m0", func(m *machinev1beta1.Machine) { m.Status.Phase = new(machinev1beta1.PhaseFailed) }))
	s.reconcileUntilQuiet("c")
	if got := s.deletedMachines("m0", "evil"); got != "m0" {
		t.Errorf("deleted are %s", got)
	}
}

// TestBudget_CannotBegin: a remediation that cannot begin, whatever the budget says, asks for no place in it.
func TestBudget_CannotBegin(t *testing.T) {
	for name, objects := range map[string][]client.Object{
		"no template": nil,
		"a template without fields": {&unstructured.Unstructured{Object: map[string]any{
			"apiVersion": remediations.String(), "kind": "Metal3RemediationTemplate",
			"metadata": map[string]any{"namespace": namespace, "name": "reboot"},
		}}},
		"another one's request": {newTemplate("reboot"), newRequestNamed("m0")},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBudgetFixture(t, "uww", 1)
			s.create(objects...)
			edit(s, newCheck("c"), byTemplateOf("reboot"))
			s.mustReconcile("c", statusC)
		})
	}
}

// TestBudget_NotBegun: a remediation whose first write is rejected gives its place to the next one, and does not keep it waiting for the interval.
func TestBudget_NotBegun(t *testing.T) {
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
	for name, test := range map[string]struct {
		change func(*machinev1beta1.MachineHealthCheck)
		write  string
		err    error
	}{
		"deletion denied":   {func(*machinev1beta1.MachineHealthCheck) {}, "delete Machine", denied},
		"deletion conflict": {func(*machinev1beta1.MachineHealthCheck) {}, "delete Machine", apierrors.NewConflict(schema.GroupResource{}, "", nil)},
		"annotation denied": {bareMetal, "patch Machine", denied},
		"request denied":    {byTemplateOf("reboot"), "create Metal3Remediation", denied},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBudgetFixture(t, "uuw", 1)
			s.create(newTemplate("reboot"))
			edit(s, newCheck("c"), test.change)
			edit(s, &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}, func(group *v1alpha1.NodeGroup) {
				group.Spec.Disruption.Remediation.MinInterval = &metav1.Duration{Duration: time.Hour}
			})
			s.Fail[test.write] = test.err
			for range 2 {
				if _, writes, err := s.reconcile("c"); err != nil || !strings.Contains(writes, test.write+"/m0") || !strings.Contains(writes, test.write+"/m1") {
					t.Fatalf("wrote %s, error %v", writes, err)
				}
			}
			delete(s.Fail, test.write)
			if _, writes, err := s.reconcile("c"); err != nil || !strings.Contains(writes, test.write+"/m0") || strings.Contains(writes, test.write+"/m1") {
				t.Errorf("wrote %s, error %v", writes, err)
			}
		})
	}
}
