package disruption

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/expectations"
	"github.com/drover-io/drover/internal/nodelease"
)

// memory is a cache and an API server of one NodeGroup, without what either costs: the cache copies objects no deeper than the operator's does.
type memory struct {
	client.Reader
	client.SubResourceWriter

	group  *v1alpha1.NodeGroup
	leases []*coordinationv1.Lease
	// writing is how long the writes took.
	writing time.Duration
}

func (m *memory) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if group, ok := into.(*v1alpha1.NodeGroup); ok {
		*group = *m.group
	}
	return nil
}

func (m *memory) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, ok := into.(*coordinationv1.LeaseList); ok {
		list.Items = make([]coordinationv1.Lease, 0, len(m.leases))
		for _, lease := range m.leases {
			list.Items = append(list.Items, *lease)
		}
	}
	return nil
}

func (m *memory) Status() client.SubResourceWriter { return m }

func (m *memory) Patch(_ context.Context, into client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	defer func(start time.Time) { m.writing += time.Since(start) }(time.Now())
	body, err := patch.Data(nil)
	if err != nil {
		return err
	}
	group := m.group.DeepCopy()
	if err := json.Unmarshal(body, group); err != nil {
		return err
	}
	version, err := strconv.Atoi(m.group.ResourceVersion)
	if err != nil {
		return err
	}
	group.ResourceVersion = strconv.Itoa(version + 1)
	m.group = group
	if answer, ok := into.(*v1alpha1.NodeGroup); ok {
		*answer = *group
	}
	return nil
}

// BenchmarkBegin asks for places in a group of 5,000 Nodes. One Node changes each time. p50 and p99 are of the time of Begin without the write: half
// of the requests take longer than p50, one of a hundred takes longer than p99. Other work on the machine counts, too.
func BenchmarkBegin(b *testing.B) {
	const nodes = 5000
	for _, size := range []struct{ places, waiting int }{{50, 0}, {500, 0}, {50, 1000}, {500, 5000}} {
		b.Run(fmt.Sprintf("nodes=%d/places=%d/waiting=%d", nodes, size.places, size.waiting), func(b *testing.B) {
			m := &memory{group: newGroupObject()}
			m.group.ResourceVersion = "1"
			m.group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt(size.places + 1))
			group := &members{}
			now := time.Now()
			for i := range nodes {
				node := newNode(fmt.Sprintf("node-%05d", i))
				group.nodes = append(group.nodes, node)
				if i > size.places {
					continue
				}
				renewed := metav1.NewMicroTime(now)
				m.leases = append(m.leases, &coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Name: "node-" + node.Name, Annotations: map[string]string{
						nodelease.AnnotationCapability: string(upgrade), nodelease.AnnotationObject: "MutexRunConfig/openshift-upgrade/run",
						nodelease.AnnotationObjectUID: "run",
					}},
					Spec: coordinationv1.LeaseSpec{
						HolderIdentity: new("drover"), AcquireTime: &renewed, RenewTime: &renewed, LeaseDurationSeconds: new(int32(3600)),
					},
				})
			}
			budgets := New(Options{
				Reader: m, Writer: m, Membership: group,
				Written: expectations.NewOwned(m, func() client.Object { return &v1alpha1.NodeGroup{} }, expectations.OwnedOptions{}),
			})
			begin := func(node string, capability v1alpha1.Capability) Permit {
				permit, _, err := budgets.Begin(b.Context(), newRequest(node, capability))
				if err != nil {
					b.Fatal(err)
				}
				return permit
			}
			for i := range size.waiting {
				begin(group.nodes[nodes-1-i%(nodes-size.places-2)].Name, []v1alpha1.Capability{upgrade, maintenance}[i%2])
			}
			// The last place becomes free and is taken again.
			m.leases = m.leases[:size.places]
			measure(b, m, group, begin, budgets)
		})
	}
}

func measure(b *testing.B, m *memory, group *members, begin func(string, v1alpha1.Capability) Permit, budgets *Budgets) {
	b.Helper()
	var took []time.Duration
	for i := 0; b.Loop(); i++ {
		group.nodes = slices.Clone(group.nodes)
		at := len(group.nodes) - 1 - i%1000
		group.nodes[at] = newNode(group.nodes[at].Name)
		group.nodes[at].Annotations = map[string]string{"changed": "again"}
		m.writing = 0
		start := time.Now()
		node := group.nodes[len(group.nodes)/2].Name
		permit := begin(node, remediation)
		took = append(took, time.Since(start)-m.writing)
		if !permit.Allowed {
			b.Fatalf("%s: %s", permit.Reason, permit.Message)
		}
		if err := budgets.End(b.Context(), newRequest(node, remediation)); err != nil {
			b.Fatal(err)
		}
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}
