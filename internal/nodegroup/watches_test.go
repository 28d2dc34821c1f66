package nodegroup

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/rollout/gate"
)

// watched returns the queue of a controller in a cluster with the groups a and b, and the informers of MachineSets and Machines.
func watched(t *testing.T) (queue *apitest.Queue, sets, machines *controllertest.FakeInformer) {
	t.Helper()
	scheme := apitest.Scheme(t, machinev1beta1.Install, v1alpha1.AddToScheme, corev1.AddToScheme, coordinationv1.AddToScheme)
	group := func(name string) *v1alpha1.NodeGroup {
		return &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	r := &Reconciler{
		Dependencies: Dependencies{
			Cache: fake.NewClientBuilder().WithScheme(scheme).WithObjects(group("a"), group("b")).Build(), Gate: &gate.Gate{},
		},
		options: Options{Machines: func() bool { return true }},
	}
	queue, informer := startWatches(t, r, scheme)
	return queue, informer(&machinev1beta1.MachineSet{}), informer(&machinev1beta1.Machine{})
}

// startWatches returns the queue of a controller, and its informers.
func startWatches(t *testing.T, r *Reconciler, scheme *runtime.Scheme) (*apitest.Queue, func(client.Object) *controllertest.FakeInformer) {
	t.Helper()
	cache, queue := &informertest.FakeInformers{Scheme: scheme}, &apitest.Queue{}
	for _, source := range r.sources(cache) {
		if err := source.Start(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	return queue, func(kind client.Object) *controllertest.FakeInformer {
		found, err := cache.FakeInformerFor(t.Context(), kind)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
}

// TestSources_MachineSets: a group may lose or gain Nodes with a MachineSet.
func TestSources_MachineSets(t *testing.T) {
	queue, sets, _ := watched(t)
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "web", UID: "web"}}
	changed := func(change func(*machinev1beta1.MachineSet)) func() {
		after := set.DeepCopy()
		change(after)
		return func() { sets.Update(set, after) }
	}
	for _, c := range []struct {
		name  string
		event func()
		want  string
	}{
		{"created", func() { sets.Add(set) }, "a b"},
		{"scaled", changed(func(s *machinev1beta1.MachineSet) { s.Spec.Replicas = new(int32(2)) }), ""},
		{"labelled", changed(func(s *machinev1beta1.MachineSet) { s.Labels = map[string]string{"gpu": "h200"} }), "a b"},
		{"tainted", changed(func(s *machinev1beta1.MachineSet) {
			s.Generation, s.Spec.Template.Spec.Taints = 2, []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoExecute}}
		}), "a b"},
		{"a taint is set once", changed(func(s *machinev1beta1.MachineSet) {
			s.Annotations = map[string]string{metadataplan.AnnotationSetOnceTaints: "k"}
		}), "a b"},
		{"created again", changed(func(s *machinev1beta1.MachineSet) { s.UID = "new" }), "a b"},
		{"deleted", func() { sets.Delete(set) }, "a b"},
	} {
		c.event()
		if got := queue.Take(); got != c.want {
			t.Errorf("%s: queued %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSources_Machines: a Node may join or leave a group with its Machine.
func TestSources_Machines(t *testing.T) {
	queue, _, machines := watched(t)
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "m", OwnerReferences: ownedBy("web")}}
	machine.Status.NodeRef = &corev1.ObjectReference{Name: "n"}
	withoutNode := machine.DeepCopy()
	withoutNode.Status.NodeRef = nil
	changed := func(change func(*machinev1beta1.Machine)) func() {
		after := machine.DeepCopy()
		change(after)
		return func() { machines.Update(machine, after) }
	}
	for _, c := range []struct {
		name  string
		event func()
		want  string
	}{
		{"created without a Node", func() { machines.Add(withoutNode) }, ""},
		{"created with a Node", func() { machines.Add(machine) }, "a b"},
		{"gets its Node", func() { machines.Update(withoutNode, machine) }, "a b"},
		{"labelled", changed(func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"x": "y"} }), "a b"},
		{"paused", changed(func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{paused.Annotation: ""} }), "a b"},
		{"another Node of the same name", changed(func(m *machinev1beta1.Machine) { m.Status.NodeRef.UID = "new" }), "a b"},
		{"being deleted", changed(func(m *machinev1beta1.Machine) { m.DeletionTimestamp = new(metav1.Now()) }), "a b"},
		{"orphaned", changed(func(m *machinev1beta1.Machine) { m.OwnerReferences = nil }), "a b"},
		{"adopted by another MachineSet", changed(func(m *machinev1beta1.Machine) { m.OwnerReferences = ownedBy("db") }), "a b"},
		{"deleted without a Node", func() { machines.Delete(withoutNode) }, ""},
		{"deleted with a Node", func() { machines.Delete(machine) }, "a b"},
	} {
		c.event()
		if got := queue.Take(); got != c.want {
			t.Errorf("%s: queued %q, want %q", c.name, got, c.want)
		}
	}
}

// TestSources_Replacement: what changes which Machines are replaced concerns the group of their MachineSet, or a MachineSet that has none any more.
func TestSources_Replacement(t *testing.T) {
	group, set := newReplacing(), newSet()
	group.Finalizers = nil
	machine := builder.Machine("machines", "m1", builder.WithOwner(set))
	r := newReplaced(t, group, set)
	queue, informer := startWatches(t, r.reconciler, r.client.Scheme())
	groups, sets, machines := informer(&v1alpha1.NodeGroup{}), informer(&machinev1beta1.MachineSet{}), informer(&machinev1beta1.Machine{})
	other := group.DeepCopy()
	other.Generation, other.Spec.Nodes.MachineSets.Names = 2, []string{"b"}
	scaled, skipped := set.DeepCopy(), machine.DeepCopy()
	scaled.Generation++
	skipped.Annotations = map[string]string{machineapi.SkipReplacementAnnotation: ""}
	remove := func(object client.Object) {
		if err := r.client.Delete(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name  string
		event func()
		want  string
	}{
		{"a Machine appears", func() { machines.Add(machine) }, "gpu"},
		{"a user excludes it", func() { machines.Update(machine, skipped) }, "gpu"},
		{"it is gone", func() { machines.Delete(machine) }, "gpu"},
		{"the MachineSet is scaled", func() { sets.Update(set, scaled) }, "gpu"},
		{"the group selects another one", func() { groups.Update(group, other) }, "a gpu"},
		{"the group is gone", func() { remove(group); groups.Delete(group) }, "a gpu"},
		{"a MachineSet without a group", func() { sets.Add(set) }, "a"},
	} {
		c.event()
		if got := queue.TakeOnce(); got != c.want {
			t.Errorf("%s: queued %q, want %q", c.name, got, c.want)
		}
	}
}

// ownedBy returns the references of a Machine of a MachineSet.
func ownedBy(set string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{Kind: "MachineSet", Name: set, UID: types.UID(set), Controller: new(true)}}
}
