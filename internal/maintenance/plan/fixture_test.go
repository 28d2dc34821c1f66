package plan

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	medik8s "github.com/drover-io/drover/api/medik8s/v1beta1"
	"github.com/drover-io/drover/internal/drain"
)

var start = time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)

// newInput returns the input for the only NodeMaintenance of a node.
func newInput(change ...func(*Input, *medik8s.NodeMaintenance)) *Input {
	object := &medik8s.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: "m", UID: "own", Generation: 1}, Spec: medik8s.NodeMaintenanceSpec{NodeName: "n1"},
	}
	in := &Input{
		Object: object, Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node"}}, Now: start,
		Peers: []Peer{{UID: "own", Name: "nodemaintenances m"}}, Settings: &Settings{LeaseLoss: 5 * time.Minute},
		Additions: drain.Additions{
			Taints: []corev1.Taint{{Key: drain.TaintMedik8s, Effect: corev1.TaintEffectNoSchedule}}, Labels: map[string]string{drain.LabelExclude: "true"},
		},
	}
	for _, change := range change {
		change(in, object)
	}
	return in
}

// withRecord adds the cordon record of an owner.
func withRecord(by string) func(*Input, *medik8s.NodeMaintenance) {
	return func(in *Input, _ *medik8s.NodeMaintenance) {
		in.Record = &drain.CordonRecord{By: by, Since: start, CordonedByDrover: true}
	}
}

// withLease adds a condition LeaseHeld that has been as it is for some time.
func withLease(reason string, age time.Duration) func(*Input, *medik8s.NodeMaintenance) {
	return func(_ *Input, object *medik8s.NodeMaintenance) {
		status := metav1.ConditionFalse
		if reason == ReasonHeld {
			status = metav1.ConditionTrue
		}
		object.Status.Conditions = append(object.Status.Conditions, metav1.Condition{
			Type: ConditionLeaseHeld, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(start.Add(-age)),
		})
	}
}
