package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/maintenance/plan"
	"github.com/drover-io/drover/internal/nodestate"
	"github.com/drover-io/drover/test/harness"
)

// controlPlane creates control-plane nodes: r is a ready node, n a node that is not ready. Some have one control-plane label, some the other.
func (w *webhookWorld) controlPlane(prefix, states string) []string {
	w.Helper()
	names := make([]string, len(states))
	for i, state := range states {
		names[i] = fmt.Sprintf("%s-%d", prefix, i)
		ready, labels := corev1.ConditionTrue, []string{nodestate.LabelControlPlane}
		if state == 'n' {
			ready = corev1.ConditionFalse
		}
		if i%2 == 1 {
			labels = []string{nodestate.LabelMaster}
		}
		w.node(names[i], ready, labels...)
	}
	return names
}

// tries is what the webhook says of a NodeMaintenance that no controller acts on.
func (w *webhookWorld) tries(object client.Object) error {
	return w.Client.Create(w.Context(), object, client.DryRunAll)
}

func TestQuorum_ControlPlane(t *testing.T) {
	guarded(t, harness.Options{})
	for _, c := range []struct {
		states string
		first  string // what the refusal of the first node says; empty for none
	}{
		{"r", "without node %s, 0 of 1 control-plane nodes would be ready, and 1 are needed"},
		{"n", ""},
		{"rr", "without node %s, 1 of 2 control-plane nodes would be ready, and 2 are needed"},
		{"nr", ""},
		{"rrr", ""},
		{"rrn", "without node %s, 1 of 3 control-plane nodes would be ready, and 2 are needed"},
		{"nrr", ""},
		{"rrrr", ""},
		{"rrrn", "without node %s, 2 of 4 control-plane nodes would be ready, and 3 are needed"},
		{"rrrrr", ""},
		{"rrrrn", ""},
		{"rrrnn", "without node %s, 2 of 5 control-plane nodes would be ready, and 3 are needed"},
	} {
		t.Run(c.states, func(t *testing.T) {
			w := newWebhookWorld(t)
			nodes := w.controlPlane("cp-"+c.states, c.states)
			w.node("worker", corev1.ConditionTrue, "node-role.kubernetes.io/worker")
			for _, object := range both("first", nodes[0]) {
				err := w.tries(object)
				switch {
				case c.first != "":
					w.denied(err, quorumText(object, nodes[0])+": "+fmt.Sprintf(c.first, nodes[0]))
				case err != nil:
					t.Error(err)
				}
			}
			if err := w.tries(medik8sOf("worker", "worker")); err != nil {
				t.Errorf("a worker is none of that: %v", err)
			}
		})
	}
}

func TestQuorum_OneAfterAnother(t *testing.T) {
	w := guarded(t, harness.Options{})
	nodes := w.controlPlane("turn", "rrn")
	// A node that is not ready may enter maintenance, but it counts as unavailable.
	first := kubevirtOf("turn", nodes[2])
	if err := w.create(first); err != nil {
		t.Fatal(err)
	}
	w.inMaintenance(nodes[2])
	for _, object := range both("second", nodes[0]) {
		reason := "node " + nodes[0] + " has to wait until control-plane node " + nodes[2] + " is out of maintenance"
		w.denied(w.create(object), quorumText(object, nodes[0])+": "+reason)
	}
	// What is tried only needs no quorum.
	dry := medik8sOf("dry", nodes[0])
	dry.Spec.Drain = &medik8s.DrainSpec{DryRun: true}
	if err := w.create(dry); err != nil {
		t.Error(err)
	}
	if err := w.Client.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	w.Gone(first)
	if err := w.create(medik8sOf("third", nodes[2])); err != nil {
		t.Error(err)
	}
}

// Whatever passes the webhooks of several replicas at once, or comes without one, meets the guard again.
func TestQuorum_Controller(t *testing.T) {
	w := newWebhookWorld(t)
	nodes := w.controlPlane("crowd", "rrrrr")
	objects := make([]*medik8s.NodeMaintenance, len(nodes))
	for i, node := range nodes {
		objects[i] = medik8sOf("crowd-"+node, node)
		if err := w.create(objects[i]); err != nil {
			t.Fatal(err)
		}
	}
	w.Operator(harness.Options{})
	cordoned, waiting := 0, 0
	for i, object := range objects {
		w.Eventually("a decision on "+nodes[i], func() error {
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			condition := meta.FindStatusCondition(object.Status.Conditions, plan.ConditionCordoned)
			switch {
			case condition == nil:
				return fmt.Errorf("there is no condition")
			case condition.Reason == "ControlPlaneQuorum":
				waiting++
			case condition.Reason == "Cordoned":
				cordoned++
			default:
				return fmt.Errorf("the condition is %+v", condition)
			}
			return nil
		})
	}
	if cordoned != 1 || waiting != len(nodes)-1 {
		t.Errorf("%d nodes are in maintenance, %d wait", cordoned, waiting)
	}
}

func TestQuorum_GuardDisabled(t *testing.T) {
	w := guarded(t, harness.Options{Args: []string{"--maintenance-control-plane-guard=Off"}})
	nodes := w.controlPlane("off", "r")
	if err := w.create(medik8sOf("off", nodes[0])); err != nil {
		t.Fatal(err)
	}
	w.inMaintenance(nodes[0])
}
