package healthcheck

import (
	"errors"
	"fmt"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache/informertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"

	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/paused"
	"github.com/drover-io/drover/internal/watch"
)

// withPriority shows what is enqueued with its priority; what is delayed has a plus.
func withPriority(name string, options priorityqueue.AddOpts) string {
	text := fmt.Sprintf("%s@%d", name, *options.Priority)
	if options.After > 0 {
		text += "+"
	}
	return text
}

// informers are the informers of a fake cache.
type informers struct {
	queue                   *apitest.Queue
	checks, machines, nodes *controllertest.FakeInformer
}

func startSources(t *testing.T, s *fixture) *informers {
	t.Helper()
	cache := &informertest.FakeInformers{Scheme: newScheme(t)}
	w := &informers{queue: &apitest.Queue{Text: withPriority}}
	for _, source := range s.sources(cache) {
		if err := source.Start(t.Context(), w.queue); err != nil {
			t.Fatal(err)
		}
	}
	for i, into := range []**controllertest.FakeInformer{&w.checks, &w.machines, &w.nodes} {
		informer, err := cache.FakeInformerFor(t.Context(), Kinds()[i])
		if err != nil {
			t.Fatal(err)
		}
		*into = informer
	}
	return w
}

// newWatchFixture has the MachineHealthChecks a and a2 of the pool a, b of the pool b, and one of another namespace; m0 and m1 are of a.
func newWatchFixture(t *testing.T, options Options) (*fixture, *informers) {
	t.Helper()
	of := func(pool string) func(*machinev1beta1.MachineHealthCheck) {
		return func(c *machinev1beta1.MachineHealthCheck) { c.Spec.Selector.MatchLabels["pool"] = pool }
	}
	elsewhere := func(c *machinev1beta1.MachineHealthCheck) { c.Namespace = "other" }
	disk := func(c *machinev1beta1.MachineHealthCheck) {
		c.Spec.UnhealthyConditions = []machinev1beta1.UnhealthyCondition{{Type: "Disk", Status: corev1.ConditionTrue}}
	}
	s := newFixture(t, options, newCheck("a"), newCheck("a2", disk), newCheck("b", of("b")), newCheck("x", elsewhere),
		newMachine("m0", "n0"), newMachine("m1", ""), newNode("n0"), newNode("n1"))
	return s, startSources(t, s)
}

var (
	ofA  = fmt.Sprintf("a2@%[1]d+ a@%[1]d+", watch.PriorityNormal)
	ofB  = fmt.Sprintf("b@%d+", watch.PriorityNormal)
	only = fmt.Sprintf("a@%d+", watch.PriorityNormal)
)

func TestWatches_MachineUpdated(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*machinev1beta1.Machine)
		want   string
	}{
		"nothing": {func(*machinev1beta1.Machine) {}, ""},
		"status": {func(m *machinev1beta1.Machine) {
			m.ResourceVersion, m.Status.LastUpdated = "9", &metav1.Time{Time: start}
		}, ""},
		"phase":         {func(m *machinev1beta1.Machine) { m.Status.Phase = new("Failed") }, ofA},
		"node":          {func(m *machinev1beta1.Machine) { m.Status.NodeRef = nil }, ofA},
		"annotation":    {func(m *machinev1beta1.Machine) { m.Annotations = map[string]string{"x": "y"} }, ofA},
		"deletion":      {func(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }, ofA},
		"owner":         {unowned, ofA},
		"authority":     {func(m *machinev1beta1.Machine) { m.Status.AuthoritativeAPI = "ClusterAPI" }, ofA},
		"created again": {func(m *machinev1beta1.Machine) { m.UID = "new" }, ofA},
		"other pool":    {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "b"} }, ofA + " " + ofB},
		"no pool":       {func(m *machinev1beta1.Machine) { m.Labels = nil }, ofA},
		"another label": {func(m *machinev1beta1.Machine) { m.Labels = map[string]string{"pool": "a", "x": "y"} }, ofA},
	} {
		t.Run(name, func(t *testing.T) {
			_, w := newWatchFixture(t, Options{})
			before := newMachine("m0", "n0")
			after := before.DeepCopy()
			c.change(after)
			w.machines.Update(before, after)
			if got := w.queue.TakeOnce(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
}

func TestWatches_MachineCreatedAndDeleted(t *testing.T) {
	s, w := newWatchFixture(t, Options{})
	machine := newMachine("m0", "n0")
	w.machines.Add(machine)
	if got := w.queue.TakeOnce(); got != ofA {
		t.Errorf("created: %q", got)
	}
	s.deletions.Deleted(string(machine.UID), machine)
	s.versions.Expect(string(machine.UID), expectations.Write{Version: "1"})
	w.machines.Delete(machine)
	if got := w.queue.TakeOnce(); got != ofA {
		t.Errorf("deleted: %q", got)
	}
	if s.deletions.Len() != 0 || s.versions.Len() != 0 {
		t.Error("the expectations still exist")
	}
	queue := &apitest.Queue{Text: withPriority}
	s.machineCreated(t.Context(), watch.NewQueue(queue), machine, true)
	s.nodeCreated(t.Context(), watch.NewQueue(queue), newNode("n0"), true)
	if got := queue.TakeOnce(); got != "" {
		t.Errorf("objects of the first list are enqueued: %q", got)
	}
}

func TestWatches_NodeUpdated(t *testing.T) {
	condition := func(kind string, status corev1.ConditionStatus, age time.Duration) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: corev1.NodeConditionType(kind), Status: status, LastTransitionTime: metav1.NewTime(start.Add(-age)),
			LastHeartbeatTime: metav1.NewTime(start),
		}
	}
	for name, c := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"nothing": {func(*corev1.Node) {}, ""},
		"a heartbeat": {func(n *corev1.Node) {
			n.ResourceVersion, n.Status.Conditions[0] = "9", condition("Ready", corev1.ConditionTrue, time.Hour)
		}, ""},
		"labels and taints": {func(n *corev1.Node) {
			n.Labels, n.Spec.Unschedulable = map[string]string{"x": "y"}, true
		}, ""},
		"not ready":             {func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionFalse }, only},
		"a flap between events": {func(n *corev1.Node) { n.Status.Conditions[0] = condition("Ready", corev1.ConditionTrue, 0) }, only},
		"no conditions":         {func(n *corev1.Node) { n.Status.Conditions = nil }, only},
		"a condition of another MachineHealthCheck": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, condition("Disk", corev1.ConditionTrue, 0))
		}, fmt.Sprintf("a2@%d+", watch.PriorityNormal)},
		"a condition that is not checked": {func(n *corev1.Node) {
			n.Status.Conditions = append(n.Status.Conditions, condition("Memory", corev1.ConditionTrue, 0))
		}, ""},
		"created again":           {func(n *corev1.Node) { n.UID = "new" }, ofA},
		"joins the control plane": {func(n *corev1.Node) { n.Labels = map[string]string{"control-plane": "yes"} }, ofA},
	} {
		t.Run(name, func(t *testing.T) {
			_, w := newWatchFixture(t, Options{Guard: &guard{}})
			before := newNode("n0")
			after := before.DeepCopy()
			c.change(after)
			w.nodes.Update(before, after)
			if got := w.queue.TakeOnce(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
}

func TestWatches_NodeCreatedAndDeleted(t *testing.T) {
	_, w := newWatchFixture(t, Options{})
	for _, c := range []struct{ node, want string }{{"n0", ofA}, {"n1", ""}} {
		w.nodes.Add(newNode(c.node))
		if got := w.queue.TakeOnce(); got != c.want {
			t.Errorf("%s created: %q", c.node, got)
		}
		w.nodes.Delete(newNode(c.node))
		if got := w.queue.TakeOnce(); got != c.want {
			t.Errorf("%s deleted: %q", c.node, got)
		}
	}
}

func TestWatches_MachineHealthCheckUpdated(t *testing.T) {
	self, others := fmt.Sprintf("a@%d", watch.PriorityHigh), fmt.Sprintf("a2@%[1]d+ a@%[2]d b@%[1]d+", watch.PriorityNormal, watch.PriorityHigh)
	for name, c := range map[string]struct {
		change func(*machinev1beta1.MachineHealthCheck)
		want   string
	}{
		"spec": {func(c *machinev1beta1.MachineHealthCheck) { c.Generation = 2 }, others},
		"pause": {func(c *machinev1beta1.MachineHealthCheck) {
			c.Annotations = map[string]string{paused.ClusterAPIAnnotation: ""}
		}, self},
		"created again": {func(c *machinev1beta1.MachineHealthCheck) { c.UID = "new" }, others},
		"deletion":      {func(c *machinev1beta1.MachineHealthCheck) { c.DeletionTimestamp = &metav1.Time{Time: start} }, others},
		"a status":      {func(c *machinev1beta1.MachineHealthCheck) { c.ResourceVersion, c.Status.RemediationsAllowed = "9", 1 }, self},
		"own status":    {func(c *machinev1beta1.MachineHealthCheck) { c.ResourceVersion = "1000" }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := newWatchFixture(t, Options{})
			s.versions.Expect("uid-of-a", expectations.Write{Version: "1000"})
			before := newCheck("a")
			after := before.DeepCopy()
			c.change(after)
			w.checks.Update(before, after)
			if got := w.queue.TakeOnce(); got != c.want {
				t.Errorf("queued %q, want %q", got, c.want)
			}
		})
	}
	s, w := newWatchFixture(t, Options{})
	w.checks.Add(newCheck("a"))
	if got := w.queue.TakeOnce(); got != others {
		t.Errorf("created: %q", got)
	}
	w.checks.Delete(newCheck("a"))
	if got := w.queue.TakeOnce(); got != others {
		t.Errorf("deleted: %q", got)
	}
	queue := &apitest.Queue{Text: withPriority}
	s.checkCreated(t.Context(), watch.NewQueue(queue), newCheck("a"), true)
	if got := queue.TakeOnce(); got != fmt.Sprintf("a@%d", watch.PriorityStartup) {
		t.Errorf("first list: %q", got)
	}
}

// A MachineHealthCheck whose reconciliation waited for the cache is enqueued when the cache has caught up.
func TestWatches_AwaitedWrite(t *testing.T) {
	s, w := newWatchFixture(t, Options{})
	s.versions.Expect("uid-of-a", expectations.Write{Version: "1000"})
	if !s.versions.Pending(t.Context(), &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{UID: "uid-of-a", ResourceVersion: "999"}}) {
		t.Fatal("the cache is not behind")
	}
	after := newCheck("a")
	after.ResourceVersion = "1000"
	w.checks.Update(newCheck("a"), after)
	if got := w.queue.TakeOnce(); got != fmt.Sprintf("a@%d", watch.PriorityHigh) {
		t.Errorf("queued %q", got)
	}
}

func TestWatches_CacheFails(t *testing.T) {
	s, w := newWatchFixture(t, Options{})
	s.Fail["list MachineHealthCheckList"] = errors.New("no answer")
	w.machines.Add(newMachine("m0", "n0"))
	s.Fail["list MachineList"] = errors.New("no answer")
	w.nodes.Add(newNode("n0"))
	if got := w.queue.TakeOnce(); got != "" {
		t.Errorf("queued %q", got)
	}
}
