package machines

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/test/harness"
)

// Annotations of MachineSets that are bounded.
const (
	minSize     = "machine.openshift.io/cluster-api-autoscaler-node-group-min-size"
	maxSize     = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size"
	boundsOwner = "autoscaling.openshift.io/machineautoscaler"
)

// newAutoscaler returns a MachineAutoscaler of a MachineSet.
func newAutoscaler(name, target string, from, to int32) *v1beta1.MachineAutoscaler {
	return &v1beta1.MachineAutoscaler{
		ObjectMeta: harness.Meta(name),
		Spec: v1beta1.MachineAutoscalerSpec{
			MinReplicas: from, MaxReplicas: to,
			ScaleTargetRef: v1beta1.CrossVersionObjectReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: target},
		},
	}
}

// eventuallyReady waits until the condition Ready of a MachineAutoscaler has a reason.
func eventuallyReady(w *harness.World, ma *v1beta1.MachineAutoscaler, reason string) {
	w.Helper()
	w.Eventually("MachineAutoscaler "+ma.Name+" is "+reason, func() error {
		if err := w.Client.Get(w.Context(), client.ObjectKeyFromObject(ma), ma); err != nil {
			return err
		}
		if c := meta.FindStatusCondition(ma.Status.Conditions, "Ready"); c == nil || c.Reason != reason {
			return fmt.Errorf("the condition is %+v", c)
		}
		return nil
	})
}

// TestMachineAutoscaler_Bounds: a MachineAutoscaler gives its MachineSet bounds, follows changes, and takes them away when it names another
// MachineSet or is deleted. A second one for the same MachineSet waits until the first is gone.
func TestMachineAutoscaler_Bounds(t *testing.T) {
	w := besideOthers(t)
	web, db := w.MakePool("bounded", 0, nil), w.MakePool("bounded-too", 0, nil)
	first, second := newAutoscaler("first", "bounded", 0, 3), newAutoscaler("second", "bounded", 1, 9)
	for _, ma := range []*v1beta1.MachineAutoscaler{first, second} {
		t.Cleanup(func() { _ = w.Client.Delete(context.Background(), ma) })
	}
	create(w, first)
	eventuallyReady(w, first, "SuccessfulUpdate")
	eventuallyAnnotated(web, map[string]string{minSize: "0", maxSize: "3", boundsOwner: "openshift-machine-api/first"})
	if first.Status.LastTargetRef == nil || first.Status.LastTargetRef.Name != "bounded" || len(first.Finalizers) != 1 {
		t.Errorf("lastTargetRef %+v, finalizers %v", first.Status.LastTargetRef, first.Finalizers)
	}
	create(w, second)
	eventuallyReady(w, second, "FailedSetOwner")
	w.Merge(first, `{"spec":{"maxReplicas":5}}`)
	eventuallyAnnotated(web, map[string]string{maxSize: "5"})

	w.Merge(first, `{"spec":{"scaleTargetRef":{"name":"bounded-too"}}}`)
	eventuallyAnnotated(db, map[string]string{minSize: "0", maxSize: "5", boundsOwner: "openshift-machine-api/first"})
	eventuallyAnnotated(web, map[string]string{minSize: "1", maxSize: "9", boundsOwner: "openshift-machine-api/second"})
	eventuallyReady(w, second, "SuccessfulUpdate")
	for _, ma := range []*v1beta1.MachineAutoscaler{first, second} {
		if err := w.Client.Delete(t.Context(), ma); err != nil {
			t.Fatal(err)
		}
		w.Gone(ma)
	}
	for _, p := range []*harness.Pool{web, db} {
		eventuallyAnnotated(p, map[string]string{minSize: "", maxSize: "", boundsOwner: ""})
	}
}

// TestMachineAutoscaler_Invalid: the API server refuses a minimum above the maximum. A MachineAutoscaler that names no MachineSet reports it, and can
// be deleted.
func TestMachineAutoscaler_Invalid(t *testing.T) {
	w := besideOthers(t)
	err := w.Client.Create(t.Context(), newAutoscaler("crossed", "any", 3, 2))
	if err == nil || !strings.Contains(err.Error(), "max replicas must be greater than or equal to min") {
		t.Errorf("error %v", err)
	}
	err = w.Client.Create(t.Context(), newAutoscaler("long", strings.Repeat("a", 254), 1, 2))
	if err == nil || !strings.Contains(err.Error(), "spec.scaleTargetRef.name") {
		t.Errorf("error %v", err)
	}
	ma := newAutoscaler("unsupported", "any", 1, 2)
	ma.Spec.ScaleTargetRef.Kind = "MachineDeployment"
	create(w, ma)
	eventuallyReady(w, ma, "FailedGetTarget")
	if err := w.Client.Delete(t.Context(), ma); err != nil {
		t.Fatal(err)
	}
	w.Gone(ma)
}

func create(w *harness.World, object client.Object) {
	w.Helper()
	if err := w.Client.Create(w.Context(), object); err != nil {
		w.Fatal(err)
	}
}
