package machines

import (
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/harness"
)

// lonely creates a Machine without a MachineSet, whose instance never becomes a Node of its own.
func lonely(w *harness.World, name string, providerID *string) *machinev1beta1.Machine {
	w.Helper()
	machine := harness.NewMachine(name, builder.WithProviderSpec(harness.NeverBoots()))
	machine.Spec.ProviderID = providerID
	w.CreateWithCleanup(machine)
	return machine
}

// untouched fails the test when a Node has been cordoned or deleted.
func untouched(w *harness.World, name string, uid types.UID) {
	w.Helper()
	if node := w.Node(name); node.UID != uid || node.DeletionTimestamp != nil || node.Spec.Unschedulable {
		w.Errorf("Node %s is %s", name, harness.JSON(node.Spec))
	}
}

// TestNodeRef_NodeOfAnotherMachine: a Machine whose nodeRef names the Node of another one, as after the reuse of an address, loses its nodeRef,
// and its end leaves that Node alone.
func TestNodeRef_NodeOfAnotherMachine(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("rightful", 1, nil)
	rightful := p.Runs(1)[0]
	node := w.Node(rightful.Name)
	stale := lonely(w, "stale", nil)
	w.Eventually("the Machine has a providerID", func() error {
		if id := w.Machine(stale.Name).Spec.ProviderID; id == nil {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	patch := fmt.Appendf(nil, `{"status":{"nodeRef":{"kind":"Node","name":%q,"uid":%q}}}`, node.Name, node.UID)
	if err := w.Client.Status().Patch(t.Context(), w.Machine(stale.Name), client.RawPatch(types.MergePatchType, patch)); err != nil {
		t.Fatal(err)
	}
	w.Eventually("nodeRef is cleared", func() error {
		if ref := w.Machine(stale.Name).Status.NodeRef; ref != nil {
			return fmt.Errorf("it is %s", harness.JSON(ref))
		}
		return nil
	})
	p.DeleteMachine(stale.Name)
	p.Gone(stale.Name)
	untouched(w, node.Name, node.UID)
	p.Runs(1)
}

// TestAdoption_Instances: a Machine that names the providerID of a Node which was there before gets it only where its namespace may adopt Nodes.
func TestAdoption_Instances(t *testing.T) {
	w, _ := world(t, "--machines-adoption-namespaces=elsewhere")
	node := builder.Node("standing", builder.WithProviderID("metal:///standing"))
	w.CreateWithCleanup(node)
	w.Eventually("the clock shows another second than that of the Node's creation", func() error {
		if probe := w.Node(node.Name); !metav1.Now().After(probe.CreationTimestamp.Add(1e9)) {
			return fmt.Errorf("not yet")
		}
		return nil
	})
	machine := lonely(w, "greedy", &node.Spec.ProviderID)
	p := &harness.Pool{World: w, Name: "greedy"}
	condition(p, machine.Name, "Ready", "NodeNotAdopted")
	p.DeleteMachine(machine.Name)
	p.Gone(machine.Name)
	untouched(w, node.Name, node.UID)
}

// TestCordonRecord_MachineRemovedByForce: the node of a Machine that is removed in the middle of its end does not stay cordoned.
func TestCordonRecord_MachineRemovedByForce(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("forced", 1, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) {
		set.Spec.Template.Spec.LifecycleHooks.PreTerminate = []machinev1beta1.LifecycleHook{{Name: "Keep", Owner: "test"}}
	})
	name := p.Runs(1)[0].Name
	p.DeleteMachine(name)
	condition(p, name, "Drained", "True")
	if !w.Node(name).Spec.Unschedulable {
		t.Fatal("the node is not cordoned")
	}
	w.Merge(w.Machine(name), `{"metadata":{"finalizers":null}}`)
	w.AwaitNode(name, "it is released", func(node *corev1.Node) error {
		if node.Spec.Unschedulable || node.Annotations[drain.AnnotationCordon] != "" {
			return fmt.Errorf("it is %s, record %s", harness.JSON(node.Spec), node.Annotations[drain.AnnotationCordon])
		}
		return nil
	})
	// It is the next request after that.
	w.AwaitHolder(name, "")
	if err := w.Client.Delete(t.Context(), w.Node(name)); err != nil {
		t.Error(err)
	}
}

// TestMachine_FinalizerOfAnotherController: what is left of a Machine says that it is deleted.
func TestMachine_FinalizerOfAnotherController(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("kept", 1, nil)
	name := p.Runs(1)[0].Name
	w.Merge(w.Machine(name), fmt.Sprintf(`{"metadata":{"finalizers":[%q,"example.com/backup"]}}`, machinev1beta1.MachineFinalizer))
	p.DeleteMachine(name)
	w.Eventually("Drover is finished with the Machine", func() error {
		if left := w.Machine(name).Finalizers; len(left) != 1 {
			return fmt.Errorf("its finalizers are %v", left)
		}
		return nil
	})
	machine := w.Machine(name)
	if machine.Status.NodeRef != nil || machine.Status.Phase == nil || *machine.Status.Phase != machinev1beta1.PhaseDeleting {
		t.Errorf("its status is %s", harness.JSON(machine.Status))
	}
	condition(p, name, "Ready", "Deleting")
	condition(p, name, "Drained", "True")
	condition(p, name, "InstanceExists", "InstanceDeleted")
	w.Merge(machine, `{"metadata":{"finalizers":null}}`)
	p.Gone(name)
}
