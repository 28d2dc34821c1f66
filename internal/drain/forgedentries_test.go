package drain

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// forged makes a Node one whose kubelet has written a record that names taints and labels which protect other workloads from it.
func forged(by string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = append(n.Spec.Taints, cordonTaint, MaintenanceAdditions.Taints[1], OutOfServiceTaint,
			corev1.Taint{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule})
		n.Labels = map[string]string{
			"node-role.kubernetes.io/control-plane": "", "node-restriction.kubernetes.io/tenant": "", LabelExclude: "true", "exclude": "true",
		}
		n.Annotations[AnnotationCordon] = fmt.Sprintf(`{"by":%q,"since":"2020-01-01T00:00:00Z","cordoned":true,
			"taints":["gpu:NoSchedule","kubevirt.io/drain:NoSchedule","node-role.kubernetes.io/control-plane:NoSchedule",
			"node.kubernetes.io/out-of-service:NoExecute","node.kubernetes.io/unschedulable:NoSchedule"],
			"labels":{"node-role.kubernetes.io/control-plane":null,"node-restriction.kubernetes.io/tenant":"payments",
			"remediation.medik8s.io/exclude-from-remediation":null,"exclude":"no label: %%"}}`, by)
	}
}

// Uncordon removes only what Drover adds to a node, whatever the record names.
func TestUncordon_ForgedRecord(t *testing.T) {
	for name, c := range map[string]struct {
		additions Additions
		taints    string
		labels    map[string]string
	}{
		"Machine: the cordon only": {
			Additions{}, "gpu:NoSchedule node.kubernetes.io/out-of-service:NoExecute node-role.kubernetes.io/control-plane:NoSchedule",
			map[string]string{"node-role.kubernetes.io/control-plane": "", "node-restriction.kubernetes.io/tenant": "", "exclude": "true"},
		},
		"maintenance: a label and the taint out-of-service, too": {
			Additions{Taints: []corev1.Taint{OutOfServiceTaint}, Labels: additions.Labels}, "gpu:NoSchedule node-role.kubernetes.io/control-plane:NoSchedule",
			map[string]string{"node-role.kubernetes.io/control-plane": "", "node-restriction.kubernetes.io/tenant": ""},
		},
	} {
		t.Run(name, func(t *testing.T) {
			node := newNode(forged("x/1"))
			record, err := ReadCordonRecord(node)
			if err != nil {
				t.Fatal(err)
			}
			change, err := Uncordon(node, record, c.additions)
			if err != nil {
				t.Fatal(err)
			}
			after, err := patched(t, node, change.Patch)
			if err != nil {
				t.Fatal(err)
			}
			if after.Spec.Unschedulable || taintsOf(after) != c.taints || !reflect.DeepEqual(after.Labels, c.labels) {
				t.Errorf("uncordoned as %+v, labels %v", after.Spec, after.Labels)
			}
		})
	}
}

// The record of another owner is kept as far as it is restorable. Its time starts anew; a deadline counts from it.
func TestCordon_RecordOfAnotherOwner(t *testing.T) {
	node := newNode(forged("x/1"))
	record, err := ReadCordonRecord(node)
	if err != nil {
		t.Fatal(err)
	}
	change, err := Cordon(node, record, Owner{ID: "x/2"}, additions, now)
	if err != nil {
		t.Fatal(err)
	}
	want := "kubevirt.io/drain:NoSchedule medik8s.io/drain:NoSchedule node.kubernetes.io/unschedulable:NoSchedule"
	if got := strings.Join(change.Record.Taints, " "); got != want || !change.Record.CordonedByDrover || !change.Record.Since.Equal(now) {
		t.Errorf("taints %s, since %s, cordoned %t; want taints %s", got, change.Record.Since, change.Record.CordonedByDrover, want)
	}
	if labels := change.Record.Labels; !reflect.DeepEqual(labels, map[string]*string{"exclude": nil, LabelExclude: nil}) {
		t.Errorf("labels %v", labels)
	}
	// The time of its own record stays.
	own, err := Cordon(node, change.Record, Owner{ID: "x/2"}, additions, now.Add(time.Hour))
	if err != nil || !own.Record.Since.Equal(now) {
		t.Errorf("since %s, %v", own.Record.Since, err)
	}
}
