package machineconfig

import (
	"fmt"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/test/openshift"
)

// start is when the tests of decisions begin.
var start = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// newNode makes a Node that runs a configuration, with roles.
func newNode(name, config string, roles ...string) *corev1.Node {
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{},
			Annotations: map[string]string{
				openshift.AnnotationCurrentConfig: config, openshift.AnnotationDesiredConfig: config, openshift.AnnotationState: openshift.StateDone,
			},
		},
		Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	}
	for _, role := range roles {
		node.Labels[openshift.NodeRoleLabel(role)] = ""
	}
	return node
}

// nodesOf makes nodes a-0, a-1 and so on.
func nodesOf(name, config string, count int) []*corev1.Node {
	var nodes []*corev1.Node
	for i := range count {
		nodes = append(nodes, newNode(fmt.Sprintf("%s-%d", name, i), config))
	}
	return nodes
}

// with changes a Node.
func with(node *corev1.Node, change func(*corev1.Node)) *corev1.Node {
	change(node)
	return node
}

// updating makes a Node an update has begun with.
func updating(to string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		node.Annotations[openshift.AnnotationDesiredConfig], node.Annotations[openshift.AnnotationState] = to, openshift.StateWorking
		node.Spec.Unschedulable = true
	}
}

// failed makes a Node that failed on its way to a configuration.
func failed(to string) func(*corev1.Node) {
	return func(node *corev1.Node) {
		updating(to)(node)
		node.Annotations[openshift.AnnotationState], node.Annotations[openshift.AnnotationReason] = openshift.StateDegraded, "disk full"
	}
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }

func notReady(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionFalse }

func names(nodes []*corev1.Node) string {
	text := ""
	for _, node := range nodes {
		text += node.Name + " "
	}
	return text
}

// pools makes pools of roles.
func pools(roles ...string) []*mcfgv1.MachineConfigPool {
	var made []*mcfgv1.MachineConfigPool
	for _, role := range roles {
		made = append(made, openshift.NewPool(role))
	}
	return made
}

func render(t *testing.T, pool *mcfgv1.MachineConfigPool, version string, configs ...*mcfgv1.MachineConfig) *mcfgv1.MachineConfig {
	t.Helper()
	rendered, err := Render(pool, configs, version)
	if err != nil {
		t.Fatal(err)
	}
	return rendered
}
