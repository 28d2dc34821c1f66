package ui

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"reflect"
	"runtime"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	mutex "github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/cli/ui/model"
	"github.com/drover-io/drover/internal/ownership"
)

// newFilledCluster returns a cluster that has read objects, and has computed what the page shows.
func newFilledCluster(t testing.TB, objects []client.Object, now time.Time) *cluster {
	t.Helper()
	u := newCluster(nil, []string{""}, ownership.DefaultProtected(), func() time.Time { return now })
	for _, source := range u.sources {
		source.availability = Live
	}
	for _, object := range objects {
		u.change(t, object, false)
	}
	if !u.update(t.Context(), false) {
		t.Fatal("something has not been read")
	}
	return u
}

// change has a source bring an object, or its deletion.
func (u *cluster) change(t testing.TB, object client.Object, isGone bool) {
	t.Helper()
	for _, source := range u.sources {
		if reflect.TypeOf(source.object) != reflect.TypeOf(object) {
			continue
		}
		do := source.store.Update
		if isGone {
			do = source.store.Delete
		}
		if err := do(object.DeepCopyObject()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFleet_EveryState: the invented fleet has a node of each state, and an activity of each type and state.
func TestFleet_EveryState(t *testing.T) {
	now := time.Now()
	u := newFilledCluster(t, newFleet(t, 2000, now), now)
	nodes, urgencies, activities := map[model.NodeState]int{}, map[model.Urgency]int{}, map[model.ActivityType]int{}
	for _, cell := range u.tracker.Fleet().Items {
		nodes[cell.State]++
	}
	for _, wait := range u.tracker.WaitList().Items {
		urgencies[wait.Urgency]++
		if wait.Action == "" || wait.Runbook == "" {
			t.Errorf("no advice for %s %s", wait.Kind, wait.Reason)
		}
	}
	progress := u.tracker.Progress()
	for _, activity := range progress.Items {
		activities[activity.Type]++
	}
	for _, state := range []model.NodeState{
		model.Blocked, model.Unhealthy, model.InMaintenance, model.Upgrading, model.Disrupted, model.RollingOut, model.Paused, model.InSync,
		model.Unmanaged,
	} {
		if nodes[state] == 0 {
			t.Errorf("no node is %s: %v", state, nodes)
		}
	}
	for _, urgency := range []model.Urgency{model.Stopped, model.Waiting, model.Suspended} {
		if urgencies[urgency] == 0 {
			t.Errorf("no wait is %s: %v", urgency, urgencies)
		}
	}
	for _, activity := range []model.ActivityType{model.RollOut, model.Replacement, model.Drain, model.Upgrade} {
		if activities[activity] == 0 {
			t.Errorf("nothing is a %s: %v", activity, activities)
		}
	}
	if len(progress.Budgets) < 2 || len(progress.Calendar.Rows) == 0 || len(progress.Calendar.Rows[0].Open) == 0 {
		t.Errorf("budgets %+v, calendar %+v", progress.Budgets, progress.Calendar)
	}
}

// TestTracker_ChangesLikeAll: after any changes, what has been computed change by change is what is computed of all objects at once.
func TestTracker_ChangesLikeAll(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	now := time.Now()
	objects := newFleet(t, 120, now)
	u := newFilledCluster(t, objects, now)
	for step := range 150 {
		at := random.IntN(len(objects))
		isGone := random.IntN(8) == 0
		if !isGone {
			mutate(objects[at], random)
		}
		u.change(t, objects[at], isGone)
		if isGone {
			objects = append(objects[:at:at], objects[at+1:]...)
		}
		u.update(t.Context(), random.IntN(10) == 0)
		if step%10 != 9 {
			continue
		}
		fresh := newFilledCluster(t, objects, now)
		for name, pair := range map[string][2]any{
			"fleet":    {u.tracker.Fleet(), fresh.tracker.Fleet()},
			"waits":    {u.tracker.WaitList(), fresh.tracker.WaitList()},
			"progress": {u.tracker.Progress(), fresh.tracker.Progress()},
		} {
			if got, want := toJSON(t, pair[0]), toJSON(t, pair[1]); got != want {
				t.Fatalf("after %d steps the %s is\n%s\nwant\n%s", step+1, name, got, want)
			}
		}
	}
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// mutate changes an object in one of the ways that concern nodes.
func mutate(object client.Object, random *rand.Rand) {
	choice := random.IntN(3)
	switch object := object.(type) {
	case *corev1.Node:
		object.Spec.Unschedulable = choice == 0
		object.Labels["pool"] = []string{"web", "batch", "edge"}[choice]
	case *machinev1beta1.Machine:
		object.Status.Phase = new([]string{machinev1beta1.PhaseFailed, machinev1beta1.PhaseRunning, machinev1beta1.PhaseDeleting}[choice])
		if object.Status.NodeRef != nil {
			object.Status.NodeRef.Name = nodeName(random.IntN(120))
		}
	case *machinev1beta1.MachineSet:
		object.Generation++
		object.Spec.Template.Spec.Labels = map[string]string{"example.com/set": fmt.Sprint(choice)}
	case *drover.NodeGroup:
		object.Spec.Suspend = choice == 0
		object.Status.Conditions = []metav1.Condition{{
			Type: drover.ConditionBlocked, Status: metav1.ConditionTrue, Reason: []string{"NodesNotReady", "WindowClosed", "Denied"}[choice],
		}}
		object.Status.Outdated = int32(choice) //nolint:gosec // less than 3
	case *medik8s.NodeMaintenance:
		object.Spec.NodeName = nodeName(random.IntN(120))
	case *mutex.MutexRunConfig:
		object.Status.Nodes = []mutex.NodeStatus{{Name: nodeName(random.IntN(120)), Phase: mutex.NodeUpgrading}}
	case *coordinationv1.Lease:
		object.Spec.LeaseDurationSeconds = new(int32(choice * 100000)) //nolint:gosec // less than 3
	}
}

// counting counts what is written to a page.
type counting struct{ bytes int }

func (c *counting) Header() http.Header { return http.Header{} }
func (c *counting) WriteHeader(int)     {}
func (c *counting) Write(text []byte) (int, error) {
	c.bytes += len(text)
	return len(text), nil
}
func (c *counting) Flush()                           {}
func (c *counting) SetWriteDeadline(time.Time) error { return nil }

// batch is how many nodes change from one computation to the next: 100 a second, and four computations.
const batch = 25

// BenchmarkChanges changes nodes of a large fleet, as 100 a second, and sends the changes to a page.
func BenchmarkChanges(b *testing.B) {
	for _, count := range []int{5000, 20_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			before := heap()
			now := time.Now()
			u := newFilledCluster(b, newFleet(b, count, now), now)
			nodes := all[*corev1.Node](u.nodes.store)
			page := &counting{}
			stream := &stream{writer: page, control: http.NewResponseController(page)}
			u.publish()
			send(b, u, stream)
			first := page.bytes
			page.bytes = 0
			kept := heap() - before
			i := 0
			for b.Loop() {
				for range batch {
					at := i * 7919 % count
					node := nodes[at].DeepCopy()
					node.Spec.Unschedulable = !node.Spec.Unschedulable
					nodes[at] = node
					u.change(b, node, false)
					i++
				}
				u.update(b.Context(), false)
				send(b, u, stream)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(i), "ns/change")
			b.ReportMetric(float64(page.bytes)/float64(i), "bytes/change")
			b.ReportMetric(float64(first), "bytes/first")
			b.ReportMetric(float64(kept)/(1<<20), "MiB/kept")
		})
	}
}

func send(b *testing.B, u *cluster, stream *stream) {
	b.Helper()
	document, _ := u.document()
	if err := stream.send(u, &document); err != nil {
		b.Fatal(err)
	}
}

// heap returns how many bytes are in use.
func heap() uint64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// BenchmarkFirst computes what the page shows of a fleet that has just been read.
func BenchmarkFirst(b *testing.B) {
	for _, count := range []int{5000, 20_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			now := time.Now()
			objects := newFleet(b, count, now)
			for b.Loop() {
				b.StopTimer()
				u := newCluster(nil, []string{""}, ownership.DefaultProtected(), func() time.Time { return now })
				for _, source := range u.sources {
					source.availability = Live
				}
				for _, object := range objects {
					u.change(b, object, false)
				}
				b.StartTimer()
				u.update(b.Context(), false)
			}
		})
	}
}
