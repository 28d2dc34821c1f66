package members

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
)

// owedMachine returns a Machine of a MachineSet, and of a Node that has its name.
func owedMachine(set, node string, changes ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	machine := ofSet("m-"+node, set, node, nil)
	for _, change := range changes {
		change(machine)
	}
	return machine
}

func annotated(key, value string) func(*machinev1beta1.Machine) {
	return func(machine *machinev1beta1.Machine) { machine.Annotations = map[string]string{key: value} }
}

func beingRemoved(machine *machinev1beta1.Machine) { deleting(machine) }

func withoutController(machine *machinev1beta1.Machine) { machine.OwnerReferences = nil }

func foreign(machine *machinev1beta1.Machine) {
	machine.Namespace, machine.UID = "theirs", "theirs"+types.UID(machine.Name)
}

func withoutNode(machine *machinev1beta1.Machine) { machine.Status.NodeRef = nil }

// TestIndex_Machines: what Machines show counts in the group of their Node, or else of their MachineSet, which has the Machines of its namespace.
func TestIndex_Machines(t *testing.T) {
	gpu, cpu := map[string]string{"pool": "gpu"}, map[string]string{"pool": "cpu"}
	joining := []corev1.Taint{{Key: plan.TaintUninitialized, Effect: corev1.TaintEffectNoSchedule}}
	type set = plan.MachineSet
	for name, c := range map[string]struct {
		// machine exists beside the Machines of the Nodes n0 and n1, which are in the group gpu. n2 is in the group cpu, and n3 is joining gpu.
		machine   *machinev1beta1.Machine
		replicas  int32
		reached   int32
		want      set
		deleted   []string
		requested int
	}{
		"nothing unusual":               {owedMachine("web", "n2"), 3, 3, set{Wanted: 3, Nodes: 3}, nil, 0},
		"one is gone":                   {owedMachine("db", "n2"), 3, 3, set{Wanted: 3, Nodes: 2, NotCreated: 1}, nil, 0},
		"one grows":                     {owedMachine("db", "n2"), 3, 2, set{Wanted: 2, Nodes: 2}, nil, 0},
		"one that grows has no Node":    {owedMachine("web", "n9", withoutNode), 3, 3, set{Wanted: 2, Nodes: 2}, nil, 0},
		"one that grows has a new Node": {owedMachine("web", "n3"), 3, 3, set{Wanted: 2, Nodes: 2}, nil, 0},
		"one that grew lost its Node":   {owedMachine("web", "n9"), 3, 3, set{Wanted: 3, Nodes: 2}, nil, 0},
		"one of another namespace": {
			owedMachine("web", "n9", foreign, withoutNode, annotated(machineapi.ExternalAnnotation, "")),
			3, 3, set{Wanted: 3, Nodes: 2, NotCreated: 1}, nil, 0,
		},
		"one of no MachineSet is being deleted": {
			owedMachine("", "n3b", withoutController, beingRemoved), 2, 2, set{Wanted: 2, Nodes: 2}, []string{"n3b"}, 0,
		},
		"one of a MachineSet that is gone was handed over": {
			owedMachine("gone", "n3b", annotated(machineapi.ExternalAnnotation, "")), 2, 2, set{Wanted: 2, Nodes: 2}, nil, 1,
		},
		"one of a Node in another group is being deleted": {
			owedMachine("web", "n2", beingRemoved, annotated(machineapi.ExternalAnnotation, "")), 2, 2, set{Wanted: 2, Nodes: 3}, nil, 0,
		},
		"one of another namespace names a Node and is being deleted": {
			owedMachine("db", "n0", foreign, beingRemoved), 2, 2, set{Wanted: 2, Nodes: 2}, nil, 0,
		},
		"one without a Node was handed over": {
			owedMachine("web", "n9", withoutNode, annotated(machineapi.ExternalAnnotation, "")), 3, 3, set{Wanted: 2, Nodes: 2}, nil, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			web := guardedSet("web", nil)
			web.Spec.Replicas, web.Status.Replicas = new(c.replicas), c.reached
			objects := []client.Object{
				web, owedMachine("web", "n0"), owedMachine("web", "n1"), c.machine,
				newGroup("gpu", bySelector(gpu)).NodeGroup, newGroup("cpu", bySelector(cpu)).NodeGroup,
			}
			index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}}, objects...)
			for node, labels := range map[string]map[string]string{"n0": gpu, "n1": gpu, "n2": cpu, "n3": gpu, "n3b": gpu} {
				object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "uid-" + types.UID(node), Labels: labels}}
				if node == "n3" {
					object.Spec.Taints = joining
				}
				index.set(t.Context(), object)
			}
			got, err := index.Machines(t.Context(), "gpu", time.Now())
			if err != nil || len(got.Sets) != 1 {
				t.Fatalf("%+v, error %v", got, err)
			}
			if of := got.Sets[0]; of.Wanted != c.want.Wanted || of.Nodes != c.want.Nodes || of.NotCreated != c.want.NotCreated {
				t.Errorf("the MachineSet is %+v, want %+v", of, c.want)
			}
			if !slices.Equal(got.Deleted, c.deleted) || len(got.Requested) != c.requested {
				t.Errorf("deleted are %q, and %+v was handed over", got.Deleted, got.Requested)
			}
		})
	}
}

// TestIndex_Machines_Namespaces: remediation requests are looked for where the Machines of a group are, and nowhere else.
func TestIndex_Machines_Namespaces(t *testing.T) {
	gpu, cpu := map[string]string{"pool": "gpu"}, map[string]string{"pool": "cpu"}
	standalone := owedMachine("", "n1", foreign, withoutController)
	index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0", Labels: gpu}},
		guardedSet("web", nil), owedMachine("web", "n0"), standalone, newGroup("gpu", bySelector(gpu)).NodeGroup,
		newGroup("cpu", bySelector(cpu)).NodeGroup)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "uid-n1", Labels: cpu}}
	expect := func(group string, want ...string) {
		t.Helper()
		if got, err := index.Machines(t.Context(), group, time.Now()); err != nil || !slices.Equal(got.Namespaces, want) {
			t.Errorf("%s has Machines of %q, error %v", group, got.Namespaces, err)
		}
	}
	index.set(t.Context(), node)
	expect("gpu", "ours")
	expect("cpu", "theirs")
	moved := node.DeepCopy()
	moved.Labels = gpu
	index.set(t.Context(), moved)
	expect("gpu", "ours", "theirs")
	expect("cpu")
	index.remove(t.Context(), "n1")
	expect("gpu", "ours")
}

// TestIndex_Machines_OfTenants: what is declared in a namespace without Nodes of the group is no part of it, unless the group has no Nodes at all.
func TestIndex_Machines_OfTenants(t *testing.T) {
	gpu := map[string]string{"pool": "gpu"}
	for name, c := range map[string]struct {
		namespace, node string
		want            bool
	}{
		"of another namespace":                   {"theirs", "n0", false},
		"of the namespace of other Nodes":        {"ours", "n0", true},
		"of another namespace, there is no Node": {"theirs", "elsewhere", true},
	} {
		t.Run(name, func(t *testing.T) {
			other := guardedSet("other", nil)
			other.Namespace, other.Spec.Replicas, other.Status.Replicas = c.namespace, new(int32(5)), 5
			other.Spec.Template.Spec.Labels = gpu
			machine := ofSet("m", "other", "", gpu)
			machine.Namespace = c.namespace
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.node, UID: "uid-" + types.UID(c.node)}}
			if c.node == "n0" {
				node.Labels = gpu
			}
			index := newIndex(t, node, guardedSet("web", nil), other, machine, owedMachine("web", "n0"), newGroup("gpu", bySelector(gpu)).NodeGroup)
			got, err := index.Machines(t.Context(), "gpu", time.Now())
			isCounted := slices.ContainsFunc(got.Sets, func(set plan.MachineSet) bool { return set.NotCreated == 4 })
			group, groupErr := index.GroupOf(t.Context(), "Machine/"+c.namespace+"/m")
			if err != nil || groupErr != nil || isCounted != c.want || (group == "gpu") != c.want {
				t.Errorf("%+v, the Machine is in the group %q, errors %v and %v", got.Sets, group, err, groupErr)
			}
		})
	}
}

// TestIndex_Machines_Surge: if a Machine is made to replace a Machine that still exists, its MachineSet does not lack it.
func TestIndex_Machines_Surge(t *testing.T) {
	gpu := map[string]string{"pool": "gpu"}
	for name, c := range map[string]struct {
		replaced *machinev1beta1.Machine
		want     bool
	}{
		"it is there":         {owedMachine("web", "n1"), true},
		"it is being deleted": {owedMachine("web", "n1", beingRemoved), false},
		"it is gone":          {owedMachine("web", "n2"), false},
		"it is another one's": {owedMachine("db", "n1"), false},
	} {
		t.Run(name, func(t *testing.T) {
			web := guardedSet("web", nil)
			web.Spec.Replicas = new(int32(2))
			surge := owedMachine("web", "n9", withoutNode, annotated(machineapi.CreatedForAnnotation, "outdated/oursm-n1"))
			index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid-n0", Labels: gpu}},
				web, owedMachine("web", "n0"), c.replaced, surge, newGroup("gpu", bySelector(gpu)).NodeGroup)
			got, err := index.Machines(t.Context(), "gpu", time.Now())
			if err != nil || len(got.Sets) != 1 || len(got.Sets[0].New) != 1 || got.Sets[0].New[0].Surge != c.want {
				t.Errorf("%+v, error %v", got, err)
			}
		})
	}
}

// TestIndex_Machines_ForgetsControllers: who creates Machines of ever other controllers, and deletes them, leaves nothing behind.
func TestIndex_Machines_ForgetsControllers(t *testing.T) {
	index := newIndex(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "elsewhere"}})
	if _, err := index.Machines(t.Context(), "gpu", time.Now()); err != nil {
		t.Fatal(err)
	}
	for _, controller := range []string{"a", "b", ""} {
		machine := owedMachine(controller, "n0")
		index.setMachine(t.Context(), machine, true)
		index.setMachine(t.Context(), machine, false)
		if index.inventory.HasSet(machine.Namespace, machineapi.ControllerUID(machine)) {
			t.Errorf("controller %q is left", controller)
		}
	}
}
