package plan

import (
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/internal/machineapi"
	"github.com/drover-io/drover/internal/paused"
)

func TestNewMachine(t *testing.T) {
	since := metav1.NewTime(now)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{corev1.LabelTopologyZone: "b"}}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: since}}
	for name, c := range map[string]struct {
		annotations map[string]string
		node        *corev1.Node
		isSelected  bool
		want        Machine
	}{
		"no Node":                      {nil, nil, false, Machine{Zone: "a"}},
		"with a Node":                  {nil, node, true, Machine{Zone: "b", HasNode: true, Ready: true, ReadyChange: now}},
		"its Node is not in the group": {nil, node, false, Machine{Zone: "b", HasNode: true, Ready: true, ReadyChange: now, Skipped: true}},
		"outdated, and being replaced": {
			map[string]string{machineapi.TemplateHashAnnotation: "v1:old", machineapi.ReplacingAnnotation: "true"}, nil, false,
			Machine{Zone: "a", Outdated: true, Replacing: true},
		},
		"paused":                           {map[string]string{paused.Annotation: ""}, nil, false, Machine{Zone: "a", Skipped: true}},
		"excluded":                         {map[string]string{machineapi.SkipReplacementAnnotation: ""}, nil, false, Machine{Zone: "a", Skipped: true}},
		"marked as the next to be deleted": {map[string]string{machineapi.DeleteAnnotation: "true"}, nil, false, Machine{Zone: "a", Marked: true}},
	} {
		t.Run(name, func(t *testing.T) {
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
				Name: "m", Labels: map[string]string{labelZone: "a"}, Annotations: c.annotations,
			}}
			c.want.Name = "m"
			template := machineapi.TemplateOf(&machinev1beta1.MachineSet{})
			if got := NewMachine(template, machine, c.node, func(*corev1.Node) bool { return c.isSelected }); got != c.want {
				t.Errorf("got  %+v\nwant %+v", got, c.want)
			}
		})
	}
}
