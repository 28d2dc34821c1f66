package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Finalizer keeps a MutexRunConfig until everything that it changed is as it was.
const Finalizer = "mutexrunconfig.openshift-optional.skrzypek.io/restore"

// MutexRunConfig gates the upgrade of the nodes of some targets: before each one its rules' Jobs run, and then it alone is let go.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=mutexrunconfigs,scope=Namespaced,categories=numo
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Version",type=string,JSONPath=`.status.version`
// +kubebuilder:printcolumn:name="Done",type=integer,JSONPath=`.status.done`
// +kubebuilder:printcolumn:name="Total",type=integer,JSONPath=`.status.total`
// +kubebuilder:printcolumn:name="Current",type=string,JSONPath=`.status.current`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Canary",type=string,JSONPath=`.spec.canary.name`,priority=1
// +kubebuilder:printcolumn:name="Rules",type=string,JSONPath=`.spec.mutexRules`,priority=1
// +kubebuilder:printcolumn:name="Targets",type=string,JSONPath=`.spec.mutexTargets`,priority=1
type MutexRunConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec   MutexRunConfigSpec   `json:"spec,omitempty"`
	Status MutexRunConfigStatus `json:"status,omitempty"`
}

// MutexRunConfigList is a list of MutexRunConfigs.
//
// +kubebuilder:object:root=true
type MutexRunConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []MutexRunConfig `json:"items"`
}

// Reference names a MutexRule or MutexTarget.
type Reference struct {
	// Name is its name.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Namespace is its namespace; empty is that of the MutexRunConfig.
	//
	// +optional
	Namespace string `json:"namespace,omitempty"`
}

// Canary names the MachineConfigPool to which a node is moved for its upgrade.
type Canary struct {
	// Name of a pool that no target lists.
	//
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// NodeOrder says which node comes next.
//
// +kubebuilder:validation:Enum=Name;Zone
type NodeOrder string

// The orders.
const (
	// OrderName is that of the nodes' names.
	OrderName NodeOrder = "Name"
	// OrderZone finishes one zone before the next, by the label topology.kubernetes.io/zone.
	OrderZone NodeOrder = "Zone"
)

// FailureAction says what a Job that failed means.
//
// +kubebuilder:validation:Enum=Stop;Retry;SkipNode
type FailureAction string

// The actions.
const (
	// FailureStop begins no other node until a person has looked at it.
	FailureStop FailureAction = "Stop"
	// FailureRetry runs the Job again, once at least, and stops after so many times.
	FailureRetry FailureAction = "Retry"
	// FailureSkipNode leaves the node as it is and goes on with the next.
	FailureSkipNode FailureAction = "SkipNode"
)

// JobFailure says what a Job that failed means.
type JobFailure struct {
	// Action is what is done; empty is Stop.
	//
	// +kubebuilder:default=Stop
	// +optional
	Action FailureAction `json:"action,omitempty"`
	// Retries is how often a Job is run again under Retry; absent or zero is once.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	// +optional
	Retries int32 `json:"retries,omitempty"`
}

// Window is a time in which nodes may be begun.
type Window struct {
	// Schedule is when it opens, as five fields of cron, or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly.
	//
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^[ \\t]*(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*?,/-]+([ \\t]+[0-9A-Za-z*?,/-]+){4})[ \\t]*$')",message="must be five fields of cron, or one of @yearly, @annually, @monthly, @weekly, @daily, @midnight and @hourly; a time zone belongs into timeZone"
	Schedule string `json:"schedule"`
	// Duration is how long it is open.
	//
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a duration above 0, such as 90s, 15m or 1h30m"
	Duration metav1.Duration `json:"duration"`
	// TimeZone is a name of the tz database; empty is UTC.
	//
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z0-9._+/-]*$')",message="must be a name of the tz database, such as Europe/Berlin"
	// +optional
	TimeZone string `json:"timeZone,omitempty"`
}

// MutexRunConfigSpec says what is run on which nodes.
type MutexRunConfigSpec struct {
	// Canary is the pool to which nodes are moved for their upgrade.
	Canary Canary `json:"canary"`
	// MutexRules are the rules, in the order in which they are applied.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MutexRules []Reference `json:"mutexRules"`
	// MutexTargets are the targets.
	//
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	MutexTargets []Reference `json:"mutexTargets"`
	// SkipTLSVerify is accepted and has no effect: Drover's connection to the API server is always verified.
	//
	// +optional
	SkipTLSVerify bool `json:"skipTLSVerify,omitempty"`
	// Suspend stops the run and gives everything back, until it is false again. Jobs that run come to their end, and count later.
	//
	// +optional
	Suspend bool `json:"suspend,omitempty"`
	// Abort ends the run, its Jobs that run and all, and gives everything back, until it is false again.
	//
	// +optional
	Abort bool `json:"abort,omitempty"`
	// DryRun has the run say what it would do, and do nothing.
	//
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
	// MaxConcurrentNodes is how many nodes may be under way at once; zero is 1.
	//
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MaxConcurrentNodes int32 `json:"maxConcurrentNodes,omitempty"`
	// NodeOrder says which node comes next; empty is Name.
	//
	// +optional
	NodeOrder NodeOrder `json:"nodeOrder,omitempty"`
	// JobTimeout is how long a Job may take; absent or zero is without end.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration, such as 90s, 15m or 1h30m; 0s is without end"
	JobTimeout *metav1.Duration `json:"jobTimeout,omitempty"`
	// NodeTimeout is how long a node may take from its release until it has the new version; absent or zero is without end.
	//
	// +optional
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]{1,6}([.][0-9]{1,9})?(ns|us|µs|ms|s|m|h))+$') && duration(self) >= duration('0s')",message="must be a duration, such as 90s, 15m or 1h30m; 0s is without end"
	NodeTimeout *metav1.Duration `json:"nodeTimeout,omitempty"`
	// OnJobFailure says what a Job that failed means.
	//
	// +optional
	OnJobFailure JobFailure `json:"onJobFailure,omitempty"`
	// Windows are the times in which nodes may be begun; none is always.
	//
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Windows []Window `json:"windows,omitempty"`
}

// Phase says in one word where a run stands.
type Phase string

// The phases of a run.
const (
	// PhaseInvalid: what the run names is not there, or cannot be used.
	PhaseInvalid Phase = "Invalid"
	// PhaseIdle: there is nothing to upgrade.
	PhaseIdle Phase = "Idle"
	// PhaseClaimed: another run has one of the pools.
	PhaseClaimed Phase = "Claimed"
	// PhaseWaiting: the pools are paused; the control plane is not done yet, or no window is open.
	PhaseWaiting Phase = "Waiting"
	// PhaseRunning: nodes are being upgraded.
	PhaseRunning Phase = "Running"
	// PhaseStopped: a Job or a node has failed, and a person is needed.
	PhaseStopped Phase = "Stopped"
	// PhaseSuspended and PhaseAborted: a person has stopped it, and everything is given back.
	PhaseSuspended Phase = "Suspended"
	PhaseAborted   Phase = "Aborted"
	// PhaseRestoring: what was changed is being given back.
	PhaseRestoring Phase = "Restoring"
	// PhaseDryRun: the run says what it would do.
	PhaseDryRun Phase = "DryRun"
	// PhaseDone: all nodes have the version.
	PhaseDone Phase = "Done"
)

// NodePhase says in one word where a node stands.
type NodePhase string

// The phases of a node.
const (
	// NodePending: it has not had its turn.
	NodePending NodePhase = "Pending"
	// NodeRunningJobs: its rules' Jobs run, one after another.
	NodeRunningJobs NodePhase = "RunningJobs"
	// NodeReleased: it has been moved to the canary pool.
	NodeReleased NodePhase = "Released"
	// NodeUpgrading: the machine-config-operator works on it.
	NodeUpgrading NodePhase = "Upgrading"
	// NodeCleaningUp: its rules' clean-up Jobs run.
	NodeCleaningUp NodePhase = "CleaningUp"
	// NodeDone: it has the version.
	NodeDone NodePhase = "Done"
	// NodeFailed: a Job or its upgrade has failed.
	NodeFailed NodePhase = "Failed"
)

// NodeStatus says where one node stands.
type NodeStatus struct {
	// Name of the node.
	Name string `json:"name"`
	// Phase is where it stands.
	Phase NodePhase `json:"phase"`
	// Job is the Job that runs, or has failed, as namespace/name.
	//
	// +optional
	Job string `json:"job,omitempty"`
	// Message says what is waited for, or what has failed.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Started is when its first Job was made.
	//
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// Released is when it was moved to the canary pool.
	//
	// +optional
	Released *metav1.Time `json:"released,omitempty"`
	// Finished is when its last clean-up Job had ended.
	//
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
}

// MutexRunConfigStatus says where a run stands.
type MutexRunConfigStatus struct {
	// ObservedGeneration is the generation of the spec that the status is about.
	//
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Phase is where the run stands.
	//
	// +optional
	Phase Phase `json:"phase,omitempty"`
	// Version is the one that is aimed at.
	//
	// +optional
	Version string `json:"version,omitempty"`
	// Total is how many nodes the targets have, Done how many of them have the version, Failed how many could not be upgraded.
	//
	// +optional
	Total int32 `json:"total,omitempty"`
	// +optional
	Done int32 `json:"done,omitempty"`
	// +optional
	Failed int32 `json:"failed,omitempty"`
	// Current names the nodes under way, joined by commas, the first twenty of them.
	//
	// +optional
	Current string `json:"current,omitempty"`
	// Message says what is waited for.
	//
	// +optional
	Message string `json:"message,omitempty"`
	// Started and Finished are when the first node was begun, and when everything was given back after the last.
	//
	// +optional
	Started *metav1.Time `json:"started,omitempty"`
	// +optional
	Finished *metav1.Time `json:"finished,omitempty"`
	// Settled is when the newest Job was made of those before which nothing is owed any more: since then every node had the version, and
	// everything was given back. Unset until then.
	//
	// +optional
	Settled *metav1.Time `json:"settled,omitempty"`
	// Nodes are those under way, those that failed, and some of the others; those that were done first are left out first. While the run is
	// suspended or aborted they are those that were done before.
	//
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Nodes []NodeStatus `json:"nodes,omitempty"`
	// Conditions are those of openshift-node-upgrade-mutex-operator.
	//
	// +kubebuilder:validation:MaxItems=32
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
