package machines

import (
	"fmt"
	"strings"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/provider/kwok"
	"github.com/drover-io/drover/test/harness"
)

func TestMachineSet_CreateScaleDelete(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("scaled", 3, func(set *machinev1beta1.MachineSet, _ *kwok.ProviderSpec) {
		set.Spec.Template.Spec.Labels = map[string]string{"example.com/team": "blue"}
		set.Spec.Template.Spec.Taints = []corev1.Taint{{Key: "example.com/dedicated", Value: "blue", Effect: corev1.TaintEffectPreferNoSchedule}}
	})
	first := p.Runs(3)
	for _, machine := range first {
		w.Eventually("the pool's label on Node "+machine.Name, func() error {
			node := w.Node(machine.Status.NodeRef.Name)
			if node.Labels["example.com/team"] != "blue" || len(node.Spec.Taints) == 0 {
				return fmt.Errorf("it has %v and %v", node.Labels, node.Spec.Taints)
			}
			return nil
		})
	}
	p.Scale(6)
	p.Runs(6)
	// The autoscaler marks the Machine to delete with this annotation.
	chosen := first[1].Name
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"machine.openshift.io/delete-machine":"true"}}}`))
	if err := w.Client.Patch(t.Context(), w.Machine(chosen), patch); err != nil {
		t.Fatal(err)
	}
	p.Scale(5)
	p.Gone(chosen)
	p.Runs(5)
	p.Scale(0)
	p.Runs(0)
}

func TestMachine_DeletedIsReplaced(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("replaced", 2, nil)
	before := p.Runs(2)
	p.DeleteMachine(before[0].Name)
	p.Gone(before[0].Name)
	for _, machine := range p.Runs(2) {
		if machine.Name == before[0].Name {
			t.Errorf("machine %s came back", machine.Name)
		}
		want := "deleted/" + string(before[0].UID)
		if machine.Name == before[1].Name {
			want = "growth"
		}
		if got := machine.Annotations["drover.dev/created-for"]; got != want {
			t.Errorf("machine %s was created for %q, want %q", machine.Name, got, want)
		}
	}
}

func TestMachineSet_StatusFollowsNodes(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("flips", 2, nil)
	machines := p.Runs(2)
	node := w.Node(machines[0].Status.NodeRef.Name)
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"sandbox.drover.io/ready":"false"}}}`))
	if err := w.Client.Patch(t.Context(), node, patch); err != nil {
		t.Fatal(err)
	}
	var turned time.Time
	w.Eventually("the status follows", func() error {
		if turned.IsZero() && !harness.NodeReady(w.Node(node.Name)) {
			turned = time.Now()
		}
		if status := p.Set().Status; status.ReadyReplicas != 1 || status.AvailableReplicas != 1 || status.Replicas != 2 {
			return fmt.Errorf("it is %s", harness.JSON(status))
		}
		return nil
	})
	t.Logf("the MachineSet's status followed the Node within %s", time.Since(turned).Round(time.Millisecond))
}

func TestMachineSet_WritesNothingAtRest(t *testing.T) {
	w := besideOthers(t)
	p := w.MakePool("rests", 4, nil)
	p.Runs(4)
	// What another pool does comes after all that this one has to write.
	w.MakePool("rests-meanwhile", 1, nil).Runs(1)
	mark := w.AuditMark()
	other := w.MakePool("rests-later", 1, nil)
	other.Runs(1)
	for _, write := range w.Writes(mark) {
		if strings.HasPrefix(write.Name, "rests-") && !strings.HasPrefix(write.Name, "rests-later") || write.Name == "rests" {
			t.Errorf("at rest: %s %s/%s %s", write.Verb, write.Resource, write.Subresource, write.Name)
		}
	}
}
