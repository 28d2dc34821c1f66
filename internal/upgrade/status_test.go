package upgrade

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/apitest/builder"
)

// maxObject is what etcd takes of one object, by default.
const maxObject = 1_500_000

func longName(i int) string { return fmt.Sprintf("%0253d", i) }

// TestTargetStatus_Bounded has 5,000 nodes in the MachineConfigPool of a MutexTarget.
func TestTargetStatus_Bounded(t *testing.T) {
	objects := []client.Object{
		builder.MachineConfigPool("infra", byRole("infra")),
		&v1alpha1.MutexTarget{ObjectMeta: named("target"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
	}
	for i := range 5000 {
		labels := map[string]string{"node-role.kubernetes.io/infra": ""}
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: longName(i), Labels: labels}})
	}
	f := newFixture(t, objects...)
	key := types.NamespacedName{Namespace: "numo", Name: "target"}
	if _, err := (&targetReconciler{f.Reconciler}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	target := &v1alpha1.MutexTarget{}
	f.must(f.client.Get(t.Context(), key, target))
	if len(target.Status.Nodes) != maxTargetNodes || target.Status.OmittedNodes != 5000-maxTargetNodes {
		t.Errorf("%d nodes are named, %d omitted", len(target.Status.Nodes), target.Status.OmittedNodes)
	}
	if text, err := json.Marshal(target); err != nil || len(text) > maxObject/2 {
		t.Errorf("the object has %d bytes (%v)", len(text), err)
	}
}

// TestStatus_SuspendedListsOnlyDoneNodes: no node of a suspended or aborted run is in progress.
func TestStatus_SuspendedListsOnlyDoneNodes(t *testing.T) {
	for phase, stop := range map[v1alpha1.Phase]func(*v1alpha1.MutexRunConfig){
		v1alpha1.PhaseSuspended: func(run *v1alpha1.MutexRunConfig) { run.Spec.Suspend = true },
		v1alpha1.PhaseAborted:   func(run *v1alpha1.MutexRunConfig) { run.Spec.Abort = true },
	} {
		f := newHalfDone(t)
		f.fails = func(*batchv1.Job) bool { return true }
		f.simulate()
		f.reconcileUntil(func() bool { return f.run().Status.Phase == v1alpha1.PhaseStopped })
		if f.run().Status.Failed != 1 || f.countSeries("drover_upgrade_nodes") != 2 {
			t.Errorf("%d have failed; there are %d series", f.run().Status.Failed, f.countSeries("drover_upgrade_nodes"))
		}
		update(f, f.run(), stop)
		f.reconcileToRest(phase)
		status := f.run().Status
		if len(status.Nodes) != 1 || status.Nodes[0].Name != "n1" || status.Nodes[0].Finished == nil || status.Failed != 0 || status.Done != 1 {
			t.Errorf("%s: the status is %+v", phase, status)
		}
		if count := f.countSeries("drover_upgrade_nodes"); count != 0 {
			t.Errorf("%s: there are %d series", phase, count)
		}
		// The machine-config-operator upgrades the other node.
		f.upgrade("n2")
		f.reconcileToRest(phase)
		if status := f.run().Status; status.Done != 2 || status.Total != 2 {
			t.Errorf("%s: %d of %d are done", phase, status.Done, status.Total)
		}
	}
}

// TestStatus_FinishedWhenDone: the status is written at most once a second, and says when a node was done, not when that was written.
func TestStatus_FinishedWhenDone(t *testing.T) {
	for offset := range 10 {
		f := newFixture(t, newObjects()...)
		f.clock.SetTime(testTime.Add(time.Duration(offset) * 100 * time.Millisecond))
		for step := 0; step < 200 && f.run().Status.Phase != v1alpha1.PhaseDone; step++ {
			f.must(f.reconcile())
			f.clock.SetTime(f.clock.Now().Add(350 * time.Millisecond))
			f.simulate()
		}
		status := f.run().Status
		if status.Phase != v1alpha1.PhaseDone || len(status.Nodes) != 2 {
			t.Fatalf("the status is %+v", status)
		}
		if first, second := status.Nodes[0], status.Nodes[1]; second.Started.Before(first.Finished) {
			t.Errorf("%s is started at %s, before %s is finished at %s", second.Name, second.Started, first.Name, first.Finished)
		}
	}
}
