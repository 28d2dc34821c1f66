package members

import (
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
)

// newMachine returns a Machine of the MachineSet of its namespace that names the Node "n" with a UID.
func newMachine(namespace, name string, age time.Duration, uid types.UID) *machinev1beta1.Machine {
	set := builder.MachineSet(namespace, "web", 0)
	set.UID = types.UID(namespace)
	return builder.Machine(namespace, name, builder.WithOwner(set), builder.WithNode("n"), func(machine *machinev1beta1.Machine) {
		machine.UID, machine.Status.NodeRef.UID = types.UID(namespace+name), uid
		machine.CreationTimestamp = metav1.NewTime(time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC).Add(-age))
	})
}

func deleting(machine *machinev1beta1.Machine) *machinev1beta1.Machine {
	machine.DeletionTimestamp, machine.Finalizers = new(machine.CreationTimestamp), []string{machinev1beta1.MachineFinalizer}
	return machine
}

// TestFinder_Assign_SeveralMachines: another Machine that names a Node takes it neither out of its group nor out of its budget.
func TestFinder_Assign_SeveralMachines(t *testing.T) {
	const ours, theirs, none = "ours", "theirs", "none"
	for name, c := range map[string]struct {
		machines    []*machinev1beta1.Machine
		recorded    string
		group, from string
		held        bool
	}{
		"one": {[]*machinev1beta1.Machine{newMachine(ours, "a", 0, "uid")}, "", ours, "a", false},
		"one of an earlier Node, which nothing else is known of": {[]*machinev1beta1.Machine{newMachine(ours, "a", 0, "old")}, "", ours, "a", false},
		"one of an earlier Node": {
			[]*machinev1beta1.Machine{newMachine(theirs, "a", time.Hour, "old"), newMachine(ours, "b", 0, "uid")}, "", ours, "b", false,
		},
		"an old one is being deleted": {
			[]*machinev1beta1.Machine{deleting(newMachine(ours, "a", time.Hour, "uid")), newMachine(ours, "b", 0, "uid")}, ours, ours, "b", false,
		},
		"only one, which is being deleted": {[]*machinev1beta1.Machine{deleting(newMachine(ours, "a", 0, "uid"))}, ours, ours, "a", false},
		"one of no group": {
			[]*machinev1beta1.Machine{newMachine(none, "a", time.Hour, "uid"), newMachine(ours, "b", 0, "uid")}, "", ours, "b", true,
		},
		"one of another group, with a record": {
			[]*machinev1beta1.Machine{newMachine(theirs, "a", time.Hour, "uid"), newMachine(ours, "b", 0, "uid")}, ours, ours, "b", true,
		},
		"one of another group, without a record": {
			[]*machinev1beta1.Machine{newMachine(theirs, "a", 0, "uid"), newMachine(ours, "b", time.Hour, "uid")}, "", ours, "b", true,
		},
		"two of the group": {
			[]*machinev1beta1.Machine{newMachine(ours, "a", 0, "uid"), newMachine(ours, "b", time.Hour, "uid")}, "", ours, "b", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "uid"}}
			if c.recorded != "" {
				node.Annotations = map[string]string{ownership.AnnotationGroupRecord: `{"labels":["team"],"pool":"` + c.recorded + `"}`}
			}
			finder := newFinder(t, node, c.machines...)
			groups, err := finder.Groups(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			assignment, err := finder.Assign(t.Context(), groups, node)
			if err != nil || assignment.Group == nil || assignment.Group.Name != c.group || assignment.Machine.Name != c.from {
				t.Fatalf("the Node is in the group %v, %v", assignment.Group, err)
			}
			decision := plan.DecideGroup(assignment.Input(ownership.DefaultProtected(), time.Time{}))
			if held := decision.State == plan.Held; held != c.held || held == decision.Change.Write {
				t.Errorf("state %s (%s), written %t", decision.State, decision.Reason, decision.Change.Write)
			}
			all, err := finder.Nodes(t.Context(), groups, assignment.Group.UID)
			if err != nil || len(all) != 1 || all[0].Machine.Name != c.from {
				t.Errorf("the Nodes of the group are %v, %v", all, err)
			}
		})
	}
}

// newFinder returns a Finder in a cluster with a Node, Machines, and in each of three namespaces a MachineSet. Two of the MachineSets are in a group.
func newFinder(t *testing.T, node *corev1.Node, machines ...*machinev1beta1.Machine) *Finder {
	t.Helper()
	objects := []client.Object{node}
	for _, namespace := range []string{"ours", "theirs", "none"} {
		objects = append(objects, &machinev1beta1.MachineSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", UID: types.UID(namespace)},
		})
		group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: namespace, UID: types.UID(namespace)}}
		group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: namespace}
		group.Spec.Metadata = &v1alpha1.Metadata{Labels: map[string]v1alpha1.LabelValue{"team": "blue"}}
		if namespace != "none" {
			objects = append(objects, group)
		}
	}
	for _, machine := range machines {
		objects = append(objects, machine)
	}
	return newFinderOf(t, objects...)
}

// newFinderOf returns a Finder in a cluster with these objects.
func newFinderOf(t *testing.T, objects ...client.Object) *Finder {
	t.Helper()
	scheme := apitest.Scheme(t, machinev1beta1.Install, v1alpha1.AddToScheme, corev1.AddToScheme)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := lookup.Index(t.Context(), apitest.Indexer{Builder: builder}); err != nil {
		t.Fatal(err)
	}
	return NewFinder(builder.Build(), func() bool { return true })
}
