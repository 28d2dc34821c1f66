package metadata

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/metadata/pace"
	"github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/watch"
)

// withPriority shows what is enqueued with its priority.
func withPriority(name string, options priorityqueue.AddOpts) string {
	return fmt.Sprintf("%s@%d", name, *options.Priority)
}

// informers are fakes of the cache's informers.
type informers struct {
	queue                 *apitest.Queue
	sets, machines, nodes *controllertest.FakeInformer
}

func watched(t *testing.T, s *fixture) *informers {
	t.Helper()
	cache := &informertest.FakeInformers{Scheme: newScheme(t)}
	w := &informers{queue: &apitest.Queue{Text: withPriority}}
	for _, source := range s.sources(cache) {
		if err := source.Start(t.Context(), w.queue); err != nil {
			t.Fatal(err)
		}
	}
	for _, kind := range []struct {
		object client.Object
		into   **controllertest.FakeInformer
	}{{&machinev1beta1.MachineSet{}, &w.sets}, {&machinev1beta1.Machine{}, &w.machines}, {&corev1.Node{}, &w.nodes}} {
		informer, err := cache.FakeInformerFor(t.Context(), kind.object)
		if err != nil {
			t.Fatal(err)
		}
		*kind.into = informer
	}
	return w
}

// watchedMachines returns a MachineSet of two Machines and one that it only selects, and a Machine of another MachineSet; m1 and m3 have Nodes.
func watchedMachines(t *testing.T) (*fixture, *informers, *machinev1beta1.MachineSet, *machinev1beta1.Machine, *corev1.Node) {
	t.Helper()
	set, other := setOf("a", blue), setOf("b", nil)
	loose := machineOf(set, "loose", "")
	loose.OwnerReferences = nil
	m1, n1 := machineOf(set, "m1", "n1"), builder.Node("n1")
	s := newFixture(t, Options{}, set, other, m1, machineOf(set, "m2", ""), loose, machineOf(other, "m3", "n3"), n1, builder.Node("n3"))
	return s, watched(t, s), set, m1, n1
}

func TestSources_MachineSet(t *testing.T) {
	all := fmt.Sprintf("loose@%[1]d m2@%[1]d n1@%[1]d", watch.PriorityNormal)
	for _, c := range []struct {
		name string
		edit func(*machinev1beta1.MachineSet)
		want string
	}{
		{"nothing", func(*machinev1beta1.MachineSet) {}, ""},
		{"status", func(s *machinev1beta1.MachineSet) { s.ResourceVersion, s.Status.ReadyReplicas = "9", 3 }, ""},
		{"scaling", func(s *machinev1beta1.MachineSet) { s.Generation, s.Spec.Replicas = 2, new(int32(9)) }, ""},
		{"an annotation of another writer", func(s *machinev1beta1.MachineSet) { s.Annotations = map[string]string{"x": "y"} }, ""},
		{"the template", func(s *machinev1beta1.MachineSet) {
			s.Generation, s.Spec.Template.Spec.Labels = 2, map[string]string{"team": "red"}
		}, all},
		{"a pause", func(s *machinev1beta1.MachineSet) { s.Annotations = map[string]string{"drover.dev/paused": ""} }, all},
		{"the selector", func(s *machinev1beta1.MachineSet) {
			s.Generation, s.Spec.Selector.MatchLabels = 2, map[string]string{"pool": "b"}
		},
			fmt.Sprintf("m2@%[1]d n1@%[1]d", watch.PriorityNormal)},
		{"created again", func(s *machinev1beta1.MachineSet) { s.UID = "new" }, fmt.Sprintf("loose@%d", watch.PriorityNormal)},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w, set, _, _ := watchedMachines(t)
			after := set.DeepCopy()
			c.edit(after)
			w.sets.Update(set, after)
			if got := w.queue.Take(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
	s, w, set, _, _ := watchedMachines(t)
	w.sets.Add(set)
	if got := w.queue.Take(); got != all || !s.tracker.knows(named("a")) {
		t.Errorf("created: queued %q", got)
	}
	w.sets.Delete(set)
	if got := w.queue.Take(); got != all || s.tracker.knows(named("a")) {
		t.Errorf("deleted: queued %q", got)
	}
}

func TestSources_Machine(t *testing.T) {
	repair := func(names string) string {
		var out []string
		for _, name := range strings.Fields(names) {
			out = append(out, fmt.Sprintf("%s@%d", name, watch.PriorityHigh))
		}
		return strings.Join(out, " ")
	}
	for _, c := range []struct {
		name string
		edit func(*machinev1beta1.Machine)
		want string
	}{
		{"a resync", func(*machinev1beta1.Machine) {}, ""},
		{"status", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.Status.Phase = "9", new("Running") }, ""},
		{"a manual edit of the spec", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.Generation = "9", 2 }, repair("n1")},
		{"its labels", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.Labels = "9", nil }, repair("n1")},
		{"an annotation", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.Annotations = "9", map[string]string{"x": "y"} }, repair("n1")},
		{"its owner", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.OwnerReferences = "9", nil }, repair("n1")},
		{"the API that has the authority", func(m *machinev1beta1.Machine) {
			m.ResourceVersion, m.Status.AuthoritativeAPI = "9", machinev1beta1.MachineAuthorityClusterAPI
		}, repair("n1")},
		{"our own write", func(m *machinev1beta1.Machine) { m.ResourceVersion, m.Generation = "77", 2 }, ""},
		{"another Node: both", func(m *machinev1beta1.Machine) {
			m.ResourceVersion, m.Status.NodeRef = "9", &corev1.ObjectReference{Name: "n3"}
		}, repair("n1 n3")},
		{"being deleted", func(m *machinev1beta1.Machine) {
			m.ResourceVersion, m.DeletionTimestamp = "9", &metav1.Time{Time: start}
		}, repair("n1")},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, w, _, machine, _ := watchedMachines(t)
			s.versions.Expect(string(machine.UID), expectations.Write{Version: "77"})
			after := machine.DeepCopy()
			c.edit(after)
			w.machines.Update(machine, after)
			if got := w.queue.Take(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
}

func TestSources_Node(t *testing.T) {
	repair := fmt.Sprintf("n1@%d", watch.PriorityHigh)
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name string
		edit func(*corev1.Node)
		want string
	}{
		{"a heartbeat", func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions = "9", []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
		}, ""},
		{"a cordon without its taint", func(n *corev1.Node) { n.Spec.Unschedulable = true }, ""},
		{"the time of a taint", func(n *corev1.Node) { n.Spec.Taints[0].TimeAdded = &metav1.Time{Time: start} }, ""},
		{"a label", func(n *corev1.Node) { n.Labels = map[string]string{"x": "y"} }, repair},
		{"an annotation", func(n *corev1.Node) { n.Annotations = map[string]string{"x": "y"} }, repair},
		{"a taint's value", func(n *corev1.Node) { n.Spec.Taints[0].Value = "x" }, repair},
		{"a taint's effect", func(n *corev1.Node) { n.Spec.Taints[0].Effect = corev1.TaintEffectNoExecute }, repair},
		{"a taint is removed", func(n *corev1.Node) { n.Spec.Taints = nil }, repair},
		{"being deleted", func(n *corev1.Node) { n.DeletionTimestamp = &metav1.Time{Time: start} }, repair},
		{"registered again", func(n *corev1.Node) { n.UID = "new" }, repair},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, w, _, _, node := watchedMachines(t)
			node.Spec.Taints = []corev1.Taint{taint}
			after := node.DeepCopy()
			c.edit(after)
			w.nodes.Update(node, after)
			if got := w.queue.Take(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
	_, w, _, _, node := watchedMachines(t)
	w.nodes.Add(node)
	w.nodes.Delete(node)
	if got, want := w.queue.Take(), repair+" "+repair; got != want {
		t.Errorf("created and deleted: queued %q", got)
	}
}

// The event of Drover's own write is ignored, unless it may contain another writer's change or a reconciliation waits for it.
func TestSources_OwnWriteOfANode(t *testing.T) {
	later := fmt.Sprintf("n1@%d", watch.PriorityStartup)
	taint := corev1.Taint{Key: "a", Effect: corev1.TaintEffectNoSchedule}
	for _, c := range []struct {
		name string
		last expectations.Write
		edit func(*corev1.Node)
		want string
	}{
		{"just what was decided", expectations.Write{Exact: true}, func(*corev1.Node) {}, ""},
		{"with taints", expectations.Write{Exact: true, Taints: true}, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} }, ""},
		{"a taint of another writer", expectations.Write{Exact: true}, func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{taint} }, later},
		{"another writer in the answer", expectations.Write{Taints: true}, func(*corev1.Node) {}, later},
		{"a reconciliation waits for it", expectations.Write{Exact: true, Awaited: true}, func(*corev1.Node) {}, later},
		{"another writer wrote since", expectations.Write{Exact: true}, func(n *corev1.Node) { n.ResourceVersion = "78" },
			fmt.Sprintf("n1@%d", watch.PriorityHigh)},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, w, _, _, node := watchedMachines(t)
			c.last.Version = "77"
			s.versions.Expect(string(node.UID), c.last)
			after := node.DeepCopy()
			after.ResourceVersion, after.Labels = "77", map[string]string{"team": "blue"}
			c.edit(after)
			w.nodes.Update(node, after)
			if got := w.queue.Take(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
}

// Nothing is kept of an object that is gone: a new one of the same name begins without it.
func TestSources_DeletedObjectIsForgotten(t *testing.T) {
	s, w, _, machine, node := watchedMachines(t)
	s.must(t, "m1", "Machine/m1 Node/n1")
	s.metrics.failures.WithLabelValues("m1").Inc()
	s.metrics.failures.WithLabelValues("n1").Inc()
	for _, key := range []pace.Key{{Target: "Machine", Object: "machines/m1"}, {Target: "Node", Object: "n1"}} {
		s.contention.Repaired(key, start.Add(time.Second))
	}
	w.machines.Delete(machine)
	w.nodes.Delete(node)
	if s.contention.Any() || s.versions.Len() != 0 || len(s.tracker.machines) != 0 ||
		s.tracker.wasWritten(plan.OnMachine, named("m1"), s.tracker.rollouts[named("a")].revision) {
		t.Errorf("left: versions %v, Machines %v", s.versions, s.tracker.machines)
	}
	if s.metric(t, "mnmo_node_reconciliation_failure", "m1")+s.metric(t, "mnmo_node_reconciliation_failure", "n1") != 0 ||
		s.metric(t, "drover_metadata_nodes", "a", "machines", "synced") != 0 {
		t.Error("series are left")
	}
}
