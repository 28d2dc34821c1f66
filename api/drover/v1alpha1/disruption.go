package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Capability is a part of Drover that disrupts Nodes.
//
// +kubebuilder:validation:Enum=Maintenance;Remediation;Upgrade;Metadata;Replacement
type Capability string

// The capabilities.
const (
	// CapabilityMaintenance: NodeMaintenances.
	CapabilityMaintenance Capability = "Maintenance"
	// CapabilityRemediation: MachineHealthChecks.
	CapabilityRemediation Capability = "Remediation"
	// CapabilityUpgrade: gated upgrades.
	CapabilityUpgrade Capability = "Upgrade"
	// CapabilityMetadata: taints with the effect NoExecute, for which Pods are evicted.
	CapabilityMetadata Capability = "Metadata"
	// CapabilityReplacement: Machines that are outdated.
	CapabilityReplacement Capability = "Replacement"
)

// PersonMaintenance says what happens to a NodeMaintenance that a user creates when the budget is used up, no window is open or the group is
// suspended.
//
// +kubebuilder:validation:Enum=Report;Queue
type PersonMaintenance string

// The policies.
const (
	// PersonReport begins the maintenance, and reports why it would have waited.
	PersonReport PersonMaintenance = "Report"
	// PersonQueue begins the maintenance when the budget and the windows allow it.
	PersonQueue PersonMaintenance = "Queue"
)

// Disruption bounds how many Nodes Drover makes unavailable at once, and when.
type Disruption struct {
	// MaxUnavailable is how many Nodes may be unavailable in all, those included that others have made unavailable: while there are as many, Drover
	// makes no further one unavailable. With 0 it makes none unavailable. A Node that is not Ready may be disrupted in any case. A percentage is of the
	// expected Nodes: those that are initialized, those that the MachineSets of the group lack, and those that are gone while they are disrupted. It is
	// rounded up as Karpenter does:
	// https://github.com/kubernetes-sigs/karpenter/blob/v1.6.0/pkg/apis/v1/nodepool.go
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 100000)",message="must be between 0 and 100000, or a percentage"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
	// PerCapability are lower bounds for single capabilities. They are ceilings: what one capability does not use, another one may.
	//
	// +optional
	// +listType=map
	// +listMapKey=capability
	// +kubebuilder:validation:MaxItems=5
	PerCapability []CapabilityBudget `json:"perCapability,omitempty"`
	// Remediation bounds how fast MachineHealthChecks replace Machines.
	//
	// +optional
	// +kubebuilder:default={}
	Remediation *RemediationPace `json:"remediation,omitempty"`
	// PersonMaintenance says what happens to a NodeMaintenance that a user creates, and no controller owns, when the budget is used up, no window is
	// open or the group is suspended: Report begins it, and Queue has it wait.
	//
	// +optional
	// +kubebuilder:default=Report
	PersonMaintenance PersonMaintenance `json:"personMaintenance,omitempty"`
	// UnavailableTaints are keys of taints that mark a Node as unavailable, beside those that Drover knows.
	//
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=317
	UnavailableTaints []string `json:"unavailableTaints,omitempty"`
	// Windows are when disruptions may begin. Without any, they may at any time. What has begun goes on when a window closes. A window that cannot be
	// read, such as one with an unknown time zone, keeps all of them closed; status.window.reason then says why.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Windows []Window `json:"windows,omitempty"`
	// Freezes are when no disruption begins, whatever the windows say.
	//
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	Freezes []Freeze `json:"freezes,omitempty"`
	// Exempt are the capabilities that windows and freezes do not concern. By default that is Remediation: a Node that does not work does not recover
	// by waiting.
	//
	// +optional
	// +listType=set
	// +kubebuilder:default={Remediation}
	// +kubebuilder:validation:MaxItems=5
	Exempt []Capability `json:"exempt,omitempty"`
}

// CapabilityBudget is the bound of one capability.
type CapabilityBudget struct {
	// Capability is the capability that the bound is for.
	Capability Capability `json:"capability"`
	// MaxUnavailable is how many Nodes may be reserved for the capability at once, whether they are Ready or not. A percentage is of the
	// expected Nodes, and of one at least, rounded up.
	//
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 100000)",message="must be between 0 and 100000, or a percentage"
	MaxUnavailable intstr.IntOrString `json:"maxUnavailable"`
}

// RemediationPace bounds how fast MachineHealthChecks replace Machines.
type RemediationPace struct {
	// MaxInFlight is how many Machines are remediated at once: deleted or handed to an external remediation, and their replacement not Ready.
	// A percentage is of the expected Nodes, and of one at least, rounded up.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 100000)",message="must be between 0 and 100000, or a percentage"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
	// MinInterval is the time from the beginning of a remediation to that of the next one; absent is none.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+)$') && duration(self) <= duration('168h')",message="must be a duration of at most 168h, such as 10m"
	MinInterval *metav1.Duration `json:"minInterval,omitempty"`
}

// Window is a period that repeats.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minRemaining) || duration(self.minRemaining) <= duration(self.duration)",message="minRemaining must not be longer than duration"
// +kubebuilder:validation:XValidation:rule="self.timeZone != 'Local'",message="timeZone: Local is another time zone on each machine; name one, such as Europe/Berlin"
type Window struct {
	// Schedule is when the window opens, as five fields of cron: minute, hour, day of month, month, day of week. A time that a change of the clock
	// skips opens the window at the end of the gap, and a time that occurs twice opens it once.
	//
	// +kubebuilder:validation:MinLength=9
	// +kubebuilder:validation:MaxLength=128
	// +kubebuilder:validation:XValidation:rule="self.matches('^[^ ]+( [^ ]+){4}$')",message="must be five fields of cron with one space between them, such as 0 22 * * 1-5"
	// +kubebuilder:validation:XValidation:rule="self.split(' ').size() != 5 || self.upperAscii().split(' ')[0].matches('^([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]{0,2})?(,([*?]|[0-5]?[0-9](-[0-5]?[0-9])?)(/[1-9][0-9]{0,2})?)*$')",message="the first field is the minute, 0 to 59, such as 0, */15 or 0,30"
	// +kubebuilder:validation:XValidation:rule="self.split(' ').size() != 5 || self.upperAscii().split(' ')[1].matches('^([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]{0,2})?(,([*?]|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3]))?)(/[1-9][0-9]{0,2})?)*$')",message="the second field is the hour, 0 to 23, such as 22 or 8-17"
	// +kubebuilder:validation:XValidation:rule="self.split(' ').size() != 5 || self.upperAscii().split(' ')[2].matches('^([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]{0,2})?(,([*?]|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01]))?)(/[1-9][0-9]{0,2})?)*$')",message="the third field is the day of the month, 1 to 31, such as * or 1-7"
	// +kubebuilder:validation:XValidation:rule="self.split(' ').size() != 5 || self.upperAscii().split(' ')[3].matches('^([*?]|(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(-(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC))?)(/[1-9][0-9]{0,2})?(,([*?]|(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC)(-(0?[1-9]|1[0-2]|JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC))?)(/[1-9][0-9]{0,2})?)*$')",message="the fourth field is the month, 1 to 12 or JAN to DEC, such as * or 1-6"
	// +kubebuilder:validation:XValidation:rule="self.split(' ').size() != 5 || self.upperAscii().split(' ')[4].matches('^([*?]|(0?[0-6]|SUN|MON|TUE|WED|THU|FRI|SAT)(-(0?[0-6]|SUN|MON|TUE|WED|THU|FRI|SAT))?)(/[1-9][0-9]{0,2})?(,([*?]|(0?[0-6]|SUN|MON|TUE|WED|THU|FRI|SAT)(-(0?[0-6]|SUN|MON|TUE|WED|THU|FRI|SAT))?)(/[1-9][0-9]{0,2})?)*$')",message="the fifth field is the day of the week, 0 to 6 or SUN to SAT; Sunday is 0, and Monday to Friday is 1-5"
	Schedule string `json:"schedule"`
	// Duration is how long the window stays open, in elapsed time.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('1m') && duration(self) <= duration('168h')",message="must be a duration between 1m and 168h, such as 6h"
	Duration metav1.Duration `json:"duration"`
	// TimeZone is the name of a time zone, such as Europe/Berlin.
	//
	// +optional
	// +kubebuilder:default=UTC
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self == 'Local' || self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+){0,2}$') && timestamp('2026-01-01T00:00:00Z').getHours(self) >= 0",message="must be a name of the tz database, such as Europe/Berlin"
	TimeZone string `json:"timeZone,omitempty"`
	// MinRemaining is how much time of the window must be left for a disruption to begin; absent is none.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^(0|([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+)$') && duration(self) <= duration('168h')",message="must be a duration of at most 168h, such as 30m"
	MinRemaining *metav1.Duration `json:"minRemaining,omitempty"`
}

// Freeze is a period in which no disruption begins, except for those of the exempt capabilities.
//
// +kubebuilder:validation:XValidation:rule="self.from < self.to",message="from must be before to"
type Freeze struct {
	// From is when it begins.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$`
	From metav1.Time `json:"from"`
	// To is the first instant at which disruptions may begin again.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(Z|[+-][0-9]{2}:[0-9]{2})$`
	To metav1.Time `json:"to"`
	// Reason says why; messages show it.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Reason string `json:"reason,omitempty"`
}

// ReplacementType says whether outdated Machines are replaced.
//
// +kubebuilder:validation:Enum=None;RollingUpdate
type ReplacementType string

// The types.
const (
	// ReplacementNone replaces no Machine.
	ReplacementNone ReplacementType = "None"
	// ReplacementRollingUpdate replaces them within the budget.
	ReplacementRollingUpdate ReplacementType = "RollingUpdate"
)

// Replacement replaces Machines whose providerSpec no longer matches the template of their MachineSet, or that were created with another value of the
// template's annotation drover.dev/restartedAt. Machines with the annotation drover.dev/skip-replacement stay.
type Replacement struct {
	// Type is None or RollingUpdate.
	//
	// +optional
	// +kubebuilder:default=None
	Type ReplacementType `json:"type,omitempty"`
	// MaxSurge is how many Machines are created beyond spec.replicas, over all MachineSets of the group. A Machine that is being deleted does not count.
	// With 0, the old Machine goes first, which needs spec.disruption. A percentage is of all replicas, rounded up.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9]?[0-9])%$') : (self >= 0 && self <= 1000)",message="must be between 0 and 1000, or a percentage"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// MaxInFlight is how many Machines are replaced at once: the old one is being deleted, or, without surge, the new one is not available yet.
	// A percentage is of all replicas, rounded up.
	//
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=4
	// +kubebuilder:validation:XValidation:rule="type(self) == string ? self.matches('^(100|[1-9][0-9]?)%$') : (self >= 1 && self <= 1000)",message="must be between 1 and 1000, or 1% and 100%"
	MaxInFlight *intstr.IntOrString `json:"maxInFlight,omitempty"`
	// MinReadySeconds is how long a new Machine's Node must have been Ready, with its metadata, before an old Machine goes.
	//
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`
	// ProgressDeadline is how long a new Machine may take to become Ready before the replacement stops. It goes on when the template changes, or when
	// a user resumes it with the annotation drover.dev/resume-rollout: that replaces new Machines that have failed, and gives others as much time again.
	// It is also how long a Machine that is made in place of a deleted one counts as unavailable while it is not Ready.
	//
	// +optional
	// +kubebuilder:default="30m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s') && duration(self) <= duration('168h')",message="must be a duration above 0 and of at most 168h, such as 30m"
	ProgressDeadline *metav1.Duration `json:"progressDeadline,omitempty"`
}

// Reservation is a Node, or a Machine that has none, that a capability disrupts.
type Reservation struct {
	// Node is the Node's name, or, for a Machine that has no Node, Machine/NAMESPACE/NAME.
	//
	// +kubebuilder:validation:MaxLength=330
	Node string `json:"node"`
	// UID is the Node's UID, or the Machine's.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	UID types.UID `json:"uid"`
	// Capability is the capability that disrupts it.
	Capability Capability `json:"capability"`
	// Object is what it is disrupted for, as kind/name or kind/namespace/name.
	//
	// +optional
	// +kubebuilder:validation:MaxLength=600
	Object string `json:"object,omitempty"`
	// ObjectUID is the UID of what it is disrupted for: another object of the same name is another disruption.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=64
	ObjectUID types.UID `json:"objectUID,omitempty"`
	// Time is when the disruption was allowed, or since when the cluster shows it.
	Time metav1.Time `json:"time"`
}
