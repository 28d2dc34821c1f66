package grouplayer

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/drain"
	"github.com/drover-io/drover/internal/drain/engine"
	"github.com/drover-io/drover/internal/members"
	metadataplan "github.com/drover-io/drover/internal/metadata/plan"
	"github.com/drover-io/drover/internal/nodelease"
	"github.com/drover-io/drover/internal/rollout/gate"
)

// guardedID is the ID of the taint that the group of guardFixture declares.
const guardedID = "example.com/batch:NoExecute"

// guardFixture is a guard on clients in memory, and a reconciliation of the Node n0, which has a Pod that has to leave.
type guardFixture struct {
	*reconciliation
	api    client.Client
	gauges *prometheus.Registry
}

// newGuardFixture returns a guardFixture whose Node is announced or not.
func newGuardFixture(t *testing.T, announced bool) *guardFixture {
	t.Helper()
	scheme := apitest.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n0", UID: "uid"}}
	if announced {
		node.Spec.Taints = []corev1.Taint{{Key: "example.com/batch", Effect: corev1.TaintEffectNoSchedule}}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "app", Name: "web", UID: "uid-web"}, Spec: corev1.PodSpec{NodeName: "n0"}}
	group := &v1alpha1.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "g", UID: "uid-g", Generation: 1}}
	group.Spec.Metadata = &v1alpha1.Metadata{Taints: []v1alpha1.Taint{{Key: "example.com/batch", Effect: corev1.TaintEffectNoExecute}}}
	group.Spec.Rollout = &v1alpha1.Rollout{NoExecute: &v1alpha1.NoExecute{Timeout: &metav1.Duration{Duration: time.Minute}}}
	group.Spec.Disruption = &v1alpha1.Disruption{}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(node, pod, group).WithStatusSubresource(group)
	apitest.IndexPods(builder)
	f := &guardFixture{api: builder.Build(), gauges: prometheus.NewRegistry()}
	metrics, err := engine.NewMetrics(f.gauges)
	if err != nil {
		t.Fatal(err)
	}
	r, parsed, clock := newLayer(t), members.Parse(group), clocktesting.NewFakeClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))
	r.Clock, r.Gate = clock, &gate.Gate{}
	r.Gate.Set(group.UID, gate.Admission{Declarations: sets.New(parsed.Declaration.Revision), Nodes: sets.New("n0")})
	r.Guard = &Guard{
		Leases: &nodelease.Leases{Client: f.api, Holder: Holder, Namespace: "leases", Clock: clock},
		Engine: engine.New(apitest.Pods{Reader: f.api}, f.api, f.api, f.api, metrics, engine.Settings{Clock: clock}),
		Budgets: disruption.New(disruption.Options{
			Reader: f.api, Writer: f.api, Membership: nodesOf{"g", "n0"}, Clock: clock,
			Windows: func(*v1alpha1.NodeGroup, time.Time) disruptionplan.Window { return disruptionplan.Window{} },
		}),
	}
	f.reconciliation = &reconciliation{
		Layer: r, Assignment: members.Assignment{Node: node, Group: parsed}, state: &nodeState{}, now: clock.Now(),
		key: types.NamespacedName{Name: "n0"},
	}
	return f
}

// evicting returns how many Pods the engine has still to evict.
func (f *guardFixture) evicting(t *testing.T) (pods float64) {
	t.Helper()
	for _, reason := range drain.Reasons {
		pods += apitest.Metric(t, f.gauges, "drover_drain_pods_left", string(reason))
	}
	return pods
}

// drainForOther begins the drain of the Node for another capability.
func (f *guardFixture) drainForOther(t *testing.T) {
	t.Helper()
	if _, err := f.Guard.Engine.Drain(t.Context(), f.Node, f.now, drain.Options{}); err != nil || f.evicting(t) != 1 {
		t.Fatalf("the other drain has %v Pods: %v", f.evicting(t), err)
	}
}

// bringForward brings the guard of the Node forward.
func (f *guardFixture) bringForward(t *testing.T) verdict {
	t.Helper()
	f.guarded.LoadOrStore("n0", false)
	v, err := f.guardTaints(t.Context(), []string{guardedID})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestGuardEnd_OnlyOwnEvictions: whatever ends a guard, the evictions end that it has begun, and the drain of another capability goes on.
func TestGuardEnd_OnlyOwnEvictions(t *testing.T) {
	ends := map[string]func(t *testing.T, f *guardFixture) error{
		"the Node has left its group": func(t *testing.T, f *guardFixture) error {
			t.Helper()
			return f.abandonGuard(t.Context(), "n0")
		},
		"the Node is gone": func(t *testing.T, f *guardFixture) error {
			t.Helper()
			f.NodeDeleted(f.Node)
			return nil
		},
		"nothing is guarded any more": func(t *testing.T, f *guardFixture) error {
			t.Helper()
			return f.endGuard(t.Context())
		},
	}
	for name, end := range ends {
		for _, own := range []bool{true, false} {
			t.Run(name+map[bool]string{true: ": own evictions end", false: ": the others go on"}[own], func(t *testing.T) {
				f, want := newGuardFixture(t, own), 0.0
				if !own {
					// The guard waits for the lease, which the other drain has.
					f.leaseOf(t, "another")
					f.drainForOther(t)
					want = 1
				}
				if v := f.bringForward(t); v.waits == own || f.evicting(t) != 1 {
					t.Fatalf("the guard waits: %t, and %v Pods are to be evicted", v.waits, f.evicting(t))
				}
				if err := end(t, f); err != nil || f.evicting(t) != want {
					t.Errorf("%v Pods are to be evicted, want %v: %v", f.evicting(t), want, err)
				}
			})
		}
	}
}

// leaseOf gives the lease of the Node to a holder, also where another one has it.
func (f *guardFixture) leaseOf(t *testing.T, holder string) {
	t.Helper()
	leases := &nodelease.Leases{Client: f.api, Holder: holder, Namespace: "leases", Clock: f.Guard.Leases.Clock}
	if err := f.Guard.Leases.ReleaseIfHolder(t.Context(), "n0"); err != nil {
		t.Fatal(err)
	}
	if _, err := leases.Acquire(t.Context(), f.Node); err != nil {
		t.Fatal(err)
	}
}

// release has a holder release the lease of the Node.
func (f *guardFixture) release(t *testing.T, holder string) {
	t.Helper()
	leases := &nodelease.Leases{Client: f.api, Holder: holder, Namespace: "leases", Clock: f.Guard.Leases.Clock}
	if err := leases.Release(t.Context(), "n0"); err != nil {
		t.Fatal(err)
	}
}

// TestGuard_LosesTheLease: no Pod is evicted once another controller has the lease of the Node. When the guard has it again, the Pods have as much
// time to leave as they had at first.
func TestGuard_LosesTheLease(t *testing.T) {
	f := newGuardFixture(t, true)
	if v := f.bringForward(t); v.waits || f.evicting(t) != 1 {
		t.Fatalf("verdict %+v, %v Pods are to be evicted", v, f.evicting(t))
	}
	f.leaseOf(t, "another")
	if v := f.bringForward(t); !v.waits || f.evicting(t) != 0 {
		t.Errorf("verdict %+v, %v Pods are to be evicted", v, f.evicting(t))
	}
	f.release(t, "another")
	clock, ok := f.Clock.(*clocktesting.FakeClock)
	if !ok {
		t.Fatalf("the clock is a %T", f.Clock)
	}
	clock.Step(time.Hour)
	f.now = clock.Now()
	if v := f.bringForward(t); v.waits || f.evicting(t) != 1 {
		t.Errorf("with the lease again: verdict %+v, %v Pods are to be evicted", v, f.evicting(t))
	}
}

// TestGuard_WaitsForTheLease: the group knows why a Node is not tainted on which another controller works, for days perhaps, and its roll-out goes on
// with other Nodes. The guard begins when the lease is released.
func TestGuard_WaitsForTheLease(t *testing.T) {
	f := newGuardFixture(t, false)
	f.Group.Status.OwnedKeys = metadataplan.OwnedKeys(f.Group.Declaration.Section())
	f.Group.Confirmed = metadataplan.ParseOwnedKeys(f.Group.Status.OwnedKeys)
	f.leaseOf(t, "another")
	decision, requeue, err := f.decide(t.Context())
	if err != nil || decision.Change.Changed() || requeue.Delay() == 0 {
		t.Errorf("changes %v, again in %s: %v", decision.Change, requeue.Delay(), err)
	}
	if held := f.Gate.Trouble("n0").Held; !strings.Contains(held, `the lease of node n0 is held by "another"`) {
		t.Errorf("the group knows %q", held)
	}
	f.release(t, "another")
	if decision, _, err = f.decide(t.Context()); err != nil || !decision.Change.Changed() || f.Gate.Trouble("n0").Held != "" {
		t.Errorf("changes %v, held %q: %v", decision.Change, f.Gate.Trouble("n0").Held, err)
	}
}

// TestGuard_AnnouncementCannotBeWritten: a Node on which the API server denies the announcement does not keep lease and place for longer than the
// timeout, and gets the event.
func TestGuard_AnnouncementCannotBeWritten(t *testing.T) {
	f := newGuardFixture(t, false)
	events := record.NewFakeRecorder(10)
	f.Recorder = events
	for _, step := range []struct {
		after  time.Duration
		waits  bool
		events []string
	}{{0, false, nil}, {59 * time.Second, false, nil}, {time.Second, true, []string{EventTimeout}}} {
		f.now = f.now.Add(step.after)
		v := f.bringForward(t)
		holds, err := f.Guard.Leases.IsHolder(t.Context(), "n0")
		if err != nil {
			t.Fatal(err)
		}
		reasons := apitest.Reasons(events)
		if v.waits != step.waits || holds == step.waits || !slices.Equal(reasons, step.events) {
			t.Errorf("at %s: verdict %+v, lease %t, events %v", f.now, v, holds, reasons)
		}
	}
	if evicting := f.evicting(t); evicting != 0 {
		t.Errorf("%v Pods are to be evicted from a Node that has not been announced", evicting)
	}
}
