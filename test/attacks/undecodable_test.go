package attacks

import (
	"context"
	"fmt"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/undecodable"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// badTaints are a taint of a MachineSet or a Machine, as JSON, that the API server's schema lets through and Go cannot decode.
var badTaints = []string{
	`[{"key":"attacks/a","effect":"NoSchedule","timeAdded":"2020-01-01t00:00:00z"}]`,
	`[{"key":"attacks/a","effect":"NoSchedule","timeAdded":"2020-01-01T00:00:00+99:99"}]`,
}

// finalizer keeps an object that is being deleted.
const keptFinalizer = "attacks.example.com/kept"

// TestMachineAuthor_UndecodableValues: the policies deny what clients cannot decode, also on objects that are being deleted.
func TestMachineAuthor_UndecodableValues(t *testing.T) {
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	set := harness.NewMachineSet("attacks-undecodable", 0, withProvider)
	machine := harness.NewMachine("attacks-undecodable", builder.WithProviderSpec(harness.NeverBoots()))
	check := builder.MachineHealthCheck(cluster.MachineNamespace, "attacks-undecodable", map[string]string{"attacks": "none"})
	for _, object := range []client.Object{set, machine, check} {
		object.SetFinalizers([]string{keptFinalizer})
		w.CreateWithCleanup(object)
		t.Cleanup(func() {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := w.Client.Patch(context.WithoutCancel(t.Context()), object, patch); client.IgnoreNotFound(err) != nil {
				t.Error(err)
			}
		})
	}
	patches := map[string]struct {
		of      client.Object
		patches []string
	}{
		"MachineSet": {set, []string{
			`{"spec":{"template":{"spec":{"taints":` + badTaints[0] + `}}}}`, `{"spec":{"template":{"spec":{"taints":` + badTaints[1] + `}}}}`,
			`{"spec":{"replicas":3000000000}}`, `{"spec":{"minReadySeconds":3000000000}}`,
		}},
		"Machine": {machine, []string{`{"spec":{"taints":` + badTaints[0] + `}}`, `{"spec":{"taints":` + badTaints[1] + `}}`}},
		"MachineHealthCheck": {check, []string{
			`{"spec":{"maxUnhealthy":3000000000}}`, `{"spec":{"nodeStartupTimeout":"0foo"}}`, `{"spec":{"nodeStartupTimeout":"900000h"}}`,
		}},
	}
	for _, state := range []string{"", " that is being deleted"} {
		for kind, test := range patches {
			for _, patch := range test.patches {
				attack(t, "author of "+kind+"s", "a value that clients cannot decode, in a "+kind+state+": "+patch, func(t *testing.T) string {
					err := w.Client.Patch(t.Context(), test.of, client.RawPatch(types.MergePatchType, []byte(patch)))
					return denied(t, err)
				})
			}
		}
		for _, object := range []client.Object{set, machine, check} {
			if err := w.Client.Delete(t.Context(), object); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestMachineAuthor_OneUndecodableObject: an object that cannot be decoded, which is older than the policies, stops neither a start of Drover nor
// its work on others, and what depends on it stays as it is.
func TestMachineAuthor_OneUndecodableObject(t *testing.T) {
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	withoutPolicy(t, w, "drover-decodable-machines")
	good, other := pool(w, "attacks-good", 2), pool(w, "attacks-other", 1)
	args := harness.Options{Args: []string{"--controllers=metadata,machines,autoscaling,maintenance,node-groups"}}
	first := w.Operator(args)
	machines := counts(w, good, 2)
	counts(w, other, 1)
	attack(t, machineAuthor, "a Machine and a MachineSet that cannot be decoded stop Drover", func(t *testing.T) string {
		store(w, &machines[0], "Machine", `{"spec":{"taints":`+badTaints[0]+`}}`)
		bad := harness.NewMachineSet("attacks-bad", 1, withProvider)
		w.CreateWithCleanup(bad)
		store(w, bad, "MachineSet", `{"spec":{"template":{"spec":{"taints":`+badTaints[1]+`}}}}`)
		for _, operator := range []func() *harness.Operator{
			func() *harness.Operator { return first },
			func() *harness.Operator {
				if err := first.Kill(); err != nil {
					t.Fatal(err)
				}
				return w.Operator(args)
			},
		} {
			running := operator()
			for _, line := range []string{
				"capability metadata: running", "capability machines: running", "capability autoscaling: running", "capability maintenance: running",
				"capability node-groups: running", "warning: MachineSet " + client.ObjectKeyFromObject(bad).String() + " cannot be decoded",
				"warning: Machine " + client.ObjectKeyFromObject(&machines[0]).String() + " cannot be decoded",
			} {
				if err := running.Says(t.Context(), line); err != nil {
					t.Fatal(err)
				}
			}
			scale(w, good, 1)
			scale(w, other, 3)
			counts(w, other, 3)
			scale(w, other, 1)
			counts(w, other, 1)
			if found := membersOf(w, good); len(found) != 2 {
				t.Errorf("MachineSet %s has %d Machines: one was deleted while another one could not be decoded", good.Name, len(found))
			}
			scale(w, good, 2)
		}
		for kind, name := range map[string]string{"MachineSet": bad.Name, "Machine": machines[0].Name} {
			w.Eventually("an event says why", func() error {
				if len(w.Events(kind, name)[undecodable.EventUndecodable]) == 0 {
					return fmt.Errorf("the events of %s %s are %v", kind, name, w.Events(kind, name))
				}
				return nil
			})
		}
		return "Drover reports what it cannot decode, and goes on"
	})
	w.Merge(&machines[0], `{"spec":{"taints":null}}`)
	scale(w, good, 1)
	counts(w, good, 1)
}

// TestMachineAuthor_UndecodableOwner: what Drover knows of a MachineSet that cannot be decoded has it neither delete its Machines, which would not be
// replaced, nor take its bounds away.
func TestMachineAuthor_UndecodableOwner(t *testing.T) {
	w := harness.NewWorld(t, env)
	if err := harness.InstallMachines(t.Context(), env); err != nil {
		t.Fatal(err)
	}
	withoutPolicy(t, w, "drover-decodable-machines")
	operator := w.Operator(harness.Options{Args: []string{"--controllers=metadata,machines,autoscaling"}})
	const name = "attacks-owner"
	machines := w.MakePool(name, 3, nil).Runs(3)
	set := &machinev1beta1.MachineSet{ObjectMeta: harness.Meta(name)}
	w.CreateWithCleanup(builder.MachineAutoscaler(cluster.MachineNamespace, name, name))
	bounds := func() error {
		now := &metav1.PartialObjectMetadata{}
		now.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineSet"))
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(set), now); err != nil {
			return err
		}
		if now.Annotations[machineapi.MaxSizeAnnotation] != "5" {
			return fmt.Errorf("the annotations are %v", now.Annotations)
		}
		return nil
	}
	w.Eventually("the MachineSet has bounds", bounds)
	attack(t, machineAuthor, "a MachineSet that cannot be decoded, all of whose Nodes are unhealthy", func(t *testing.T) string {
		store(w, set, "MachineSet", `{"spec":{"template":{"spec":{"taints":`+badTaints[0]+`}}}}`)
		// What its cache has before this event is right for a MachineSet that could be decoded.
		if err := operator.Says(t.Context(), "warning: MachineSet "+client.ObjectKeyFromObject(set).String()+" cannot be decoded"); err != nil {
			t.Fatal(err)
		}
		check := breaking(name)
		check.Spec.MaxUnhealthy = nil
		w.CreateWithCleanup(check)
		for i := range machines {
			breakNode(w, machines[i].Status.NodeRef.Name)
		}
		var why string
		w.Eventually("the MachineHealthCheck says why it remediates nothing", func() error {
			now := &machinev1beta1.MachineHealthCheck{}
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), now); err != nil {
				return err
			}
			for _, condition := range now.Status.Conditions {
				if condition.Type == "RemediationProgressing" && condition.Reason == "Undecodable" && *now.Status.CurrentHealthy == 0 {
					why = condition.Message
					return nil
				}
			}
			return fmt.Errorf("it is %s", harness.JSON(now.Status))
		})
		set.Spec.Selector.MatchLabels = map[string]string{cluster.MachineSetLabel: name}
		if left := membersOf(w, set); len(left) != 3 {
			t.Errorf("%d Machines are left", len(left))
		}
		if err := bounds(); err != nil {
			t.Error(err)
		}
		return why
	})
	w.Merge(set, `{"spec":{"template":{"spec":{"taints":null}}}}`)
}

func withProvider(set *machinev1beta1.MachineSet) {
	set.Spec.Template.Spec.ProviderSpec = harness.NeverBoots()
}

func pool(w *harness.World, name string, replicas int32) *machinev1beta1.MachineSet {
	w.Helper()
	set := harness.NewMachineSet(name, replicas, withProvider)
	w.CreateWithCleanup(set)
	return set
}

func scale(w *harness.World, set *machinev1beta1.MachineSet, replicas int) {
	w.Helper()
	w.Merge(set, fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
}

// membersOf returns the names of a MachineSet's Machines. They are read as metadata: a client cannot decode all of them.
func membersOf(w *harness.World, set *machinev1beta1.MachineSet) []machinev1beta1.Machine {
	w.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind("MachineList"))
	if err := w.Client.List(w.Context(), list, client.InNamespace(set.Namespace), client.MatchingLabels(set.Spec.Selector.MatchLabels)); err != nil {
		w.Fatal(err)
	}
	var machines []machinev1beta1.Machine
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			machines = append(machines, machinev1beta1.Machine{ObjectMeta: list.Items[i].ObjectMeta})
		}
	}
	return machines
}

// counts waits until a MachineSet has so many Machines, and returns them.
func counts(w *harness.World, set *machinev1beta1.MachineSet, count int) (machines []machinev1beta1.Machine) {
	w.Helper()
	w.Eventually(fmt.Sprintf("MachineSet %s has %d Machines", set.Name, count), func() error {
		if machines = membersOf(w, set); len(machines) != count {
			return fmt.Errorf("it has %d", len(machines))
		}
		return nil
	})
	return machines
}

// store patches an object with what a client cannot decode.
func store(w *harness.World, object client.Object, kind, patch string) {
	w.Helper()
	raw := &unstructured.Unstructured{}
	raw.SetGroupVersionKind(machinev1beta1.GroupVersion.WithKind(kind))
	raw.SetNamespace(object.GetNamespace())
	raw.SetName(object.GetName())
	w.Eventually("the policy is not in force", func() error {
		return w.Client.Patch(w.Context(), raw, client.RawPatch(types.MergePatchType, []byte(patch)))
	})
	err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(object), &machinev1beta1.MachineSet{})
	if kind == "MachineSet" && err == nil {
		w.Fatal("the object can be decoded: this test shows nothing")
	}
}
