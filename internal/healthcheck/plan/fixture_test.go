package plan

import (
	"fmt"
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/machineapi"
)

// owner is the UID of the MachineSet of all Machines.
const owner = types.UID("uid-of-set")

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newCheck returns a MachineHealthCheck of the pool a: Ready must be True, or not for 5 minutes.
func newCheck(name string, changes ...func(*machinev1beta1.MachineHealthCheck)) *machinev1beta1.MachineHealthCheck {
	created := func(check *machinev1beta1.MachineHealthCheck) { check.CreationTimestamp = metav1.NewTime(start) }
	return builder.MachineHealthCheck("machines", name, map[string]string{"pool": "a"}, slices.Insert(changes, 0, created)...)
}

// newMachine returns a Machine of the pool a, an hour old, which a MachineSet owns.
func newMachine(name, node string) *machinev1beta1.Machine {
	set := builder.MachineSet("machines", "set", 0, builder.WithSelector(map[string]string{"pool": "a"}))
	return builder.Machine("machines", name, builder.WithOwner(set), builder.WithNode(node), func(machine *machinev1beta1.Machine) {
		machine.CreationTimestamp = metav1.NewTime(start.Add(-time.Hour))
		machine.Status.Phase = new(machinev1beta1.PhaseProvisioned)
		if node != "" {
			machine.Status.Phase = new(machinev1beta1.PhaseRunning)
		}
	})
}

// newNode returns a Node whose condition Ready has been so for some time.
func newNode(name string, ready corev1.ConditionStatus, age time.Duration) *corev1.Node {
	return builder.Node(name, builder.WithReadySince(ready, start.Add(-age)))
}

// newTargets returns a target for each letter: w is healthy, u unhealthy for an hour, s for a minute, d being deleted, f in the phase Failed,
// n without a Node for longer than the startup timeout, y without one and young, o without one for a little longer than the startup timeout, F young
// and in the phase Failed, p young with a Node that is not Ready. These have been made in place of others, but g is like y and made for growth.
func newTargets(kinds string) []Target {
	var targets []Target
	for i, kind := range kinds {
		name := fmt.Sprintf("m%d", i)
		t := Target{Machine: newMachine(name, "n-"+name), Node: newNode("n-"+name, corev1.ConditionTrue, time.Hour)}
		made := func(ago time.Duration, of machineapi.CreationReason) {
			t.Machine.CreationTimestamp = metav1.NewTime(start.Add(-ago))
			t.Machine.Annotations = map[string]string{machineapi.CreatedForAnnotation: string(of)}
			if kind != 'p' {
				t.Node, t.Machine.Status.NodeRef = nil, nil
			}
		}
		switch kind {
		case 'u':
			t.Node = newNode(t.Node.Name, corev1.ConditionFalse, time.Hour)
		case 's':
			t.Node = newNode(t.Node.Name, corev1.ConditionFalse, time.Minute)
		case 'd':
			t.Machine.DeletionTimestamp = &metav1.Time{Time: start}
		case 'f':
			t.Machine.Status.Phase = new("Failed")
		case 'n':
			made(time.Hour, machineapi.CreatedForDeleted)
		case 'y':
			made(0, machineapi.CreatedForDeleted)
		case 'g':
			made(0, machineapi.CreatedForGrowth)
		case 'o':
			made(11*time.Minute, machineapi.CreatedForDeleted)
		case 'F':
			made(11*time.Minute, machineapi.CreatedForDeleted)
			t.Machine.Status.Phase = new("Failed")
		case 'p':
			made(0, machineapi.CreatedForDeleted)
			t.Node = newNode(t.Node.Name, corev1.ConditionFalse, time.Minute)
		}
		targets = append(targets, t)
	}
	return targets
}

// summary lists the Machines whose remediation can start, in order, and the blocked Machines with the reasons.
func summary(d *Decision) string {
	var texts []string
	for _, r := range d.Remediations {
		texts = append(texts, r.Machine.Name)
	}
	for _, b := range d.Blocked {
		texts = append(texts, b.Machine.Name+"="+b.Reason)
	}
	return strings.Join(texts, " ")
}
