package e2e

import (
	"fmt"
	"math/rand/v2"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/autoscaling/v1beta1"
	"github.com/drover-io/drover/test/harness"
)

// The annotations of a MachineSet that is bounded.
const (
	boundsOwner = "autoscaling.openshift.io/machineautoscaler"
	maxSize     = "machine.openshift.io/cluster-api-autoscaler-node-group-max-size"
)

// TestCrash_MachineAutoscaler kills the operator before and after writes of the life of a MachineAutoscaler, which bounds one MachineSet, then
// another one, and goes. The next operator must come to the same end: no MachineSet has bounds, and both have their capacity.
func TestCrash_MachineAutoscaler(t *testing.T) {
	random := rand.New(rand.NewPCG(harness.Seed(t), 0)) // #nosec G404 -- picks the points to try
	var want string
	var writes int
	t.Run("undisturbed", func(t *testing.T) { want, writes = bounding(t, harness.CrashPoint{}) })
	t.Logf("%d writes undisturbed, and finally\n%s", writes, want)
	if writes < 8 {
		t.Fatal("that is no life of a MachineAutoscaler")
	}
	for _, p := range harness.CrashPoints(t, random, writes) {
		t.Run(p.String(), func(t *testing.T) {
			if got, _ := bounding(t, p); got != want {
				t.Errorf("after the crash there is\n%s\nwithout it there was\n%s", got, want)
			}
		})
	}
}

// bounding goes through the life of a MachineAutoscaler under a disturbance. It returns the annotations that are left, and how many writes that took.
func bounding(t *testing.T, d harness.Disturbance) (left string, writes int) {
	t.Helper()
	installMachines(t)
	w := harness.NewWorld(t, env)
	first, second := w.MakePool("bound-"+d.String(), 0, nil), w.MakePool("bound-too-"+d.String(), 0, nil)
	f := &fleet{Pool: first, mark: w.AuditMark(), disturbance: d}
	ma := &v1beta1.MachineAutoscaler{ObjectMeta: harness.Meta(first.Name), Spec: v1beta1.MachineAutoscalerSpec{
		MaxReplicas:    3,
		ScaleTargetRef: v1beta1.CrossVersionObjectReference{APIVersion: "machine.openshift.io/v1beta1", Kind: "MachineSet", Name: first.Name},
	}}
	f.CreateWithCleanup(ma)
	f.operator = harness.Start(t, env, d.Operator(1, harness.Options{Args: []string{"--controllers=machines,autoscaling"}}))
	f.untilBounded(ma, first, second)
	f.Merge(ma, `{"spec":{"scaleTargetRef":{"name":"`+second.Name+`"}}}`)
	f.untilBounded(ma, second, first)
	if err := f.Client.Delete(t.Context(), ma); err != nil {
		t.Fatal(err)
	}
	f.Eventually("the MachineAutoscaler is gone", func() error {
		f.revive()
		if err := f.Client.Get(t.Context(), client.ObjectKeyFromObject(ma), ma); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is there: %w", err)
		}
		return nil
	})
	d.Wait()
	_, writes = f.count()
	if err := f.operator.Stop(); err != nil {
		t.Fatal(err)
	}
	return harness.JSON(first.Set().Annotations) + "\n" + harness.JSON(second.Set().Annotations), writes
}

// untilBounded waits until a MachineAutoscaler bounds one MachineSet and not the other, has its finalizer and says so, and both have their capacity.
func (f *fleet) untilBounded(ma *v1beta1.MachineAutoscaler, bounded, free *harness.Pool) {
	f.Helper()
	f.Eventually("MachineSet "+bounded.Name+" is bounded", func() error {
		f.revive()
		if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(ma), ma); err != nil {
			return err
		}
		has, other := bounded.Set().Annotations, free.Set().Annotations
		switch {
		case has[maxSize] != "3", has[boundsOwner] != ma.Namespace+"/"+ma.Name, other[maxSize] != "", other[boundsOwner] != "":
			return fmt.Errorf("annotations %v and %v", has, other)
		case has["drover.dev/capacity"] == "", other["drover.dev/capacity"] == "":
			return fmt.Errorf("no capacity: %v and %v", has, other)
		case len(ma.Finalizers) != 1, ma.Status.LastTargetRef == nil, ma.Status.LastTargetRef.Name != bounded.Name:
			return fmt.Errorf("finalizers %v, status %+v", ma.Finalizers, ma.Status)
		}
		return nil
	})
}
