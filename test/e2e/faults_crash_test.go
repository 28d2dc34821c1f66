package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/ownership"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// machines is the size of every workload's pool: more than one, so that a crash leaves some done and some not.
const machines = 3

// workload is a state to begin with and a change of the pool.
type workload struct {
	name string
	// before is what the pool declares at first, and the operator has carried out.
	before func(spec *machinev1beta1.MachineSpec)
	// meddle changes Nodes by hand while no operator runs.
	meddle func(w *harness.World, node string)
	// after is the change that the operator is killed in.
	after func(spec *machinev1beta1.MachineSpec)
	// rollout is metadata.rollout of the configuration; empty for none.
	rollout string
}

// args returns the operator's arguments, in addition to others.
func (l *workload) args(t *testing.T, others ...string) []string {
	t.Helper()
	if l.rollout == "" {
		return others
	}
	return append(others, harness.WithConfig(t, "metadata: {rollout: "+l.rollout+"}"))
}

var workloads = []workload{
	{
		name: "change",
		before: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue", "example.com/gone": "1"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
		},
		after: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "red", "example.com/new": "1"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "two", corev1.TaintEffectPreferNoSchedule)}
		},
	},
	{
		name: "add",
		after: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue"}
			spec.Annotations = map[string]string{"example.com/note": "x"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
		},
	},
	{
		name: "remove",
		before: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue"}
			spec.Annotations = map[string]string{"example.com/note": "x"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
		},
		after: func(spec *machinev1beta1.MachineSpec) { spec.Labels, spec.Annotations, spec.Taints = nil, nil, nil },
	},
	{
		name:    "waves",
		rollout: "{maxInFlight: 1}",
		before:  func(spec *machinev1beta1.MachineSpec) { spec.Labels = map[string]string{"example.com/team": "blue"} },
		after:   func(spec *machinev1beta1.MachineSpec) { spec.Labels = map[string]string{"example.com/team": "red"} },
	},
	{
		name: "adopt", // what node-maintenance-operator left
		meddle: func(w *harness.World, name string) {
			harness.Update(w, w.Node, name, func(node *corev1.Node) {
				node.Labels["example.com/dropped"] = "1"
				node.Annotations[ownership.AnnotationCustomLabels] = "example.com/dropped,example.com/team"
				node.Labels["example.com/team"] = "old"
			})
		},
		after: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue", "kubernetes.io/hostname": "refused"}
		},
	},
	{
		name: "repair", // by hand, and a conflict
		before: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
		},
		meddle: func(w *harness.World, name string) {
			harness.Update(w, w.Node, name, func(node *corev1.Node) {
				delete(node.Labels, "example.com/team")
				node.Labels["example.com/taken"] = "theirs"
				node.Spec.Taints = []corev1.Taint{harness.Taint("example.com/admin", "", corev1.TaintEffectNoSchedule)}
			})
		},
		after: func(spec *machinev1beta1.MachineSpec) { spec.Labels["example.com/taken"] = "ours" },
	},
	{
		name: "unrecorded", // Nodes that joined while no operator ran: the Machine alone proves whose the values are
		meddle: func(w *harness.World, name string) {
			taint := harness.Taint("example.com/dedicated", "old", corev1.TaintEffectNoSchedule)
			harness.Update(w, w.Machine, name, func(machine *machinev1beta1.Machine) {
				machine.Spec.Labels = map[string]string{"example.com/team": "old"}
				machine.Spec.Taints = []corev1.Taint{taint}
			})
			harness.Update(w, w.Node, name, func(node *corev1.Node) {
				node.Labels["example.com/team"] = "old"
				node.Spec.Taints = append(node.Spec.Taints, taint)
			})
		},
		after: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "new", corev1.TaintEffectNoSchedule)}
		},
	},
	{
		name: "unrecorded, dropped",
		before: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels = map[string]string{"example.com/team": "blue", "example.com/stays": "1"}
			spec.Taints = []corev1.Taint{harness.Taint("example.com/dedicated", "one", corev1.TaintEffectNoSchedule)}
		},
		meddle: func(w *harness.World, name string) {
			harness.Update(w, w.Node, name, func(node *corev1.Node) {
				delete(node.Annotations, ownership.AnnotationRecord)
				delete(node.Annotations, ownership.AnnotationCustomLabels)
			})
		},
		after: func(spec *machinev1beta1.MachineSpec) {
			spec.Labels, spec.Taints = map[string]string{"example.com/stays": "1"}, nil
		},
	},
}

// TestCrash kills the operator before and after writes of each workload. The next one must come to the end that an undisturbed one
// comes to, and then write nothing more.
func TestCrash(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	for _, load := range harness.SmokeOf(t, workloads) {
		t.Run(load.name, func(t *testing.T) {
			var want string
			var writes int
			// A test of its own, so that its pool is gone before the next one begins.
			t.Run("undisturbed", func(t *testing.T) { want, writes = undisturbed(t, load) })
			if writes < machines {
				t.Fatalf("the undisturbed run made %d writes: the workload is none", writes)
			}
			plans := harness.CrashPoints(t, random, writes)
			t.Logf("%d writes undisturbed, %d points tried", writes, len(plans))
			for _, p := range plans {
				t.Run(p.String(), func(t *testing.T) { crash(t, load, p, want) })
			}
		})
	}
}

// undisturbed runs a workload without faults. It returns what is left, and how many writes that took.
func undisturbed(t *testing.T, load workload) (left string, writes int) {
	t.Helper()
	w := begin(t, load)
	mark := w.AuditMark()
	operator := w.Operator(harness.Options{Args: load.args(t)})
	w.settled()
	writes = len(w.AllWrites(mark))
	left = w.remains()
	if err := operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return left, writes
}

// crash runs a workload with an operator that dies at a point, and another one after it.
func crash(t *testing.T, load workload, p harness.CrashPoint, want string) {
	t.Helper()
	w := begin(t, load)
	mark := w.AuditMark()
	// One worker makes the writes come one after another, so that the point is exact.
	first := harness.Start(t, env, harness.Options{Faults: p.Faults(), Args: load.args(t, "--metadata-workers=1")})
	select {
	case <-first.Ended():
	case <-time.After(harness.Patience):
		t.Fatalf("the operator did not come to write %d; its log:\n%s", p.Write, first.Log())
	}
	done := p.Write
	if !p.After {
		done--
	}
	if got := len(w.AllWrites(mark)); got != done {
		t.Fatalf("the operator made %d writes before it died, want %d; its log:\n%s", got, done, first.Log())
	}
	w.Operator(harness.Options{Args: load.args(t)})
	w.settled()
	if got := w.remains(); got != want {
		t.Errorf("after the crash there is\n%s\nwithout it there was\n%s", got, want)
	}
	mark = w.AuditMark()
	w.other()
	for _, write := range w.Writes(mark) {
		if strings.HasPrefix(write.Name, poolName) {
			t.Errorf("once all is done: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
}

// poolName is the same in every run, so that what is left can be compared as text.
const poolName = "crash"

type world struct{ *harness.World }

// begin makes the state that a workload begins with: no operator runs.
func begin(t *testing.T, load workload) world {
	t.Helper()
	t.Helper()
	w := world{harness.NewWorld(t, env)}
	w.Pool(cluster.PoolOptions{Name: poolName, Machines: machines, NodeTaints: []corev1.Taint{
		harness.Taint("node.kubernetes.io/unreachable", "", corev1.TaintEffectNoExecute)}})
	if load.before != nil {
		operator := w.Operator(harness.Options{})
		w.declare(load.before)
		w.settled()
		if err := operator.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	if load.meddle != nil {
		for i := range machines {
			load.meddle(w.World, fmt.Sprintf("%s-%d", poolName, i))
		}
	}
	w.declare(load.after)
	return w
}

func (w world) declare(change func(spec *machinev1beta1.MachineSpec)) {
	w.Helper()
	harness.Update(w.World, w.Set, poolName, func(set *machinev1beta1.MachineSet) { change(&set.Spec.Template.Spec) })
}

// settled waits until a survey of the pool finds nothing to write.
func (w world) settled() {
	w.Helper()
	w.Eventually("everything is written", func() error {
		node := map[string]*corev1.Node{}
		objects := metadataplan.Objects{Nodes: node, Sets: []*machinev1beta1.MachineSet{w.Set(poolName)}}
		for i := range machines {
			name := fmt.Sprintf("%s-%d", poolName, i)
			objects.Machines = append(objects.Machines, w.Machine(name))
			node[name] = w.Node(name)
		}
		for _, item := range metadataplan.SurveyOf(objects, ownership.DefaultProtected(), time.Now()).Items {
			if item.Writes() {
				return fmt.Errorf("%s is still to be written", item.Machine.Name)
			}
		}
		if kept := w.KeptRollout(poolName); kept != "" {
			return fmt.Errorf("its roll-out is under way: %s", kept)
		}
		return nil
	})
}

// other has the operator do something elsewhere: what it was to do before is done then, or it never will be.
func (w world) other() {
	w.Helper()
	w.Pool(cluster.PoolOptions{Name: "other", Machines: 1})
	w.Mark("other")
}

// remains renders what the pool's Machines and Nodes carry, without what differs between any two runs.
func (w world) remains() string {
	w.Helper()
	var text strings.Builder
	for i := range machines {
		name := fmt.Sprintf("%s-%d", poolName, i)
		machine, node := w.Machine(name), w.Node(name)
		fmt.Fprintf(&text, "machine %s: labels %s annotations %s taints %v record %s\n", name, sorted(machine.Spec.Labels),
			sorted(machine.Spec.Annotations), machine.Spec.Taints, w.record(machine))
		fmt.Fprintf(&text, "node %s: labels %s taints %v customlabels %q record %s\n", name, sorted(node.Labels), harness.Taints(node),
			node.Annotations[ownership.AnnotationCustomLabels], w.record(node))
	}
	return text.String()
}

// record renders an ownership record without its times and generations.
func (w world) record(object client.Object) string {
	w.Helper()
	record, err := ownership.ParseRecord(object.GetAnnotations()[ownership.AnnotationRecord])
	if err != nil {
		w.Fatal(err)
	}
	record.Generation = 0
	for kind, releases := range record.Released {
		for key, release := range releases {
			release.At = 0
			record.Released[kind][key] = release
		}
	}
	text, err := json.Marshal(record)
	if err != nil {
		w.Fatal(err)
	}
	return string(text)
}

func sorted(entries map[string]string) string {
	var parts []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		parts = append(parts, key+"="+entries[key])
	}
	return strings.Join(parts, ",")
}
