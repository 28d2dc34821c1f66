package maintenance

import (
	"testing"
	"time"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/harness"
)

// TestControlPlane_OneNodeAtATime is the controller's part of the guard: there is no webhook here. It is the only test with
// such nodes: they count wherever they are from.
func TestControlPlane_OneNodeAtATime(t *testing.T) {
	s := site(t)
	nodes := s.AddNodes(3, harness.ControlPlane)
	s.StaticPod("etcd", nodes[0])
	before := looks(s.Node(nodes[1]))
	first := s.Maintain(nodes[0], nil)
	first.Phase(medik8s.PhaseSucceeded)
	s.AwaitEvent("NodeMaintenance", first.Name, maintenance.EventBegin, "")
	second := s.Maintain(nodes[1], nil)
	second.Condition(plan.ConditionCordoned, "ControlPlaneQuorum", "can not put master/control-plane node into maintenance")
	drainedMeanwhile(s)
	s.NoLease(nodes[1])
	if now := looks(s.Node(nodes[1])); now != before {
		t.Errorf("the node is %s", now)
	}
	ended := time.Now()
	first.End()
	second.Phase(medik8s.PhaseSucceeded)
	t.Logf("the second one was drained %s after the first one's end was asked for", time.Since(ended).Round(time.Millisecond))
	second.End()
	givenBack(s, nodes[1], before)
}
