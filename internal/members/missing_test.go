package members

import (
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/machineapi"
)

// owedFixture is a NodeGroup of a MachineSet with Machines a, b and c, which have Nodes of their names unless a change takes those away.
type owedFixture struct {
	set      *machinev1beta1.MachineSet
	machines map[string]*machinev1beta1.Machine
	nodes    map[string]*corev1.Node
}

func newOwedFixture(changes ...func(*owedFixture)) *owedFixture {
	f := &owedFixture{machines: map[string]*machinev1beta1.Machine{}, nodes: map[string]*corev1.Node{}}
	f.set = &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: "web", UID: "web"}}
	f.set.Spec.Replicas, f.set.Status.Replicas = new(int32(3)), 3
	for _, name := range []string{"a", "b", "c"} {
		f.machines[name] = ofSet(name, "web", name, nil)
		f.machines[name].Namespace, f.machines[name].UID = "ours", types.UID("m-"+name)
		f.machines[name].Status.NodeRef.UID = types.UID(name)
		f.nodes[name] = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}}
		f.nodes[name].Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	}
	for _, change := range changes {
		change(f)
	}
	return f
}

func (f *owedFixture) index(t *testing.T) *Index {
	t.Helper()
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers", UID: "workers"}}
	group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "ours"}
	objects, entries := []client.Object{group, f.set}, map[string]entry{}
	for _, machine := range f.machines {
		objects = append(objects, machine)
	}
	for name, node := range f.nodes {
		objects, entries[name] = append(objects, node), entry{node: node}
	}
	return &Index{finder: newFinderOf(t, objects...), ready: true, stale: true, nodes: entries}
}

func without(name string) func(*owedFixture) {
	return func(f *owedFixture) { delete(f.machines, name); delete(f.nodes, name) }
}

func nodeless(name string) func(*owedFixture) {
	return func(f *owedFixture) { delete(f.nodes, name) }
}

func unlinked(name string) func(*owedFixture) {
	return func(f *owedFixture) { delete(f.nodes, name); f.machines[name].Status.NodeRef = nil }
}

func deleted(name string) func(*owedFixture) {
	return func(f *owedFixture) { f.machines[name] = deleting(f.machines[name]) }
}

func marked(name, key, value string) func(*owedFixture) {
	return func(f *owedFixture) {
		if f.machines[name].Annotations == nil {
			f.machines[name].Annotations = map[string]string{}
		}
		f.machines[name].Annotations[key] = value
	}
}

func replicas(spec, status int32) func(*owedFixture) {
	return func(f *owedFixture) { f.set.Spec.Replicas, f.set.Status.Replicas = &spec, status }
}

func joining(name string) func(*owedFixture) {
	return func(f *owedFixture) {
		f.nodes[name].Spec.Taints = []corev1.Taint{{Key: "drover.dev/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
	}
}

type changes []func(*owedFixture)

// TestIndex_Missing: what a MachineSet lacks is counted by what the cluster shows alone. Wanted are the Nodes of how many, those not created,
// new, deleted and requested.
func TestIndex_Missing(t *testing.T) {
	createdFor := machineapi.CreatedForAnnotation
	for name, c := range map[string]struct {
		changes changes
		want    string
	}{
		"all are there":                          {nil, "3/3 -0 +0 d0 r0"},
		"one is being deleted":                   {changes{deleted("a")}, "3/3 -1 +0 d1 r0"},
		"its Node is gone":                       {changes{deleted("a"), nodeless("a")}, "2/3 -1 +0 d0 r0"},
		"it is gone":                             {changes{without("a")}, "2/3 -1 +0 d0 r0"},
		"the new one has no Node":                {changes{unlinked("a"), marked("a", createdFor, "deleted/x")}, "2/3 -0 +1 d0 r0"},
		"the new one has a Node":                 {changes{marked("a", createdFor, "deleted/x")}, "3/3 -0 +1 d0 r0"},
		"the Node of the new one is joining":     {changes{marked("a", createdFor, "outdated/x"), joining("a")}, "2/3 -0 +1 d0 r0"},
		"growth has no Node":                     {changes{unlinked("a"), marked("a", createdFor, "growth")}, "2/2 -0 +0 d0 r0"},
		"growth in place of growth":              {changes{unlinked("a"), marked("a", createdFor, "growth/x")}, "2/2 -0 +1 d0 r0"},
		"growth is not created":                  {changes{replicas(5, 3)}, "3/3 -0 +0 d0 r0"},
		"growth, and one is gone":                {changes{replicas(5, 3), without("a")}, "2/3 -1 +0 d0 r0"},
		"a Node has vanished":                    {changes{nodeless("a")}, "2/3 -0 +0 d0 r0"},
		"scaled down":                            {changes{replicas(2, 3), deleted("a")}, "3/2 -0 +0 d1 r0"},
		"of another operator":                    {changes{unlinked("a")}, "2/2 -0 +0 d0 r0"},
		"of an earlier Drover":                   {changes{unlinked("a"), marked("a", machineapi.TemplateHashAnnotation, "v1:x")}, "2/3 -0 +1 d0 r0"},
		"handed over":                            {changes{marked("a", machineapi.ExternalAnnotation, "")}, "3/3 -0 +0 d0 r1"},
		"reached more before creations failed":   {changes{without("a"), replicas(3, 2), reached("3")}, "2/3 -1 +0 d0 r0"},
		"a record that is more than was asked":   {changes{without("a"), replicas(2, 2), reached("1000")}, "2/2 -0 +0 d0 r0"},
		"a Node of the name with another UID":    {changes{func(f *owedFixture) { f.nodes["a"].UID = "again" }}, "2/3 -0 +0 d0 r0"},
		"the new one has been Ready for a while": {changes{marked("a", createdFor, "deleted/x"), readyForAnHour("a")}, "3/3 -0 +0 d0 r0"},
	} {
		t.Run(name, func(t *testing.T) {
			index := newOwedFixture(c.changes...).index(t)
			for range 2 { // the second time without what has settled
				machines, err := index.Machines(t.Context(), "workers", start)
				if err != nil || len(machines.Sets) != 1 {
					t.Fatalf("%+v, error %v", machines, err)
				}
				set := &machines.Sets[0]
				got := fmt.Sprintf("%d/%d -%d +%d d%d r%d", set.Nodes, set.Wanted, set.NotCreated, len(set.New),
					len(machines.Deleted), len(machines.Requested))
				if got != c.want {
					t.Errorf("%s, want %s", got, c.want)
				}
			}
			if other, err := index.Machines(t.Context(), "others", start); err != nil || len(other.Sets) != 0 {
				t.Errorf("another group has %+v, error %v", other, err)
			}
		})
	}
}

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func reached(value string) func(*owedFixture) {
	return func(f *owedFixture) {
		f.set.Annotations = map[string]string{machineapi.ReachedReplicasAnnotation: value}
	}
}

func readyForAnHour(name string) func(*owedFixture) {
	return func(f *owedFixture) {
		f.nodes[name].Status.Conditions[0].LastTransitionTime = metav1.NewTime(start.Add(-time.Hour))
	}
}

// TestIndex_MissingFollows: events lead to the same counts as counting all anew.
func TestIndex_MissingFollows(t *testing.T) {
	f := newOwedFixture()
	index := f.index(t)
	count := func(index *Index) string {
		t.Helper()
		machines, err := index.Machines(t.Context(), "workers", start)
		if err != nil || len(machines.Sets) != 1 {
			t.Fatalf("%+v, error %v", machines, err)
		}
		set := &machines.Sets[0]
		return fmt.Sprint(set.Nodes, set.Wanted, set.NotCreated, len(set.New), len(machines.Deleted), len(machines.Requested))
	}
	count(index)
	follow := func(what string, event func()) {
		t.Helper()
		event()
		if got, want := count(index), count(f.index(t)); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	follow("a Machine is being deleted", func() {
		deleted("a")(f)
		index.setMachine(t.Context(), f.machines["a"], true)
	})
	follow("its Node is gone", func() {
		nodeless("a")(f)
		index.remove(t.Context(), "a")
		index.setMachine(t.Context(), f.machines["a"], true)
	})
	follow("it is gone, and replicas grow", func() {
		index.setMachine(t.Context(), f.machines["a"], false)
		delete(f.machines, "a")
		replicas(4, 3)(f)
		index.setSet(f.set)
	})
	follow("another one is handed over", func() {
		marked("b", machineapi.ExternalAnnotation, "")(f)
		index.setMachine(t.Context(), f.machines["b"], true)
	})
}
