package upgrade

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
	"github.com/drover-io/drover/internal/upgrade/plan"
)

// maxObject is what etcd takes of one object, by default.
const maxObject = 1_500_000

func longName(i int) string { return fmt.Sprintf("%0253d", i) }

// TestStatus_Bounded has 5,000 nodes under way at once, each with the longest name and the longest message of a Job.
func TestStatus_Bounded(t *testing.T) {
	decision := plan.Decision{Phase: v1alpha1.PhaseRunning, Message: strings.Repeat("m", 1<<20)}
	for i := range 5000 {
		decision.Steps = append(decision.Steps, plan.Step{Status: v1alpha1.NodeStatus{
			Name: longName(i), Phase: v1alpha1.NodeFailed, Job: strings.Repeat("n", 63) + "/" + longName(i), Message: strings.Repeat("é", 16000),
			Started: &metav1.Time{Time: start}, Released: &metav1.Time{Time: start},
		}})
		decision.Current = append(decision.Current, longName(i))
	}
	p := &pass{run: &v1alpha1.MutexRunConfig{}, memory: &memory{}, now: start}
	p.found = observation{conditions: conditions{}}
	p.found.take(&decision)
	after := p.status(nil)
	if len(after.Nodes) != mostNodes || after.Total != 5000 || !strings.HasSuffix(after.Current, " and 4980 more") {
		t.Errorf("%d nodes are named of %d, under way are %.50s...", len(after.Nodes), after.Total, after.Current)
	}
	for _, condition := range after.Conditions {
		if len(condition.Message) > status.MaxMessage {
			t.Errorf("the message of %s has %d bytes", condition.Type, len(condition.Message))
		}
	}
	if text, err := json.Marshal(after); err != nil || len(text) > maxObject/2 {
		t.Errorf("the status has %d bytes (%v)", len(text), err)
	}
}

// TestTargetStatus_Bounded has 5,000 nodes in the pool of a MutexTarget.
func TestTargetStatus_Bounded(t *testing.T) {
	objects := []client.Object{
		pool("infra", byRole("infra")),
		&v1alpha1.MutexTarget{ObjectMeta: named("target"), Spec: v1alpha1.MutexTargetSpec{MachineConfigPools: []string{"infra"}}},
	}
	for i := range 5000 {
		labels := map[string]string{"node-role.kubernetes.io/infra": ""}
		objects = append(objects, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: longName(i), Labels: labels}})
	}
	s := newStage(t, objects...)
	key := types.NamespacedName{Namespace: "numo", Name: "target"}
	if _, err := (&targetReconciler{s.Reconciler}).Reconcile(t.Context(), reconcile.Request{NamespacedName: key}); err != nil {
		t.Fatal(err)
	}
	target := &v1alpha1.MutexTarget{}
	s.must(s.client.Get(t.Context(), key, target))
	if len(target.Status.Nodes) != mostTargetNodes || target.Status.OmittedNodes != 5000-mostTargetNodes {
		t.Errorf("%d nodes are named, %d omitted", len(target.Status.Nodes), target.Status.OmittedNodes)
	}
	if text, err := json.Marshal(target); err != nil || len(text) > maxObject/2 {
		t.Errorf("the object has %d bytes (%v)", len(text), err)
	}
}
