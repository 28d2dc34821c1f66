package disruption

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
)

const groupName = "workers"

// fixture has a group with three Nodes. One of them may be unavailable.
type fixture struct {
	*testing.T

	requests apitest.Requests
	client   client.WithWatch
	// cache is what the Budgets read: the client, unless it lags.
	cache   lagging
	clock   *clocktesting.FakePassiveClock
	members members
	window  plan.Window
	// minReady is the minReadySeconds of the group.
	minReady time.Duration
	budgets  *Budgets
}

// lagging is a cache that shows an earlier NodeGroup.
type lagging struct {
	client.Reader

	group *v1alpha1.NodeGroup
}

func (l *lagging) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	if group, ok := object.(*v1alpha1.NodeGroup); ok && l.group != nil {
		l.group.DeepCopyInto(group)
		return nil
	}
	return l.Reader.Get(ctx, key, object, options...)
}

// members are the Nodes of one group, and what its Machines show.
type members struct {
	nodes    []*corev1.Node
	machines plan.Machines
	err      error
	// beforeMembers is called before the Nodes are listed; nil is not.
	beforeMembers func()
}

func (m *members) GroupOf(_ context.Context, node string) (string, error) {
	if _, isMachine := plan.ParseMachineName(node); isMachine || slices.ContainsFunc(m.nodes, func(n *corev1.Node) bool { return n.Name == node }) {
		return groupName, m.err
	}
	return "", m.err
}

func (m *members) Members(context.Context, string) ([]*corev1.Node, error) {
	if m.beforeMembers != nil {
		m.beforeMembers()
	}
	return m.nodes, m.err
}

func (m *members) Machines(context.Context, string, time.Time) (plan.Machines, error) {
	return m.machines, m.err
}

func newScheme(t testing.TB) *runtime.Scheme {
	t.Helper()
	scheme := apitest.Scheme(t, clientgoscheme.AddToScheme, v1alpha1.AddToScheme)
	return scheme
}

func newNode(name string) *corev1.Node {
	return builder.Node(name, builder.WithReady(corev1.ConditionTrue))
}

func newGroupObject() *v1alpha1.NodeGroup {
	return &v1alpha1.NodeGroup{
		ObjectMeta: metav1.ObjectMeta{Name: groupName, UID: "group"}, Spec: v1alpha1.NodeGroupSpec{Disruption: &v1alpha1.Disruption{}},
	}
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{T: t, clock: clocktesting.NewFakePassiveClock(time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC))}
	f.client = fake.NewClientBuilder().WithScheme(newScheme(t)).WithStatusSubresource(&v1alpha1.NodeGroup{}).WithObjects(newGroupObject()).
		WithInterceptorFuncs(f.requests.Interceptors()).Build()
	f.cache.Reader = f.client
	for i := range 3 {
		f.members.nodes = append(f.members.nodes, newNode(fmt.Sprintf("n%d", i)))
	}
	f.members.machines.Namespaces = []string{"machines"}
	f.start()
	return f
}

// start has a new process.
func (f *fixture) start() {
	written := expectations.NewOwned(&f.cache, func() client.Object { return &v1alpha1.NodeGroup{} }, expectations.OwnedOptions{Clock: f.clock})
	f.budgets = New(Options{
		Reader: &f.cache, Writer: f.client, Membership: &f.members, Written: written, Clock: f.clock,
		Windows: func(*v1alpha1.NodeGroup, time.Time) plan.Window { return f.window },
		Pace: func(*v1alpha1.NodeGroup) plan.Pace {
			return plan.Pace{MinReady: f.minReady, Deadline: 30 * time.Minute}
		},
	})
}

// lag has the cache show the NodeGroup as it is now, until catchUp.
func (f *fixture) lag() { f.cache.group = f.group() }

func (f *fixture) catchUp() { f.cache.group = nil }

func (f *fixture) group() *v1alpha1.NodeGroup {
	f.Helper()
	group := &v1alpha1.NodeGroup{}
	if err := f.client.Get(f.Context(), types.NamespacedName{Name: groupName}, group); err != nil {
		f.Fatal(err)
	}
	return group
}

// change changes the spec as a user does.
func (f *fixture) change(change func(*v1alpha1.NodeGroup)) {
	f.Helper()
	apitest.Edit(f.T, f.client, f.group(), change)
	f.requests.Writes = nil
}

// replace has the cache replace a Node by a changed one.
func (f *fixture) replace(at int, change func(*corev1.Node)) {
	f.members.nodes = slices.Clone(f.members.nodes)
	f.members.nodes[at] = f.members.nodes[at].DeepCopy()
	change(f.members.nodes[at])
}

func (f *fixture) lease(name, holder string, age time.Duration) {
	f.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "medik8s-leases", Name: name}}
	renewed := metav1.NewMicroTime(f.clock.Now().Add(-age))
	lease.Spec = coordinationv1.LeaseSpec{HolderIdentity: &holder, RenewTime: &renewed, LeaseDurationSeconds: new(int32(3600))}
	if err := f.client.Create(f.Context(), lease); err != nil {
		f.Fatal(err)
	}
	f.requests.Writes = nil
}

func (f *fixture) step(d time.Duration) { f.clock.SetTime(f.clock.Now().Add(d)) }

func newRequest(node string, capability v1alpha1.Capability) *Request {
	return &Request{Request: plan.Request{
		Node: node, UID: types.UID("uid-of-" + node), Capability: capability, Object: "Object/" + node, ObjectUID: types.UID("object-" + node),
	}}
}

// leased has a request acquire the lease of its Node.
func (f *fixture) leased(request *Request) *Request {
	request.Target = newNode(request.Node)
	request.Leases = &nodelease.Leases{Client: f.client, Namespace: nodelease.DefaultNamespace, Holder: "own", Clock: f.clock}
	return request
}

// begin asks for the permission, and checks the answer; an empty reason is an allowed request.
func (f *fixture) begin(request *Request, wantReason string) Permit {
	f.Helper()
	permit, _, err := f.budgets.Begin(f.Context(), request)
	permit.Done()
	if err != nil {
		f.Fatal(err)
	}
	if permit.Allowed != (wantReason == "") || permit.Reason != wantReason {
		f.Fatalf("Node %s: allowed %v, reason %q: %s", request.Node, permit.Allowed, permit.Reason, permit.Message)
	}
	return permit
}

func (f *fixture) end(request *Request) {
	f.Helper()
	if err := f.budgets.End(f.Context(), request); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) state() State {
	f.Helper()
	state, err := f.budgets.StateOf(f.Context(), groupName, f.members.nodes)
	if err != nil {
		f.Fatal(err)
	}
	return state
}

// wrote checks how many writes were made since the last call.
func (f *fixture) wrote(want int) {
	f.Helper()
	if len(f.requests.Writes) != want {
		f.Errorf("the writes are %q, want %d", f.requests.Writes, want)
	}
	f.requests.Writes = nil
}

// admitted checks which Nodes the status has admissions of.
func (f *fixture) admitted(want ...string) {
	f.Helper()
	var nodes []string
	for _, r := range f.group().Status.Admissions {
		nodes = append(nodes, r.Node)
	}
	if !slices.Equal(nodes, want) {
		f.Errorf("admitted are %q, want %q", nodes, want)
	}
}

// woken returns a function that returns the Nodes whose requests were woken for a capability since its last call.
func (f *fixture) woken(capability v1alpha1.Capability) func() []string {
	f.Helper()
	queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	source := f.budgets.Source(capability, func(_ context.Context, node string) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: node}}}
	})
	if err := source.Start(f.Context(), queue); err != nil {
		f.Fatal(err)
	}
	return func() (nodes []string) {
		for queue.Len() > 0 {
			item, _ := queue.Get()
			queue.Done(item)
			nodes = append(nodes, item.Name)
		}
		slices.Sort(nodes)
		return nodes
	}
}
