package plan

import (
	"maps"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
)

// TestDecideNodes_ReleasedNode checks what is said about a node that is not upgraded yet.
func TestDecideNodes_ReleasedNode(t *testing.T) {
	working := map[string]string{annotationState: stateWorking, annotationDesired: "rendered-2", AnnotationCurrentConfig: "rendered-1"}
	with := func(base map[string]string, key, value string) map[string]string {
		out := maps.Clone(base)
		out[key] = value
		return out
	}
	requested := with(working, annotationDesiredDrain, "drain-rendered-2")
	draining := with(requested, annotationLastAppliedDrain, "uncordon-rendered-1")
	drained := with(requested, annotationLastAppliedDrain, "drain-rendered-2")
	blocked := Drain{Text: "1 pod left: 1 blocked (PodDisruptionBudget shop/web): shop/web-0", Blocked: true}
	for name, test := range map[string]struct {
		annotations map[string]string
		drain       Drain
		ready       bool
		phase       v1alpha1.NodePhase
		delay       Delay
		want        string
	}{
		"not started": {
			map[string]string{annotationState: "Done"}, Drain{}, true, v1alpha1.NodeReleased, DelayNotStarted,
			"the machine-config-operator has not started to update the node; it reports Done",
		},
		"nothing reported": {nil, Drain{}, true, v1alpha1.NodeReleased, DelayNotStarted, "it reports nothing"},
		"working, with a reason": {
			with(working, annotationReason, "image pull"), Drain{}, true, v1alpha1.NodeUpgrading, "",
			"the machine-config-operator reports Working: image pull",
		},
		"drain not observed yet": {draining, Drain{}, true, v1alpha1.NodeUpgrading, "", "reports Working; it drains the node"},
		"drain continues":        {draining, Drain{Text: "2 pods left"}, true, v1alpha1.NodeUpgrading, "", "it drains the node: 2 pods left"},
		"drain blocked":          {draining, blocked, true, v1alpha1.NodeUpgrading, DelayDrain, "it drains the node: " + blocked.Text},
		"drained: the previous observation does not count": {drained, blocked, true, v1alpha1.NodeUpgrading, "", "reports Working"},
		"restarts": {drained, Drain{}, false, v1alpha1.NodeUpgrading, "", "the node is not Ready, as during a restart"},
		"degraded in its drain": {
			with(with(draining, annotationState, "Degraded"), annotationReason, "drain timed out"), blocked, true, v1alpha1.NodeFailed, "",
			"reports Degraded: drain timed out; its drain: " + blocked.Text,
		},
		"a long reason": {
			with(working, annotationReason, strings.Repeat("r", 1<<20)), Drain{}, true, v1alpha1.NodeUpgrading, "", "reports Working: rrr",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRun(t, 1)
			for range 2 {
				g.reconcile()
				g.finishJobs(batchv1.JobComplete)
			}
			g.reconcile() // it is released
			node := g.run.Nodes[0]
			maps.Copy(node.Annotations, test.annotations)
			node.Drain = test.drain
			if test.ready {
				node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
			}
			step := DecideNodes(g.run).Steps[0]
			if step.Status.Phase != test.phase || step.Delay != test.delay || !strings.Contains(step.Status.Message, test.want) {
				t.Errorf("the node is %s, delay %q: %q", step.Status.Phase, step.Delay, step.Status.Message)
			}
			if len(step.Status.Message) > 2*maxReported {
				t.Errorf("the message has %d bytes", len(step.Status.Message))
			}
			g.run.Config.Spec.NodeTimeout = &metav1.Duration{Duration: time.Minute}
			g.run.Now = g.run.Now.Add(time.Hour)
			step = DecideNodes(g.run).Steps[0]
			if step.Status.Phase != v1alpha1.NodeFailed || !strings.Contains(step.Status.Message, test.want) {
				t.Errorf("after its timeout the node is %s: %q", step.Status.Phase, step.Status.Message)
			}
		})
	}
}
