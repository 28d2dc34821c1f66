package upgrade

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drover "github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/upgrade/plan"
	"github.com/drover-io/drover/test/harness"
)

// groupLabel is the label in the selectors of these tests' NodeGroups.
const groupLabel = "example.com/group"

// newGroup makes a NodeGroup of one node, with the node's name, that allows so many unavailable Nodes, and waits until the Node is in it.
func (s *scenario) newGroup(node string, maxUnavailable int32) {
	s.Helper()
	group := &drover.NodeGroup{ObjectMeta: metav1.ObjectMeta{Name: node}}
	group.Spec.Nodes.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{groupLabel: node}}
	group.Spec.Disruption = &drover.Disruption{MaxUnavailable: new(intstr.FromInt32(maxUnavailable))}
	s.CreateWithCleanup(group)
	harness.Update(s.World, s.Node, node, func(node *corev1.Node) { node.Labels[groupLabel] = node.Name })
	s.Eventually("NodeGroup "+node+" has the Node", func() error {
		if status := s.getGroup(node).Status; status.Nodes != 1 {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
}

func (s *scenario) getGroup(name string) *drover.NodeGroup {
	s.Helper()
	group := &drover.NodeGroup{}
	if err := s.Client.Get(s.Context(), client.ObjectKey{Name: name}, group); err != nil {
		s.Fatal(err)
	}
	return group
}

// TestRun_FirstNodeWaitsForBudget: the first node has to wait for its NodeGroup, and the only slot is for the next one.
func TestRun_FirstNodeWaitsForBudget(t *testing.T) {
	s := newScenario(t, scenarioOptions{})
	first, second := s.nodes[0], s.nodes[1]
	s.newGroup(first, 0)
	s.newGroup(second, 1)
	s.upgrade()
	const why = "maxUnavailable is 0"
	s.Eventually("node "+second+" is done, and node "+first+" waits", func() error {
		run := s.get("run").Status
		if run.Version != s.to || run.Phase != v1alpha1.PhaseWaiting || run.Done != 1 || len(run.Nodes) != 2 {
			return fmt.Errorf("the run is %s", harness.JSON(run))
		}
		if n := run.Nodes[0]; n.Name != first || n.Phase != v1alpha1.NodePending || n.Job != "" || !strings.Contains(n.Message, why) {
			return fmt.Errorf("node %s is %s", first, harness.JSON(n))
		}
		ready := meta.FindStatusCondition(run.Conditions, plan.ConditionReady)
		if ready == nil || !strings.Contains(ready.Message, first+" (") || !strings.Contains(ready.Message, why) {
			return fmt.Errorf("the conditions are %s", harness.JSON(run.Conditions))
		}
		return nil
	})
	for _, job := range s.jobs() {
		if job.Annotations[plan.AnnotationNode] == first {
			t.Errorf("Job %s was created", job.Name)
		}
	}
	harness.Update(s.World, s.getGroup, first, func(group *drover.NodeGroup) {
		group.Spec.Disruption.MaxUnavailable = new(intstr.FromInt32(1))
	})
	s.await(v1alpha1.PhaseDone)
	s.expectRestored()
	s.expectJobsOnce()
}
