package nodegroup

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
	"github.com/drover-io/drover/internal/nodegroup/plan"
	"github.com/drover-io/drover/test/harness"
	"github.com/drover-io/drover/test/harness/plugin"
)

// TestIdle_SaysWhy: a group that does nothing of what it declares says so in its condition, in an event, in kubectl get and in rollout status.
func TestIdle_SaysWhy(t *testing.T) {
	f := besideOthers(t, "idle", 2)
	f.create(f.newGroup("idle-older", withLabel("example.com/team", "a")))
	f.eventuallyCondition("idle-older", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.create(f.newGroup("idle-younger", withLabel("example.com/team", "b")))
	f.create(f.newGroup("idle-none", withLabel("example.com/team", "c"), func(spec *v1alpha1.NodeGroupSpec) {
		spec.Nodes.Selector.MatchLabels = map[string]string{"example.com/pol": "idle"}
	}))
	for name, c := range map[string]struct{ reason, message string }{
		"idle-younger": {plan.ReasonOverlapping, "(idle-older): idle-00, idle-01"},
		"idle-none":    {plan.ReasonNoNodes, "spec.nodes.selector matches no Node"},
	} {
		f.checkIdle(name, c.reason, c.message, "0")
	}
	f.update("idle-older", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"kubernetes.io/hostname": "mine"}
	})
	f.checkIdle("idle-older", plan.ReasonRefusedKeys, `"kubernetes.io/hostname"`, "2")
	f.eventuallyCondition("idle-older", v1alpha1.ConditionStalled, metav1.ConditionTrue, plan.ReasonRefusedKeys)
	f.update("idle-older", func(spec *v1alpha1.NodeGroupSpec) {
		spec.Metadata.Labels = map[string]v1alpha1.LabelValue{"example.com/team": "a"}
	})
	f.Eventually("it is not stalled any more", func() error {
		if meta.IsStatusConditionTrue(f.group("idle-older").Status.Conditions, v1alpha1.ConditionStalled) {
			return fmt.Errorf("status is %s", harness.JSON(f.group("idle-older").Status))
		}
		return nil
	})
	if output, code := plugin.Run(f.World, "uninstall-check"); code != 1 || !strings.Contains(output, "nodegroup.drover.dev/idle-none") {
		t.Errorf("uninstall-check has code %d: %s", code, output)
	}
	// When a Node joins an empty pool, the Node is written. When a pool scales to zero, that is not reported again.
	f.label("idle-00", "example.com/pol", "idle")
	f.label("idle-00", labelPool, "other")
	f.eventuallyCondition("idle-none", v1alpha1.ConditionReady, metav1.ConditionTrue, plan.ReasonSynced)
	f.label("idle-00", "example.com/pol", "")
	f.eventuallyCondition("idle-none", v1alpha1.ConditionReady, metav1.ConditionFalse, plan.ReasonNoNodes)
	if count := f.AwaitEvent("NodeGroup", "idle-none", plan.ReasonNoNodes, ""); count != 1 {
		t.Errorf("there are %d events", count)
	}
}

// checkIdle waits until a group says why it does nothing, in all places.
func (f *fixture) checkIdle(name, reason, message, nodes string) {
	f.Helper()
	f.eventuallyCondition(name, v1alpha1.ConditionReady, metav1.ConditionFalse, reason)
	if count := f.AwaitEvent("NodeGroup", name, reason, message); count != 1 {
		f.Errorf("NodeGroup %s has %d events", name, count)
	}
	if output, code := plugin.Run(f.World, "rollout", "status", "nodegroup/"+name); code != 1 || !strings.Contains(output, reason) {
		f.Errorf("rollout status of %s has code %d: %s", name, code, output)
	}
	output, err := harness.Kubectl(f.Context(), f.Cluster, nil, "get", "nodegroup", name, "-o", "wide", "--no-headers")
	if fields := strings.Fields(output); err != nil || len(fields) < 3 || fields[1] != nodes || fields[2] != "0" || !strings.Contains(output, message) {
		f.Errorf("kubectl get says %q: %v", output, err)
	}
}
