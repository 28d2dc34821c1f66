package plan

import (
	"fmt"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

func setOf(replicas int32) *machinev1beta1.MachineSet {
	set := &machinev1beta1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "machines", Name: "web", UID: "uid-of-web", Generation: 3}}
	set.Spec.Replicas = &replicas
	set.Spec.Selector.MatchLabels = map[string]string{"pool": "web"}
	set.Spec.Template.Labels = map[string]string{"pool": "web", "tier": "front"}
	return set
}

// machineOf is a Machine of the set with a Node of its own name, an hour old.
func machineOf(name string, edits ...func(*machinev1beta1.Machine)) *machinev1beta1.Machine {
	machine := &machinev1beta1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "machines", Name: name, UID: types.UID("uid-of-" + name), Labels: map[string]string{"pool": "web", "tier": "front"},
		CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)), Annotations: map[string]string{},
		OwnerReferences: []metav1.OwnerReference{{Kind: "MachineSet", Name: "web", UID: "uid-of-web", Controller: new(true)}},
	}}
	machine.Status.NodeRef = &corev1.ObjectReference{Name: name}
	for _, edit := range edits {
		edit(machine)
	}
	return machine
}

func nodeOf(name string, ready corev1.ConditionStatus, since time.Time) *corev1.Node {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-of-" + name)}}
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse},
		{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(since)},
	}
	return node
}

// The edits of Machines.
func loose(m *machinev1beta1.Machine)    { m.OwnerReferences = nil }
func noNode(m *machinev1beta1.Machine)   { m.Status.NodeRef = nil }
func relabel(m *machinev1beta1.Machine)  { m.Labels = map[string]string{"pool": "other"} }
func deleting(m *machinev1beta1.Machine) { m.DeletionTimestamp = &metav1.Time{Time: start} }
func migrated(m *machinev1beta1.Machine) {
	m.Status.AuthoritativeAPI = machinev1beta1.MachineAuthorityClusterAPI
}

func inPhase(phase string) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.Status.Phase = &phase }
}

func annotated(key, value string) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.Annotations[key] = value }
}

func ownedBy(uid types.UID) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.OwnerReferences[0].UID = uid }
}

func aged(age time.Duration) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) { m.CreationTimestamp = metav1.NewTime(start.Add(-age)) }
}

func withError(reason machinev1beta1.MachineStatusError, message string) func(*machinev1beta1.Machine) {
	return func(m *machinev1beta1.Machine) {
		if reason != "" {
			m.Status.ErrorReason = &reason
		}
		if message != "" {
			m.Status.ErrorMessage = &message
		}
	}
}

// inputOf has all Nodes of the Machines, ready for an hour.
func inputOf(set *machinev1beta1.MachineSet, machines ...*machinev1beta1.Machine) Input {
	in := Input{Set: set, Machines: machines, Readiness: map[string]*corev1.NodeCondition{}, Now: start}
	for _, machine := range machines {
		if ref := machine.Status.NodeRef; ref != nil {
			in.Readiness[ref.Name] = Readiness(nodeOf(ref.Name, corev1.ConditionTrue, start.Add(-time.Hour)))
		}
	}
	return in
}

func names(machines []*machinev1beta1.Machine) string {
	var out []string
	for _, machine := range machines {
		out = append(out, machine.Name)
	}
	return strings.Join(out, " ")
}

func memberNames(members []Member) string {
	var out []string
	for _, m := range members {
		out = append(out, m.Machine.Name)
	}
	return strings.Join(out, " ")
}

// brief is a decision in a line.
func brief(d Decision) string {
	text := fmt.Sprintf("members [%s]", memberNames(d.Members))
	for _, part := range []struct {
		name     string
		machines []*machinev1beta1.Machine
	}{{"adopt", d.Adopt}, {"release", d.Release}, {"delete", d.Delete}, {"withheld", d.Withheld}} {
		if len(part.machines) > 0 {
			text += fmt.Sprintf(" %s [%s]", part.name, names(part.machines))
		}
	}
	if len(d.CreateFor) > 0 {
		text += fmt.Sprintf(" create %d", len(d.CreateFor))
	}
	if d.Replace != nil {
		text += fmt.Sprintf(" replace %s by attempt %d", d.Replace.Name, d.Attempt)
	}
	if !d.Wake.IsZero() {
		text += fmt.Sprintf(" wake in %s", d.Wake.Sub(start))
	}
	return text
}
