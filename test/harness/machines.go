package harness

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/metadata"
	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/cluster"
)

// Pool is a MachineSet of a test whose Machines kwok plays.
type Pool struct {
	*World
	// Name is the MachineSet's.
	Name string
}

// MakePool makes a MachineSet, and removes it with its Machines when the test ends.
func (w *World) MakePool(name string, replicas int32, change func(*machinev1beta1.MachineSet, *kwok.ProviderSpec)) *Pool {
	w.Helper()
	set := NewMachineSet(name, replicas)
	set.Spec.Template.Spec.ProviderSpec = KwokProviderSpec(func(spec *kwok.ProviderSpec) {
		spec.InstanceType, spec.Zone = "kwok.fake", "zone-a"
		if change != nil {
			change(set, spec)
		}
	})
	return w.createPool(set)
}

// createPool makes a pool of a MachineSet, and removes it when the test ends.
func (w *World) createPool(set *machinev1beta1.MachineSet) *Pool {
	w.Helper()
	w.create(set)
	p := &Pool{World: w, Name: set.Name}
	w.cleanup(p.remove)
	return p
}

// remove deletes the pool; what is left of it when no operator runs any more is taken away by force.
func (p *Pool) remove(ctx context.Context) {
	set := &machinev1beta1.MachineSet{ObjectMeta: Meta(p.Name)}
	if err := p.Client.Delete(ctx, set); client.IgnoreNotFound(err) != nil {
		p.Errorf("deleting MachineSet %s: %v", p.Name, err)
	}
	var machines machinev1beta1.MachineList
	if err := p.Client.List(ctx, &machines, p.members()...); err != nil {
		p.Errorf("listing the Machines of %s: %v", p.Name, err)
	}
	for i := range machines.Items {
		machine := &machines.Items[i]
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		for _, err := range []error{
			p.Client.Delete(ctx, machine), p.Client.Patch(ctx, machine, patch),
			p.Client.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}),
		} {
			if client.IgnoreNotFound(err) != nil {
				p.Errorf("removing Machine %s: %v", machine.Name, err)
			}
		}
	}
}

func (p *Pool) members() []client.ListOption {
	return []client.ListOption{client.InNamespace(cluster.MachineNamespace), client.MatchingLabels{cluster.MachineSetLabel: p.Name}}
}

// Set reads the MachineSet.
func (p *Pool) Set() *machinev1beta1.MachineSet {
	p.Helper()
	return p.World.Set(p.Name)
}

// Machines lists the pool's Machines by name, including Machines that are being deleted.
func (p *Pool) Machines() []machinev1beta1.Machine {
	p.Helper()
	var list machinev1beta1.MachineList
	if err := p.Client.List(p.Context(), &list, p.members()...); err != nil {
		p.Fatalf("listing the Machines of %s: %v", p.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b machinev1beta1.Machine) int { return strings.Compare(a.Name, b.Name) })
	return list.Items
}

// JSON renders an object for a complaint.
func JSON(object any) string {
	text, err := json.Marshal(object)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// NodeReady reports whether a Node says that it is.
func NodeReady(node *corev1.Node) bool { return nodeReadiness(node) == corev1.ConditionTrue }

// nodeReadiness returns the status of a Node's condition Ready; empty if the Node has none.
func nodeReadiness(node *corev1.Node) corev1.ConditionStatus {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status
		}
	}
	return ""
}

// Scale sets the replicas through the scale subresource, as kubectl and the autoscalers do.
func (p *Pool) Scale(replicas int32) {
	p.Helper()
	patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := p.Client.SubResource("scale").Patch(p.Context(), p.Set(), patch); err != nil {
		p.Fatalf("scaling %s: %v", p.Name, err)
	}
}

// Runs waits until the pool has so many Machines and no more, each with its Node, and says so.
func (p *Pool) Runs(count int) []machinev1beta1.Machine {
	p.Helper()
	var machines []machinev1beta1.Machine
	p.Eventually(fmt.Sprintf("pool %s has %d Machines that run", p.Name, count), func() error {
		var err error
		machines, err = p.Running(count)
		return err
	})
	return machines
}

// Running says what is missing to the pool having so many Machines and no more, each with its Node, and saying so.
func (p *Pool) Running(count int) ([]machinev1beta1.Machine, error) {
	p.Helper()
	machines := p.Machines()
	if len(machines) != count {
		return nil, fmt.Errorf("it has %d Machines", len(machines))
	}
	for i := range machines {
		m := &machines[i]
		if m.Status.Phase == nil || *m.Status.Phase != machinev1beta1.PhaseRunning || m.Status.NodeRef == nil {
			return nil, fmt.Errorf("machine %s: %s", m.Name, JSON(m.Status))
		}
	}
	status := p.Set().Status
	if int(status.Replicas) != count || int(status.ReadyReplicas) != count || int(status.AvailableReplicas) != count {
		return nil, fmt.Errorf("its status says %s", JSON(status))
	}
	return machines, nil
}

// Gone waits until a Machine and its Node are gone.
func (p *Pool) Gone(machine string) {
	p.Helper()
	p.World.Gone(&machinev1beta1.Machine{ObjectMeta: Meta(machine)})
	p.World.Gone(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine}})
}

// DeleteMachine deletes a Machine as a user does.
func (p *Pool) DeleteMachine(name string) time.Time {
	p.Helper()
	machine := &machinev1beta1.Machine{ObjectMeta: Meta(name)}
	if err := p.Client.Delete(p.Context(), machine); err != nil {
		p.Fatalf("deleting Machine %s: %v", name, err)
	}
	return time.Now()
}

// Merge patches an object as another writer does.
func (w *World) Merge(object client.Object, patch string) {
	w.Helper()
	if err := w.Client.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		w.Fatalf("patching %T %s: %v", object, object.GetName(), err)
	}
}

// KeptRollout returns where the waves of a MachineSet are, as the next process finds it in the ConfigMap; empty for none.
func (w *World) KeptRollout(set string) string {
	w.Helper()
	found := &corev1.ConfigMap{}
	err := w.Client.Get(w.Context(), types.NamespacedName{Namespace: SystemNamespace, Name: metadata.ConfigMapName}, found)
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return found.Data[string(w.Set(set).UID)]
}
