package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Phase says in one word what a group does.
//
// +kubebuilder:validation:Enum=Idle;Rolling;Waiting;Stopped;Suspended
type Phase string

// The phases.
const (
	// PhaseIdle: there is nothing more to write or to replace, and nothing waits.
	PhaseIdle Phase = "Idle"
	// PhaseRolling: Nodes are being changed or replaced.
	PhaseRolling Phase = "Rolling"
	// PhaseWaiting: there is something to do, and condition Blocked or Progressing says what it waits for.
	PhaseWaiting Phase = "Waiting"
	// PhaseStopped: the roll-out or the replacement of Machines has stopped. The condition Blocked says why, and what has it go on.
	PhaseStopped Phase = "Stopped"
	// PhaseSuspended: spec.suspend is set.
	PhaseSuspended Phase = "Suspended"
)

// Condition types of NodeGroup.
const (
	// ConditionReady: every Node of the group is as declared.
	ConditionReady = "Ready"
	// ConditionProgressing: Nodes are being changed or replaced.
	ConditionProgressing = "Progressing"
	// ConditionBlocked: something must happen first.
	ConditionBlocked = "Blocked"
	// ConditionReconciling: the status is about to change. It is present only while it is True.
	ConditionReconciling = "Reconciling"
	// ConditionStalled: the group does not get on unless a user or another writer acts. It is present only while it is True.
	ConditionStalled = "Stalled"
	// ConditionOverlapping: other groups select Nodes of this group, or this group Nodes of theirs.
	ConditionOverlapping = "Overlapping"
)

// NodeGroupStatus is what a group does. It has no list that grows with the number of Nodes: ownedKeys and reservations are bounded.
type NodeGroupStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Nodes is how many Nodes the group has: the sum of synced, pending, conflicts, refused and held.
	//
	// +optional
	// +kubebuilder:default=0
	Nodes int32 `json:"nodes"`
	// Synced is how many of them carry what is declared.
	//
	// +optional
	// +kubebuilder:default=0
	Synced int32 `json:"synced"`
	// Pending is how many will be written.
	//
	// +optional
	Pending int32 `json:"pending,omitempty"`
	// Conflicts is how many have a key that another writer has set.
	//
	// +optional
	Conflicts int32 `json:"conflicts,omitempty"`
	// Refused is how many lack a declared key because it belongs to the system or is invalid, or because a taint with the effect NoExecute is held back.
	//
	// +optional
	Refused int32 `json:"refused,omitempty"`
	// Held is how many are paused, or contended by another writer; while the group is suspended, those included that would be written.
	//
	// +optional
	Held int32 `json:"held,omitempty"`
	// Unavailable is how many count against the budget: those with a sign that they are unavailable, those that a capability disrupts, and those that
	// the MachineSets lack for Machines that were deleted.
	//
	// +optional
	// +kubebuilder:default=0
	Unavailable int32 `json:"unavailable"`
	// Outdated is how many Machines of the group do not match the template of their MachineSet, those that are being deleted included.
	//
	// +optional
	Outdated int32 `json:"outdated,omitempty"`
	// Budget is spec.disruption.maxUnavailable as a number; absent without a budget.
	//
	// +optional
	Budget *int32 `json:"budget,omitempty"`
	// Phase says in one word what the group does.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Message says what the phase means now: what keeps the group from going on, or else what it does.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=8192
	Message string `json:"message,omitempty"`
	// Rollout is where the roll-out of metadata is.
	//
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`
	// DefaultRollout is nodeGroups.rollout of the operator's configuration, which is the spec.rollout of groups that have none; absent for none.
	//
	// +optional
	DefaultRollout *Rollout `json:"defaultRollout,omitempty"`
	// Window says whether disruptions may begin.
	//
	// +optional
	Window *WindowStatus `json:"window,omitempty"`
	// OwnedKeys are the keys that the group declares or has declared, by kind: label/KEY, annotation/KEY and taint/KEY:EFFECT. A key that only
	// a Node's own record names is not removed, since a kubelet can write that record.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:MaxLength=400
	OwnedKeys []string `json:"ownedKeys,omitempty"`
	// Reservations are the Nodes that capabilities disrupt, as the cluster shows it: it is for people, and Drover decides nothing by it.
	//
	// +optional
	// +listType=map
	// +listMapKey=node
	// +listMapKey=capability
	// +kubebuilder:validation:MaxItems=512
	Reservations []Reservation `json:"reservations,omitempty"`
	// Admissions are the disruptions that were allowed lately. An entry counts against the budget for a minute: by then the cluster shows the work.
	// Entries that are older stay until the next one is added, and mean nothing.
	//
	// +optional
	// +listType=map
	// +listMapKey=node
	// +listMapKey=capability
	// +kubebuilder:validation:MaxItems=512
	Admissions []Reservation `json:"admissions,omitempty"`
	// LastRemediationTime is when the last remediation of a Machine was allowed; spec.disruption.remediation.minInterval counts from it.
	//
	// +optional
	LastRemediationTime *metav1.Time `json:"lastRemediationTime,omitempty"`
	// Conditions say whether the group's Nodes are as declared, and what it waits for.
	//
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutStatus is where a roll-out of metadata is.
type RolloutStatus struct {
	// Revision identifies what is rolled out. It is not the number of a revision in kubectl drover rollout history.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=128
	Revision string `json:"revision,omitempty"`
	// Wave is the last wave that has begun and how many there are, such as 2/5. Nodes that are created after startTime and
	// machineSetTime have no wave.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Wave string `json:"wave,omitempty"`
	// StartTime is when the roll-out of this revision began; what happened before does not stop it.
	//
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// MachineSetTime is when the taints of MachineSets changed last while the roll-out was under way, and its waves began anew; absent for never.
	//
	// +optional
	MachineSetTime *metav1.Time `json:"machineSetTime,omitempty"`
	// EndTime is when the last wave of this revision was over; absent before. After it no Node stops the roll-out or is waited for.
	//
	// +optional
	EndTime *metav1.Time `json:"endTime,omitempty"`
	// WaveEndTime is when the last wave was over.
	//
	// +optional
	WaveEndTime *metav1.Time `json:"waveEndTime,omitempty"`
	// ReleaseTime is when the last Nodes that have left the group began to be released, if spec.rollout.pause is set: the next ones wait for its end.
	//
	// +optional
	ReleaseTime *metav1.Time `json:"releaseTime,omitempty"`
	// ResumeTime is when a user resumed the roll-out after it had stopped or was suspended; only what happens later stops it again.
	//
	// +optional
	ResumeTime *metav1.Time `json:"resumeTime,omitempty"`
	// StopReason is the reason of the condition Blocked of a roll-out that has stopped; empty while it has not. Without it, a roll-out that has stopped
	// has the reason NodesNotReady.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=64
	StopReason string `json:"stopReason,omitempty"`
	// Stopped says why the roll-out has stopped; empty while it has not.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	Stopped string `json:"stopped,omitempty"`
	// StopTime is when it stopped.
	//
	// +optional
	StopTime *metav1.Time `json:"stopTime,omitempty"`
	// WaitingFor names at most five Nodes that the current wave waits for.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:items:MaxLength=253
	WaitingFor []string `json:"waitingFor,omitempty"`
}

// WindowStatus says whether disruptions may begin.
type WindowStatus struct {
	// Open is whether they may.
	Open bool `json:"open"`
	// NextChange is when that changes; absent for never.
	//
	// +optional
	NextChange *metav1.Time `json:"nextChange,omitempty"`
	// Reason says why they may not: which freeze is in effect, when the next window opens, or why a window cannot be read.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Reason string `json:"reason,omitempty"`
}
