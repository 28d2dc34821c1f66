package replacement

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/record"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/apitest"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/controller"
	"github.com/drover-io/drover/internal/disruption"
	disruptionplan "github.com/drover-io/drover/internal/disruption/plan"
	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/machineapi/lookup"
	"github.com/drover-io/drover/internal/members"
	"github.com/drover-io/drover/internal/nodegroup/replacement/plan"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// fixture is a NodeGroup that replaces the Machines of a MachineSet, on an API server in memory.
type fixture struct {
	*testing.T

	requests  apitest.Requests
	client    client.Client
	clock     *clocktesting.FakePassiveClock
	events    *record.FakeRecorder
	finder    *members.Finder
	replacer  *Replacer
	state     *State
	conflicts *controller.Conflicts
	// report is the report of the last reconciliation.
	report plan.Report
}

func newFixture(t *testing.T, objects ...client.Object) *fixture {
	t.Helper()
	scheme := apitest.Scheme(t, clientgoscheme.AddToScheme, machinev1beta1.Install, v1alpha1.AddToScheme)
	f := &fixture{T: t, requests: apitest.Requests{Names: true, Fail: map[string]error{}}, clock: clocktesting.NewFakePassiveClock(start)}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.NodeGroup{}).
		WithInterceptorFuncs(f.requests.Interceptors())
	indexer := apitest.Indexer{Builder: builder}
	if err := errors.Join(lookup.Index(t.Context(), indexer), lookup.IndexOwners(t.Context(), indexer)); err != nil {
		t.Fatal(err)
	}
	f.client, f.events = builder.Build(), record.NewFakeRecorder(100)
	metrics, err := NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	budgets := disruption.New(disruption.Options{Reader: f.client, Writer: f.client, Membership: allNodes{f.client}, Clock: f.clock})
	f.finder, f.state, f.conflicts = members.NewFinder(f.client, func() bool { return true }), NewState(), controller.NewConflicts()
	f.replacer = New(Dependencies{
		Cache: f.client, Writer: f.client, Recorder: f.events, Metrics: metrics, Budgets: budgets, Clock: f.clock,
		Creates: func() bool { return true }, Others: func() bool { return false },
	})
	return f
}

// allNodes has every Node belong to the group.
type allNodes struct{ client.Reader }

func (a allNodes) GroupOf(context.Context, string) (string, error) { return "gpu", nil }

func (allNodes) Machines(context.Context, string, time.Time) (machines disruptionplan.Machines, err error) {
	return machines, nil
}

func (a allNodes) Members(ctx context.Context, _ string) (nodes []*corev1.Node, err error) {
	var list corev1.NodeList
	err = a.List(ctx, &list)
	for i := range list.Items {
		nodes = append(nodes, &list.Items[i])
	}
	return nodes, err
}

// reconciles reconciles the group, and checks the writes.
func (f *fixture) reconciles(want ...string) reconcile.Result {
	f.Helper()
	return f.writes(f.reconcile, want...)
}

// reconcilesSet reconciles a MachineSet, and checks the writes.
func (f *fixture) reconcilesSet(name string, want ...string) {
	f.Helper()
	key := types.NamespacedName{Namespace: "machines", Name: name}
	f.writes(func() (reconcile.Result, error) {
		groups, err := f.finder.Groups(f.Context())
		if err != nil {
			return reconcile.Result{}, err
		}
		return f.replacer.ReconcileSet(f.Context(), groups, key).Result(key, f.conflicts)
	}, want...)
}

func (f *fixture) writes(reconcile func() (reconcile.Result, error), want ...string) reconcile.Result {
	f.Helper()
	f.requests.Writes = nil
	result, err := reconcile()
	if err != nil {
		f.Errorf("reconciling: %v", err)
	}
	if got := strings.Join(f.requests.Writes, ", "); got != strings.Join(want, ", ") {
		f.Errorf("the writes are %s, not %s", got, strings.Join(want, ", "))
	}
	return result
}

// reconcile reconciles the group as the controller of NodeGroups does.
func (f *fixture) reconcile() (reconcile.Result, error) {
	groups, err := f.finder.Groups(f.Context())
	if err != nil {
		return reconcile.Result{}, err
	}
	group := groups[slices.IndexFunc(groups, func(group *members.Group) bool { return group.Name == "gpu" })]
	nodes, err := f.finder.Nodes(f.Context(), groups, group.UID)
	if err != nil {
		return reconcile.Result{}, err
	}
	report, out := f.replacer.Reconcile(f.Context(), Group{Group: group, All: groups, Nodes: nodes, State: f.state, Now: f.clock.Now()})
	f.report = report
	return out.Result(client.ObjectKeyFromObject(group), f.conflicts)
}

func newGroup(options ...func(*v1alpha1.NodeGroup)) *v1alpha1.NodeGroup {
	return builder.NodeGroup("gpu", slices.Insert(options, 0, func(group *v1alpha1.NodeGroup) {
		group.Spec.Nodes.MachineSets = &v1alpha1.MachineSetSelection{Namespace: "machines"}
		group.Spec.Replacement = &v1alpha1.Replacement{Type: v1alpha1.ReplacementRollingUpdate}
	})...)
}

func newSet(replicas int32) *machinev1beta1.MachineSet {
	return builder.MachineSet("machines", "a", replicas, builder.WithSelector(map[string]string{"set": "a"}), func(set *machinev1beta1.MachineSet) {
		set.Spec.Template.Spec.ProviderSpec = builder.RawProviderSpec(`{"image":"new"}`)
	})
}

// newPair returns a Machine and its Node, which has been Ready for an hour.
func newPair(name string, options ...func(*machinev1beta1.Machine, *corev1.Node)) []client.Object {
	hourAgo := metav1.NewTime(start.Add(-time.Hour))
	machine := builder.Machine("machines", name, builder.WithOwner(newSet(0)), builder.WithNode(name), func(machine *machinev1beta1.Machine) {
		machine.Annotations[machineapi.TemplateHashAnnotation] = machineapi.TemplateOf(newSet(0)).Hash()
		machine.Finalizers, machine.CreationTimestamp = []string{machinev1beta1.MachineFinalizer}, hourAgo
	})
	node := builder.Node(name, builder.WithReadySince(corev1.ConditionTrue, hourAgo.Time), func(node *corev1.Node) {
		node.UID, node.CreationTimestamp = types.UID("uid-of-node-"+name), hourAgo
	})
	for _, option := range options {
		option(machine, node)
	}
	return []client.Object{machine, node}
}

func outdated(machine *machinev1beta1.Machine, _ *corev1.Node) {
	machine.Annotations[machineapi.TemplateHashAnnotation] = "v1:old"
}

func replacing(machine *machinev1beta1.Machine, _ *corev1.Node) {
	machine.Annotations[machineapi.ReplacingAnnotation] = "true"
}

func skipped(machine *machinev1beta1.Machine, _ *corev1.Node) {
	machine.Annotations[machineapi.SkipReplacementAnnotation] = ""
}

func controlPlane(_ *machinev1beta1.Machine, node *corev1.Node) {
	node.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""}
}

func cordoned(_ *machinev1beta1.Machine, node *corev1.Node) { node.Spec.Unschedulable = true }

func joining(_ *machinev1beta1.Machine, node *corev1.Node) {
	node.Spec.Taints = []corev1.Taint{{Key: "drover.dev/uninitialized", Effect: corev1.TaintEffectNoSchedule}}
}

func all(objects ...[]client.Object) (flat []client.Object) {
	for _, o := range objects {
		flat = append(flat, o...)
	}
	return flat
}
