package upgrade

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/disruption"
)

// membership has all nodes in one NodeGroup once they have joined it.
type membership struct {
	joined bool
	nodes  []*corev1.Node
}

func (m *membership) GroupOf(context.Context, string) (string, error) {
	if m.joined {
		return "workers", nil
	}
	return "", nil
}

func (m *membership) Members(context.Context, string) ([]*corev1.Node, error) { return m.nodes, nil }

// TestBudget_JoinedDuringJobs has a node join a NodeGroup without a free place while its Jobs run: it is released once there is one.
func TestBudget_JoinedDuringJobs(t *testing.T) {
	f := newFixture(t, newObjects()...)
	known := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, drover.AddToScheme} {
		f.must(add(known))
	}
	group := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: "workers"}}
	group.Spec.Disruption = &drover.Disruption{}
	group.Status.Reservations = []drover.Reservation{
		{Node: "w1", UID: "uid-of-w1", Capability: drover.CapabilityMaintenance, Object: "NodeMaintenance/w1"},
	}
	groups := fake.NewClientBuilder().WithScheme(known).WithStatusSubresource(group).WithObjects(group).Build()
	m := &membership{nodes: []*corev1.Node{newNode("n1", "infra"), newNode("n2", "infra"), newNode("w1", "other")}}
	f.Budgets = disruption.New(disruption.Options{Reader: groups, Writer: groups, Membership: m, Clock: f.clock})
	f.reconcileUntil(func() bool { return f.lease("n1") != nil && len(f.created) > 0 })
	m.joined = true
	for range 10 {
		f.simulate()
		f.reconcileTimes(1)
	}
	if status := f.nodeStatus("n1"); status.Phase != v1alpha1.NodeRunningJobs || !strings.Contains(status.Message, "w1 (reserved for Maintenance)") {
		t.Fatalf("node n1 is %+v", status)
	}
	f.must(groups.Get(t.Context(), client.ObjectKeyFromObject(group), group))
	group.Status.Reservations = nil
	f.must(groups.Status().Update(t.Context(), group))
	f.reconcileUntil(func() bool { return f.nodeStatus("n1").Phase == v1alpha1.NodeReleased })
	f.must(groups.Get(t.Context(), client.ObjectKeyFromObject(group), group))
	if len(group.Status.Reservations) != 1 || group.Status.Reservations[0].Node != "n1" {
		t.Errorf("reserved is %v", group.Status.Reservations)
	}
}
