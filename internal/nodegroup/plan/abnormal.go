package plan

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// AbnormalTypes are the types of the conditions that are present only while they are True: programs that wait for objects of any kind read them and
// Ready (https://github.com/kubernetes-sigs/cli-utils/blob/v0.37.2/pkg/kstatus/README.md).
var AbnormalTypes = []string{v1alpha1.ConditionReconciling, v1alpha1.ConditionStalled}

// abnormal returns the conditions Reconciling and Stalled, if they are True. Both would contradict each other.
func (d *Decision) abnormal() []Condition {
	if why := d.stalled(); why != nil {
		return []Condition{isTrue(v1alpha1.ConditionStalled, why.Reason, "%s", why.Message)}
	}
	why := d.condition(v1alpha1.ConditionProgressing)
	switch {
	case d.Phase != v1alpha1.PhaseRolling && d.Phase != v1alpha1.PhaseWaiting:
		return nil
	case why.Reason == ReasonComplete && d.condition(v1alpha1.ConditionReady).Status == metav1.ConditionTrue:
		// What waits is not the group's own work, such as a NodeMaintenance.
		return nil
	case why.Reason == ReasonComplete:
		why = d.condition(v1alpha1.ConditionBlocked)
	}
	return []Condition{isTrue(v1alpha1.ConditionReconciling, why.Reason, "%s", d.Message)}
}

// stalled returns the condition that says what a user or another writer has to change; nil for none. A group without Nodes waits for some, and one
// that is suspended, or has Nodes that are paused, is as users want it.
func (d *Decision) stalled() *Condition {
	ready := d.condition(v1alpha1.ConditionReady)
	if d.Phase == v1alpha1.PhaseStopped {
		return d.condition(v1alpha1.ConditionBlocked)
	}
	switch ready.Reason {
	case ReasonInvalidSelector, ReasonInvalidWindow, ReasonUntrustedSelector, ReasonRefusedKeys, ReasonOverlapping:
		return ready
	case ReasonNoNodes, ReasonNotSynced:
		return nil
	}
	if d.Phase == v1alpha1.PhaseIdle && ready.Status == metav1.ConditionFalse {
		return ready
	}
	return nil
}
