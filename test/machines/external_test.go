package machines

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/internal/config"
	"github.com/drover-io/drover/test/cluster"
	"github.com/drover-io/drover/test/harness"
)

// TestHealthCheck_ExternalRemediation: with the shipped permissions and the default configuration, Drover hands Machines over to the operators of
// medik8s and metal3, and ends that when they are healthy again, also where an earlier version or machine-api-operator has created the request.
func TestHealthCheck_ExternalRemediation(t *testing.T) {
	w := besideOthers(t)
	kinds := config.Default().Machines.Remediation.TemplateKinds
	p := w.MakePool("external", int32(len(kinds)), nil) //nolint:gosec // there are four
	machines := p.Runs(len(kinds))
	for i, text := range kinds {
		if err := harness.InstallRemediation(t.Context(), env, text, "Namespaced"); err != nil {
			t.Fatal(err)
		}
		kind := schema.ParseGroupKind(text).WithVersion("v1")
		handOver(w, kind, &machines[i])
		request := requested(w, kind, &machines[i])
		if i%2 == 1 {
			// So earlier versions have created it.
			w.Merge(request, `{"metadata":{"annotations":{"drover.dev/remediation-for":null}}}`)
		}
		w.Eventually("Node "+machines[i].Status.NodeRef.Name+" is healthy again", func() error {
			node := w.Node(machines[i].Status.NodeRef.Name)
			node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == unhealthy })
			return w.Client.Status().Update(t.Context(), node)
		})
		w.Gone(request)
		if machine := w.Machine(machines[i].Name); machine.UID != machines[i].UID || machine.DeletionTimestamp != nil {
			t.Errorf("Machine %s was deleted", machine.Name)
		}
	}
}

// TestHealthCheck_ExternalTakesItsPlace: while the request for a Machine exists, whose Node is Ready all the time, no second remediation begins,
// however long ago the first one was admitted, and whichever operator looks at it.
func TestHealthCheck_ExternalTakesItsPlace(t *testing.T) {
	w, operator := world(t)
	group := boundOf("handed-over")
	group.Spec.Disruption.MaxUnavailable, group.Spec.Disruption.Remediation.MaxInFlight = new(intstr.FromInt32(1)), new(intstr.FromInt32(1))
	w.CreateWithCleanup(group)
	machines := w.MakePool(group.Name, 3, nil).Runs(3)
	var kinds []schema.GroupVersionKind
	for _, text := range config.Default().Machines.Remediation.TemplateKinds[:2] {
		if err := harness.InstallRemediation(t.Context(), env, text, "Namespaced"); err != nil {
			t.Fatal(err)
		}
		kinds = append(kinds, schema.ParseGroupKind(text).WithVersion("v1"))
	}
	handOver(w, kinds[0], &machines[0])
	request := requested(w, kinds[0], &machines[0])
	// As a minute later.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"admissions":null}}`))
	if err := w.Client.Status().Patch(t.Context(), group, patch); err != nil {
		t.Fatal(err)
	}
	handOver(w, kinds[1], &machines[1])
	waits := func(what string) {
		t.Helper()
		check := &machinev1beta1.MachineHealthCheck{ObjectMeta: harness.Meta("external-" + strings.ToLower(kinds[1].Kind))}
		w.Eventually(what+" the second one waits", func() error {
			if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(check), check); err != nil {
				return err
			}
			if !slices.ContainsFunc(check.Status.Conditions, func(c machinev1beta1.Condition) bool {
				return c.Reason == "WaitingForBudget" && strings.Contains(c.Message, "1 remediations are in flight, and maxInFlight is 1")
			}) {
				return fmt.Errorf("the conditions are %s", harness.JSON(check.Status.Conditions))
			}
			return nil
		})
	}
	waits("while the first request exists")
	if err := operator.Kill(); err != nil {
		t.Fatal(err)
	}
	check := &machinev1beta1.MachineHealthCheck{ObjectMeta: harness.Meta("external-" + strings.ToLower(kinds[1].Kind))}
	if err := w.Client.Status().Patch(t.Context(), check, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":null}}`))); err != nil {
		t.Fatal(err)
	}
	w.Operator(harness.Options{Args: []string{"--controllers=*"}})
	waits("with the next operator")
	w.Eventually("the group says who is disrupted", func() error {
		if err := w.Client.Get(t.Context(), client.ObjectKeyFromObject(group), group); err != nil {
			return err
		}
		of := group.Status.Reservations
		if len(of) != 1 || of[0].Node != machines[0].Status.NodeRef.Name || of[0].ObjectUID != machines[0].UID {
			return fmt.Errorf("the reservations are %s", harness.JSON(of))
		}
		return nil
	})
	w.Eventually("the first Node is healthy again", func() error {
		node := w.Node(machines[0].Status.NodeRef.Name)
		node.Status.Conditions = slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == unhealthy })
		return w.Client.Status().Update(t.Context(), node)
	})
	w.Gone(request)
	requested(w, kinds[1], &machines[1])
}

// handOver makes a Machine unhealthy that a MachineHealthCheck of its own remediates by a template.
func handOver(w *harness.World, kind schema.GroupVersionKind, machine *machinev1beta1.Machine) {
	w.Helper()
	template := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{
		"spec": map[string]any{"strategy": "reboot"},
	}}}}
	template.SetGroupVersionKind(kind)
	template.SetNamespace(cluster.MachineNamespace)
	template.SetName("reboot")
	w.CreateWithCleanup(template)
	w.Merge(machine.DeepCopy(), `{"metadata":{"labels":{"external":"`+strings.ToLower(kind.Kind)+`"}}}`)
	w.CreateWithCleanup(&machinev1beta1.MachineHealthCheck{
		ObjectMeta: harness.Meta("external-" + strings.ToLower(kind.Kind)),
		Spec: machinev1beta1.MachineHealthCheckSpec{
			Selector:     metav1.LabelSelector{MatchLabels: map[string]string{"external": strings.ToLower(kind.Kind)}},
			MaxUnhealthy: new(intstr.FromInt32(1)),
			UnhealthyConditions: []machinev1beta1.UnhealthyCondition{
				{Type: unhealthy, Status: corev1.ConditionTrue, Timeout: metav1.Duration{}},
			},
			RemediationTemplate: &corev1.ObjectReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: template.GetName()},
		},
	})
	makeUnhealthy(w, machine)
}

// requested waits until there is a request for a Machine, and returns it.
func requested(w *harness.World, template schema.GroupVersionKind, machine *machinev1beta1.Machine) *unstructured.Unstructured {
	w.Helper()
	request := &unstructured.Unstructured{}
	request.SetGroupVersionKind(template.GroupVersion().WithKind(strings.TrimSuffix(template.Kind, "Template")))
	request.SetNamespace(machine.Namespace)
	request.SetName(machine.Name)
	w.Eventually(fmt.Sprintf("there is a %s for Machine %s", request.GetKind(), machine.Name), func() error {
		err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(request), request)
		if apierrors.IsNotFound(err) {
			return errors.New("there is none")
		}
		return err
	})
	strategy, _, err := unstructured.NestedString(request.Object, "spec", "strategy")
	if owners := request.GetOwnerReferences(); err != nil || strategy != "reboot" || len(owners) != 1 || owners[0].UID != machine.UID ||
		request.GetAnnotations()["drover.dev/remediation-for"] != string(machine.UID) {
		w.Errorf("the request is %s", harness.JSON(request.Object))
	}
	return request
}
