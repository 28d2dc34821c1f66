package compact

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// isSame reports whether two maps take memory once.
func isSame(a, b map[string]string) bool {
	return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer()
}

// TestMaps_InUse: a map that objects still have is shared on, however many others come in between.
func TestMaps_InUse(t *testing.T) {
	var table Maps
	used := map[string]string{"set": "workers"}
	table.Share(used)
	for i := range 10_000 {
		table.Share(map[string]string{"set": fmt.Sprint(i)})
		if !isSame(table.Share(maps.Clone(used)), used) {
			t.Fatalf("it is not shared after %d others", i+1)
		}
	}
}

// TestMachine_Shared: equal labels of two Machines take memory once, others are kept apart, and large ones are not kept.
func TestMachine_Shared(t *testing.T) {
	shared := func(change func(*machinev1beta1.Machine)) bool {
		var all [2]*machinev1beta1.Machine
		for i := range all {
			machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("m", i)}}
			machine.Labels, machine.Spec.Labels = map[string]string{"set": "workers"}, map[string]string{"team": "blue"}
			if i == 1 {
				change(machine)
			}
			before := machine.DeepCopy()
			Machine(machine)
			if !equality.Semantic.DeepEqual(before, machine) {
				t.Errorf("it has become %v", machine)
			}
			all[i] = machine
		}
		return isSame(all[0].Labels, all[1].Labels)
	}
	if !shared(func(*machinev1beta1.Machine) {}) {
		t.Error("equal labels are not shared")
	}
	if shared(func(machine *machinev1beta1.Machine) { machine.Labels["set"] = "others" }) {
		t.Error("different labels are shared")
	}
	many := map[string]string{}
	for i := range maxSharedEntries + 1 {
		many[fmt.Sprint(i)] = ""
	}
	for _, large := range []map[string]string{{"set": strings.Repeat("x", maxSharedMap)}, many} {
		var table Maps
		table.Share(large)
		if isSame(table.Share(maps.Clone(large)), large) {
			t.Error("a large map is kept")
		}
	}
}

// TestBoundedConditions: a kubelet that writes thousands of conditions, or long ones, into the status of its Node does not fill the memory.
func TestBoundedConditions(t *testing.T) {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue}
	long := corev1.NodeCondition{Type: corev1.NodeConditionType(strings.Repeat("x", 1000)), Status: corev1.ConditionTrue}
	if kept := BoundedConditions([]corev1.NodeCondition{long, ready}); len(kept) != 1 || kept[0].Type != corev1.NodeReady {
		t.Errorf("kept %v", kept)
	}
	if kept := BoundedConditions(slices.Repeat([]corev1.NodeCondition{ready}, 20000)); len(kept) != maxConditions {
		t.Errorf("kept %d", len(kept))
	}
	node := &corev1.Node{Status: corev1.NodeStatus{Conditions: slices.Repeat([]corev1.NodeCondition{ready}, 20000)}}
	if Node(node); len(node.Status.Conditions) != maxConditions {
		t.Errorf("a Node keeps %d", len(node.Status.Conditions))
	}
}
