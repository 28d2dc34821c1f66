package maintenance

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// evictions counts the evictions of the pods of an application that the API server has accepted since a mark.
func evictions(s *harness.Site, mark cluster.AuditMark, app string) int {
	s.Helper()
	counts, err := s.Cluster.Audit().Counts(mark, func(e *cluster.AuditEvent) bool {
		return e.User == harness.User && e.Subresource == "eviction" && e.Code == http.StatusCreated && e.Namespace == s.Name &&
			strings.HasPrefix(e.Name, app+"-")
	})
	if err != nil {
		s.Fatal(err)
	}
	return counts.Total(func(cluster.AuditKey) bool { return true })
}

// TestDrain_PodsReturn: a Deployment that tolerates everything and fits on the cordoned node only has no pod evicted in a loop. The node counts as
// drained, unless spec.drain says that such pods have to stay away.
func TestDrain_PodsReturn(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	s.Deployment("clings", harness.Pods{Node: node, Tolerant: true, Grace: 1})
	mark := s.AuditMark()
	m := s.Maintain(node, nil)
	m.Phase(medik8s.PhaseSucceeded)
	m.Condition(plan.ConditionDrained, plan.ReasonDrained, "ReplicaSet "+s.Name+"/clings-")
	m.Condition(plan.ConditionDrained, plan.ReasonDrained, "come back to the cordoned node")
	s.AwaitEvent("NodeMaintenance", m.Get().GetName(), "PodsReturn", "scale their owner down, remove their toleration")
	if _, err := s.Cluster.Audit().Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	// Kubernetes has no fractions of seconds: what returns within the second of the cordon looks like what was there before.
	if count := evictions(s, mark, "clings"); count < 1 || count > 5 {
		t.Errorf("%d evictions, want one, and few more within the first second", count)
	}
	if err := patch(s, m.Get(), `{"spec":{"drain":{"returningPods":"Wait"}}}`); err != nil {
		t.Fatal(err)
	}
	m.Await("it says that the pods return", func(status medik8s.NodeMaintenanceStatus) error {
		for _, condition := range status.Conditions {
			if condition.Type == plan.ConditionDrained && condition.Status == metav1.ConditionFalse {
				return nil
			}
		}
		return fmt.Errorf("it is drained")
	})
	if err := patch(s, m.Get(), `{"spec":{"drain":{"returningPods":"Ignore"}}}`); err != nil {
		t.Fatal(err)
	}
	m.Condition(plan.ConditionDrained, plan.ReasonDrained, "1 returned")
	if left := s.Running("clings", 1, true); left[0].Spec.NodeName != node {
		t.Errorf("the pod is on node %q", left[0].Spec.NodeName)
	}
}

// TestDrain_FinishedPod: a pod that has finished is not protected by an annotation.
func TestDrain_FinishedPod(t *testing.T) {
	s := site(t)
	node := s.AddNode()
	pods := s.Job("done", harness.Pods{Node: node, Completes: harness.Never, Annotations: map[string]string{"karpenter.sh/do-not-disrupt": "true"}})
	done := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
	if err := s.Client.Status().Patch(t.Context(), &pods[0], done); err != nil {
		t.Fatal(err)
	}
	m := s.Maintain(node, &medik8s.DrainSpec{Honor: []medik8s.Convention{medik8s.ConventionKarpenter}})
	m.Phase(medik8s.PhaseSucceeded)
}
