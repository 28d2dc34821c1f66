package nodegroup

import (
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
)

// TestRollout_KubeletKeepsChangingItsNode: a kubelet that keeps changing a declared label of its Node does not hold up the roll-out, and the group
// names the Node.
func TestRollout_KubeletKeepsChangingItsNode(t *testing.T) {
	f := besideOthers(t, "contended", 3)
	f.create(f.newGroup("contended", withLabel("example.com/team", "blue"), withWaves(1, 1, 3*time.Second)))
	f.eventuallyCondition("contended", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	patch, stop := f.kubelet("contended-00"), make(chan struct{})
	var kubelet sync.WaitGroup
	kubelet.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
			}
			if err := patch(`{"metadata":{"labels":{"example.com/team":"mine"}}}`, false); err != nil {
				t.Errorf("the kubelet cannot change its Node: %v", err)
				return
			}
		}
	})
	f.update("contended", withLabel("example.com/team", "red"))
	f.eventuallyNode("contended-02", "is reached", hasLabel("example.com/team", "red"))
	group := f.eventuallyCondition("contended", v1alpha1.ConditionReady, metav1.ConditionFalse, plan.ReasonContended)
	for _, c := range group.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady && !strings.Contains(c.Message, "contended-00") {
			t.Errorf("the condition says %q", c.Message)
		}
	}
	f.eventuallyCondition("contended", v1alpha1.ConditionProgressing, metav1.ConditionFalse, plan.ReasonComplete)
	close(stop)
	kubelet.Wait()
}
