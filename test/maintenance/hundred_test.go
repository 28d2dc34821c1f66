package maintenance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// manyNodes is how many nodes are in maintenance at once: a hundred, and thirty under go test -short. node-maintenance-operator has one worker, which
// is busy with each of them for half a minute.
func manyNodes() int {
	if testing.Short() {
		return 30
	}
	return 100
}

// TestDrain_BlockedDelaysNoOther: all pods are blocked by a budget; every node is cordoned all the same, and comes back. make bench-drains
// measures how soon.
func TestDrain_BlockedDelaysNoOther(t *testing.T) {
	s, many := alone(t), manyNodes()
	nodes := s.AddNodes(many)
	for _, node := range nodes {
		s.BarePod("blocked-"+node, harness.Pods{Node: node, Labels: map[string]string{"test": "blocked"}})
	}
	s.Eventually("all pods run", func() error {
		var list corev1.PodList
		if err := s.Client.List(t.Context(), &list, client.InNamespace(s.Name)); err != nil {
			return err
		}
		for i := range list.Items {
			if list.Items[i].Status.Phase != corev1.PodRunning {
				return fmt.Errorf("%s does not", list.Items[i].Name)
			}
		}
		return nil
	})
	s.BudgetFor("all", map[string]string{"test": "blocked"}, harness.MinAvailable(int32(many))) //nolint:gosec // it is a hundred at most
	s.Operator(harness.Options{})
	mark := s.AuditMark()
	begun := time.Now()
	all := make([]*harness.Maintenance, many)
	for i, node := range nodes {
		all[i] = s.Maintain(node, nil)
	}
	last := time.Now()
	awaitMaintenance(s, nodes[many-1])
	took := time.Since(last)
	for _, node := range nodes {
		awaitMaintenance(s, node)
	}
	t.Logf("%d NodeMaintenances made in %s; the last node was cordoned %s after its own, all of them %s after the first",
		many, last.Sub(begun).Round(time.Millisecond), took.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
	for _, m := range all {
		m.Condition(plan.ConditionDrained, "Blocked", fmt.Sprintf("%s/all needs %d healthy pods and has %d", s.Name, many, many))
	}
	comeBack(t, s, all, mark)
}

// comeBack ends some of the maintenances one by one, and then all others at once.
func comeBack(t *testing.T, s *harness.Site, all []*harness.Maintenance, mark cluster.AuditMark) {
	t.Helper()
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the ones that end
	random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	const single = 20
	back := func(m *harness.Maintenance) {
		s.AwaitNode(m.Node, "giving back", func(node *corev1.Node) error {
			if node.Spec.Unschedulable || len(node.Spec.Taints) > 0 {
				return fmt.Errorf("it is %s", looks(node))
			}
			return nil
		})
	}
	var times []time.Duration
	for _, m := range all[:single] {
		asked := time.Now()
		m.Delete()
		back(m)
		times = append(times, time.Since(asked))
	}
	slices.Sort(times)
	t.Logf("of %d ended one by one the node came back after %s in the middle and %s at most", single,
		times[single/2].Round(time.Millisecond), times[single-1].Round(time.Millisecond))
	asked := time.Now()
	for _, m := range all[single:] {
		m.Delete()
	}
	for _, m := range all[single:] {
		back(m)
		s.Gone(builder.NodeMaintenance(m.Name, m.Node))
	}
	t.Logf("the other %d came back within %s", len(all)-single, time.Since(asked).Round(time.Millisecond))
	evictions := requests(s).Evictions
	counts, err := s.Cluster.Audit().Counts(mark, func(e *cluster.AuditEvent) bool { return e.User == harness.User && e.Resource != "events" })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("eviction calls for pods that could not go: %d; all requests but events:\n%s", len(evictions), counts)
}
