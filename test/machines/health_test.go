package machines

import (
	"fmt"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// unhealthy is a condition that only these tests set, as the suite of machine-api-operator does.
const unhealthy = "MachineHealthCheckE2E"

func check(w *harness.World, p *harness.Pool, maxUnhealthy intstr.IntOrString) *machinev1beta1.MachineHealthCheck {
	w.Helper()
	object := &machinev1beta1.MachineHealthCheck{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster.MachineNamespace, Name: p.Name},
		Spec: machinev1beta1.MachineHealthCheckSpec{
			Selector:     metav1.LabelSelector{MatchLabels: map[string]string{cluster.MachineSetLabel: p.Name}},
			MaxUnhealthy: &maxUnhealthy,
			UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
				{Type: unhealthy, Status: corev1.ConditionTrue, Timeout: metav1.Duration{}},
			},
		},
	}
	w.CreateWithCleanup(object)
	return object
}

// makeUnhealthy sets the condition on the Node of a Machine.
func makeUnhealthy(w *harness.World, machine *machinev1beta1.Machine) {
	w.Helper()
	w.Eventually("the condition of Node "+machine.Status.NodeRef.Name, func() error {
		node := w.Node(machine.Status.NodeRef.Name)
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
			Type: unhealthy, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
		})
		return w.Client.Status().Update(w.Context(), node)
	})
}

// TestHealthCheck_UnhealthyMachineReplaced is "should remediate unhealthy nodes" of machine-api-operator's suite.
func TestHealthCheck_UnhealthyMachineReplaced(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("healed", 2, nil)
	machines := p.Runs(2)
	check(w, p, intstr.FromInt32(1))
	makeUnhealthy(w, &machines[0])
	p.Gone(machines[0].Name)
	for _, machine := range p.Runs(2) {
		if machine.Name == machines[0].Name {
			t.Error("the unhealthy one is there")
		}
	}
	if w.Machine(machines[1].Name).UID != machines[1].UID {
		t.Error("the healthy one was replaced, too")
	}
	w.Eventually("the event", func() error {
		if events := w.Events("Machine", machines[0].Name); len(events["MachineDeleted"]) != 1 {
			return fmt.Errorf("there are %v", events)
		}
		return nil
	})
}

func TestHealthCheck_MachineWithoutNodeReplaced(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("lost", 2, nil)
	machines := p.Runs(2)
	check(w, p, intstr.FromInt32(1))
	if err := w.Client.Delete(t.Context(), w.Node(machines[0].Status.NodeRef.Name)); err != nil {
		t.Fatal(err)
	}
	p.Gone(machines[0].Name)
	p.Runs(2)
}

// TestHealthCheck_MaxUnhealthyExceeded is "should not remediate larger number of unhealthy machines then maxUnhealthy".
func TestHealthCheck_MaxUnhealthyExceeded(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("crowd", 2, nil)
	machines := p.Runs(2)
	for i := range machines {
		makeUnhealthy(w, &machines[i])
	}
	// Nothing is remediated before the operator has seen that both are unhealthy: one alone is within the limit.
	object := check(w, p, intstr.FromInt32(0))
	restricted := func() error {
		if err := w.Client.Get(t.Context(), types.NamespacedName{Namespace: object.Namespace, Name: object.Name}, object); err != nil {
			return err
		}
		found := status.MachineCondition(object.Status.Conditions, machinev1beta1.RemediationAllowedCondition)
		if found == nil || found.Reason != "TooManyUnhealthy" || found.Status != corev1.ConditionFalse || ptr.Deref(object.Status.CurrentHealthy, 2) != 0 {
			return fmt.Errorf("the status is %s", harness.JSON(object.Status))
		}
		return nil
	}
	w.Eventually("both are seen", restricted)
	w.AwaitEvent("MachineHealthCheck", p.Name, "RemediationRestricted", "")
	if err := w.Client.Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"maxUnhealthy":1}}`))); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the condition with the limit", func() error {
		if err := restricted(); err != nil {
			return err
		}
		found := status.MachineCondition(object.Status.Conditions, machinev1beta1.RemediationAllowedCondition)
		if !strings.Contains(found.Message, "maxUnhealthy: 1") {
			return fmt.Errorf("the message is %q", found.Message)
		}
		return nil
	})
	mark := w.AuditMark()
	w.MakePool("crowd-meanwhile", 1, nil).Runs(1)
	for _, write := range w.Writes(mark) {
		if write.Name == machines[0].Name || write.Name == machines[1].Name {
			t.Errorf("over the limit: %s %s %s", write.Verb, write.Resource, write.Name)
		}
	}
	for _, machine := range p.Runs(2) {
		if machine.UID != machines[0].UID && machine.UID != machines[1].UID {
			t.Errorf("machine %s is new", machine.Name)
		}
	}
}
