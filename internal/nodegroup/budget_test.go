package nodegroup

import (
	"context"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/nodegroup/members"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// TestSuccessors_MachineSetWithoutNodes: the Node of a MachineSet of one is missing as long as it is gone, although no Node names that MachineSet.
func TestSuccessors_MachineSetWithoutNodes(t *testing.T) {
	scheme := apitest.Scheme(t, machinev1beta1.Install)
	newSet := func(namespace, name string, replicas int32) *machinev1beta1.MachineSet {
		set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(name)}}
		set.Spec.Replicas = &replicas
		return set
	}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		newSet("machines", "a", 1), newSet("machines", "b", 2), newSet("machines", "older", 4), newSet("other", "c", 8),
	).Build()
	newGroup := func(name string, sets ...string) *members.Group {
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "machines", Names: sets}
		return members.Parse(group)
	}
	older, group := newGroup("first", "older"), newGroup("second", "a", "b", "older")
	groups := []*members.Group{older, group}
	for name, c := range map[string]struct {
		served bool
		want   int
	}{"served": {true, 3}, "not served": {false, -1}} {
		t.Run(name, func(t *testing.T) {
			rc := &reconciliation{
				Reconciler: &Reconciler{
					Dependencies: Dependencies{Cache: cache}, options: Options{Machines: func() bool { return c.served }},
				},
				observation: &observation{group: group, groups: groups}, now: time.Now(),
			}
			nodes, missing, err := rc.successors(t.Context(), time.Minute, nil)
			if len(nodes) != 0 || missing != c.want || err != nil {
				t.Errorf("successors %v, missing %d, error %v", nodes, missing, err)
			}
		})
	}
}

// emptyGroup is the membership of a group without Nodes.
type emptyGroup struct{}

func (emptyGroup) GroupOf(context.Context, string) (string, error) { return "group", nil }

func (emptyGroup) Members(context.Context, string) ([]*corev1.Node, error) { return nil, nil }

// budgetsWithWaiting returns Budgets in which the remediations of Machines wait that never had a Node.
func budgetsWithWaiting(t *testing.T, cache client.WithWatch, machines ...string) *disruption.Budgets {
	t.Helper()
	budgets := disruption.New(disruption.Options{Reader: cache, Writer: cache, Membership: emptyGroup{}})
	for _, machine := range machines {
		request := disruption.Request{Request: disruptionplan.Request{
			Node: disruptionplan.MachineName(types.NamespacedName{Namespace: "machines", Name: machine}), Capability: v1alpha1.CapabilityRemediation,
		}}
		if answer, err := budgets.Reserve(t.Context(), request); err != nil || answer.Reason != disruptionplan.ReasonRemediationsLimited {
			t.Fatalf("%+v, error %v", answer, err)
		}
	}
	return budgets
}

// TestSuccessors_LostNodes: Machines whose Nodes are gone, and for which no place is reserved yet, keep no place from becoming free.
func TestSuccessors_LostNodes(t *testing.T) {
	scheme := apitest.Scheme(t, machinev1beta1.Install, v1alpha1.AddToScheme, coordinationv1.AddToScheme)
	reserved := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "a", UID: "a"}}
	set.Spec.Replicas = new(int32(9))
	withoutNode := func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }
	newMachine := func(name string, made time.Duration, change func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
		machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
			Namespace: "machines", Name: name, UID: types.UID("machine-" + name), CreationTimestamp: metav1.NewTime(reserved.Add(made)),
			OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "a", UID: "a", Controller: new(true)}},
		}}
		machine.Status.NodeRef = &corev1.ObjectReference{Name: name, UID: types.UID(name)}
		if change != nil {
			change(machine)
		}
		return machine
	}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "group", UID: "group"}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "machines", Names: []string{"a"}}
	group.Spec.Disruption = &v1alpha1.Disruption{Remediation: &v1alpha1.RemediationPace{MaxInFlight: new(intstr.FromInt32(0))}}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		group, set, newMachine("there", -time.Hour, nil), newMachine("reserved", -time.Hour, nil), newMachine("lost", -time.Hour, nil),
		newMachine("successor", time.Second, nil), newMachine("reserved-and-came", -time.Hour, nil),
		newMachine("starting", -time.Hour, withoutNode), newMachine("never-joined", -time.Hour, withoutNode),
		newMachine("never-joined-reserved", -time.Hour, withoutNode),
		newMachine("of-another", -time.Hour, func(m *machinev1beta1.Machine) { m.OwnerReferences = nil }),
		newMachine("deleted", -time.Hour, func(m *machinev1beta1.Machine) {
			m.DeletionTimestamp, m.Finalizers = new(metav1.NewTime(reserved)), []string{machinev1beta1.MachineFinalizer}
		}),
	).Build()
	parsed := members.Parse(group)
	there := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "there", UID: "there", CreationTimestamp: metav1.NewTime(reserved.Add(-time.Hour))}}
	rc := &reconciliation{
		Reconciler: &Reconciler{
			Dependencies: Dependencies{Cache: cache, Budgets: budgetsWithWaiting(t, cache, "never-joined", "never-joined-reserved")},
			options:      Options{Machines: func() bool { return true }},
		},
		observation: &observation{
			group: parsed, groups: []*members.Group{parsed}, nodes: []members.Assignment{{Node: there, Group: parsed, MachineSet: set}},
		},
		now: reserved.Add(time.Minute),
	}
	var works []disruptionplan.Work
	for node, uid := range map[string]types.UID{
		"reserved": "reserved", "Machine/machines/never-joined-reserved": "machine-never-joined-reserved",
		"Machine/machines/reserved-and-came": "machine-reserved-and-came",
	} {
		works = append(works, disruptionplan.Work{
			Gone: true, Reservation: v1alpha1.Reservation{Node: node, UID: uid, Time: metav1.NewTime(reserved)},
		})
	}
	// Of nine replicas one is there, one is lost, and one has never come and waits: their Nodes are missed only when it is their turn. Another one
	// waits again, and has its reservation, as has one whose Node came later, and has gone.
	if _, missing, err := rc.successors(t.Context(), time.Minute, works); missing != 6 || err != nil {
		t.Errorf("missing %d, error %v", missing, err)
	}
}

// TestWasThere: a Node that joined in the second of a reservation was there before it if its Machine was.
func TestWasThere(t *testing.T) {
	reserved := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		node, machine time.Duration
		noMachine     bool
		want          bool
	}{
		"before":                           {node: -time.Second, machine: -time.Minute, want: true},
		"after, the Machine is older":      {node: time.Second, machine: -time.Minute},
		"same second, its Machine before":  {machine: -time.Second, want: true},
		"same second, its Machine as well": {},
		"same second, no Machine":          {noMachine: true},
		"before, no Machine":               {node: -time.Second, noMachine: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			assignment := &members.Assignment{Node: &corev1.Node{}, Machine: &machinev1beta1.Machine{}}
			assignment.Node.CreationTimestamp = metav1.NewTime(reserved.Add(c.node))
			assignment.Machine.CreationTimestamp = metav1.NewTime(reserved.Add(c.machine))
			if c.noMachine {
				assignment.Machine = nil
			}
			if got := wasThere(assignment, reserved); got != c.want {
				t.Errorf("it is %v", got)
			}
		})
	}
}

// TestObserveWork_GoneMeanwhile: a Node that has gone since the Nodes were listed is not gone yet, since the list counts it as one that needs no
// successor.
func TestObserveWork_GoneMeanwhile(t *testing.T) {
	scheme := apitest.Scheme(t, corev1.AddToScheme)
	cache := fake.NewClientBuilder().WithScheme(scheme).Build()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
	const never = "Machine/machines/m"
	for name, c := range map[string]struct {
		listed []members.Assignment
		node   string
		over   bool
		want   bool
	}{
		"listed":                              {[]members.Assignment{{Node: node}}, "n", false, false},
		"not listed":                          {nil, "n", false, true},
		"not listed, over":                    {nil, "n", true, true},
		"a Machine that never had one":        {nil, never, false, true},
		"such a Machine is healthy after all": {nil, never, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			rc := &reconciliation{
				Reconciler:  &Reconciler{Dependencies: Dependencies{Cache: cache}},
				observation: &observation{group: members.Parse(&v1alpha1.NodeGroup{}), nodes: c.listed}, now: time.Now(),
				state: &groupState{places: newPlaces()},
			}
			work, known := disruptionplan.Work{Over: c.over, Reservation: v1alpha1.Reservation{Node: c.node, UID: "uid"}}, newPlaces()
			if err := rc.observeWork(t.Context(), &work, &known); err != nil || work.Gone != c.want {
				t.Errorf("gone %t, error %v", work.Gone, err)
			}
			if ended, _ := disruptionplan.Ended(&work, disruptionplan.Pace{Deadline: time.Minute}, rc.now); ended != (c.over && c.node == never) {
				t.Errorf("it has ended: %t", ended)
			}
		})
	}
}

// TestEndReservations_Latest: what is decided knows the reservations that the group has now, and not only those that were observed: the cache of
// NodeGroups may lag behind that of Nodes.
func TestEndReservations_Latest(t *testing.T) {
	scheme := apitest.Scheme(t, corev1.AddToScheme, v1alpha1.AddToScheme, coordinationv1.AddToScheme)
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "group", UID: "group"}}
	observed := members.Parse(group.DeepCopy())
	group.Status.Reservations = []v1alpha1.Reservation{{Node: "n", Capability: v1alpha1.CapabilityUpgrade, Time: metav1.Now()}}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(group).Build()
	rc := &reconciliation{
		Reconciler: &Reconciler{
			Dependencies: Dependencies{Cache: cache, Budgets: budgetsWithWaiting(t, cache)},
			options: Options{
				Machines: func() bool { return false },
				Exists:   func(context.Context, *v1alpha1.Reservation) (bool, error) { return true, nil },
			},
		},
		observation: &observation{group: observed}, now: time.Now(), state: &groupState{places: newPlaces()},
	}
	in := &plan.Input{Group: observed.NodeGroup}
	if err := rc.endReservations(t.Context(), in, &controller.Requeue{}); err != nil {
		t.Fatal(err)
	}
	if len(in.Group.Status.Reservations) != 1 || len(observed.Status.Reservations) != 0 {
		t.Errorf("decided on are %v, and what was observed has %v", in.Group.Status.Reservations, observed.Status.Reservations)
	}
}
