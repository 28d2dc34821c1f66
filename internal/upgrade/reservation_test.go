package upgrade

import (
	"strings"
	"testing"
	"time"

	mcfgv1 "github.com/openshift/api/machineconfiguration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// TestReconcile_ReservationOfOtherRun: a reservation is waited for while its run exists, and inherited after that.
func TestReconcile_ReservationOfOtherRun(t *testing.T) {
	objects := newObjects()
	other := &v1alpha1.MutexRunConfig{ObjectMeta: named("other")}
	before := newFixture(t, objects...).snapshot()
	for _, object := range objects {
		if p, ok := object.(*mcfgv1.MachineConfigPool); ok && p.Name == "infra" {
			reservation := plan.Reserve(p, types.NamespacedName{Namespace: "numo", Name: "other"}, other.UID).WithKeys([]string{plan.LabelPrefix + "old.numo"})
			metav1.SetMetaDataAnnotation(&p.ObjectMeta, plan.AnnotationReservation, reservation.Text())
			p.Spec.NodeSelector, p.Spec.Paused = reservation.Gated().NodeSelector, true
		}
	}
	f := newFixture(t, append(objects, other)...)
	f.reconcileTimes(5)
	if run := f.run(); run.Status.Phase != v1alpha1.PhaseClaimed || !strings.Contains(run.Status.Message, "numo/other") {
		t.Errorf("the run is %s: %s", run.Status.Phase, run.Status.Message)
	}
	f.must(f.client.Delete(t.Context(), other))
	f.reconcileToRest(v1alpha1.PhaseDone)
	f.expectState(before)
	update(f, builder.MachineConfigPool("infra", nil), func(p *mcfgv1.MachineConfigPool) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, plan.AnnotationReservation, "?")
	})
	f.must(f.reconcile())
	if run := f.run(); run.Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("with an invalid reservation the run is %s", run.Status.Phase)
	}
}

// TestReconcile_ReservationInvalid: nothing is restored until a user has corrected the reservation, because nodes would leave the MachineConfigPool.
func TestReconcile_ReservationInvalid(t *testing.T) {
	for _, how := range []string{"suspend", "delete"} {
		f := newFixture(t, newObjects()...)
		before := f.snapshot()
		f.reconcileUntil(func() bool { return len(f.created) > 0 })
		infra := builder.MachineConfigPool("infra", nil)
		f.must(f.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
		reservation := infra.Annotations[plan.AnnotationReservation]
		infra.Annotations[plan.AnnotationReservation] = "?"
		f.must(f.client.Update(t.Context(), infra))
		invalid := f.snapshot()
		if how == "suspend" {
			update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true })
		} else {
			f.must(f.client.Delete(t.Context(), f.run()))
		}
		f.reconcileTimes(5)
		message := "infra: annotation " + plan.AnnotationReservation
		if run := f.run(); run.Status.Phase == v1alpha1.PhaseSuspended || !strings.Contains(run.Status.Message, message) {
			t.Errorf("%s: the run is %s: %s", how, run.Status.Phase, run.Status.Message)
		}
		f.expectState(invalid, how)
		f.must(f.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
		infra.Annotations[plan.AnnotationReservation] = reservation
		f.must(f.client.Update(t.Context(), infra))
		f.reconcileTimes(20)
		f.expectState(before, how)
		run := &v1alpha1.MutexRunConfig{}
		err := f.client.Get(t.Context(), types.NamespacedName{Namespace: "numo", Name: "run"}, run)
		if gone := client.IgnoreNotFound(err) == nil && err != nil; gone != (how == "delete") || !gone && run.Status.Phase != v1alpha1.PhaseSuspended {
			t.Errorf("%s: it is %s (%v)", how, run.Status.Phase, err)
		}
	}
}

// TestReconcile_TargetRemoved removes a target from the run after one of its nodes was released.
func TestReconcile_TargetRemoved(t *testing.T) {
	objects := append(newObjects(), builder.MachineConfigPool("other", byRole("other")),
		&v1alpha1.MutexTarget{ObjectMeta: named("second"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"other"}}})
	f := newFixture(t, objects...)
	before := f.snapshot()
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) {
		run.Spec.MutexTargets = append(run.Spec.MutexTargets, v1alpha1.Reference{Name: "second"})
	})
	f.reconcileUntil(func() bool { return plan.ReleaseOf(f.getNode("n1")) != nil })
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.MutexTargets = run.Spec.MutexTargets[1:] })
	f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
	f.afterWrite = func() { f.expectOneMCP(3) }
	f.reconcileTimes(20)
	infra := builder.MachineConfigPool("infra", nil)
	f.must(f.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra))
	if infra.Spec.Paused || infra.Annotations[plan.AnnotationReservation] != "" || f.getNode("n1").Labels[plan.LabelRun] != "" {
		t.Errorf("the MachineConfigPool is %+v %v, the node has %v", infra.Spec, infra.Annotations, f.getNode("n1").Labels)
	}
	f.reconcileToRest(v1alpha1.PhaseDone)
	f.expectState(before)
}

// TestReconcile_NodeJoinsInvalidRun: nodes that join a target or the canary of an invalid run are labeled.
func TestReconcile_NodeJoinsInvalidRun(t *testing.T) {
	f := newFixture(t, newObjects()...)
	before := f.snapshot()
	f.reconcileUntil(func() bool { return len(f.created) > 0 })
	f.must(f.client.Delete(t.Context(), &v1alpha1.MutexTarget{ObjectMeta: named("target")}))
	own := newNode("n4", "other")
	own.Labels["isCanary"] = ""
	for _, n := range []*corev1.Node{newNode("n3", "infra"), own} {
		f.must(f.client.Create(t.Context(), n))
	}
	f.must(f.reconcile())
	f.must(f.reconcile())
	if f.run().Status.Phase != v1alpha1.PhaseInvalid {
		t.Errorf("it is %s", f.run().Status.Phase)
	}
	f.expectOneMCP(4)
	f.must(f.client.Delete(t.Context(), f.run()))
	f.reconcileTimes(30)
	for _, name := range []string{"n3", "n4"} {
		f.must(f.client.Delete(t.Context(), f.getNode(name)))
	}
	f.expectState(before)
}

// TestReconcile_DryRunDuringRun: no other node is started, and those in progress continue.
func TestReconcile_DryRunDuringRun(t *testing.T) {
	f := newFixture(t, newObjects()...)
	f.reconcileUntil(func() bool { return plan.ReleaseOf(f.getNode("n1")) != nil })
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = true })
	for range 20 {
		f.must(f.reconcile())
		f.clock.SetTime(f.clock.Now().Add(2 * time.Second))
		f.simulate()
	}
	run := f.run()
	if run.Status.Phase != v1alpha1.PhaseWaiting || run.Status.Done != 1 || len(f.created) != 3 || !strings.Contains(run.Status.Message, "dryRun") {
		t.Errorf("it is %s, %d done: %s; the Jobs %v", run.Status.Phase, run.Status.Done, run.Status.Message, f.created)
	}
	update(f, f.run(), func(run *v1alpha1.MutexRunConfig) { run.Spec.DryRun = false })
	f.reconcileToRest(v1alpha1.PhaseDone)
}
