package upgrade

import (
	"fmt"
	"strings"
	"testing"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/test/harness"
)

// TestReleasedNode_DrainBlocked has a budget block the drain by the machine-config-operator. The run's status and the plugin say which.
func TestReleasedNode_DrainBlocked(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	node := s.nodes[0]
	s.Pod("app", harness.Pods{Node: node})
	s.Budget("app", "app", harness.MinAvailable(1))
	s.Allows("app", 0)
	s.upgrade()
	s.Eventually("the run says what blocks the drain", func() error {
		status := s.get("run").Status
		for i := range status.Nodes {
			n := &status.Nodes[i]
			if n.Name == node && n.Phase == v1alpha1.NodeUpgrading && strings.Contains(n.Message, "machine-config-operator reports Working") &&
				strings.Contains(n.Message, "PodDisruptionBudget "+s.Name+"/app") && strings.Contains(n.Message, "1 pod left") {
				return nil
			}
		}
		return fmt.Errorf("the run is %s", harness.JSON(status))
	})
	s.run(t, 0, "PodDisruptionBudget "+s.Name+"/app", "upgrade", "status", s.Name+"/run")
	s.ChangeBudget("app", harness.MinAvailable(0))
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
}
