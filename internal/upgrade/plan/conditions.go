package plan

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

// Conditions of MutexRules, MutexTargets and MutexRunConfigs, as the openshift-node-upgrade-mutex-operator has them.
const (
	ConditionValid     = v1alpha1.ConditionValid
	ConditionGathered  = "NodeListGathered"
	ConditionValidated = "ConfigValidated"
	ConditionChecked   = "UpgradeChecked"
	ConditionReady     = "UpgradeReady"
	ConditionAvailable = "UpgradeAvailable"
	ConditionPaused    = "TargetPoolsPaused"
	ConditionApplied   = "MutexRulesApplied"
	ConditionMCPs      = "MCPUpdated"
	ConditionJobs      = "JobRun"
	ConditionNodes     = "NodeUpgrade"
)

// Reasons of the conditions, as the openshift-node-upgrade-mutex-operator has them.
const (
	// ReasonValid (ValidConfig=True): the API server accepts the rule's Jobs; of a MutexTarget: its MachineConfigPools exist.
	ReasonValid = "ValidConfig"
	// ReasonInvalid (ValidConfig=False): the API server rejects a Job, or a MachineConfigPool does not exist; the message says which.
	ReasonInvalid = "InvalidConfig"
	// ReasonGathered (NodeListGathered=True): the status lists the nodes of the MutexTarget's MachineConfigPools.
	ReasonGathered = "MachineConfigPoolFetchSucceeded"
	// ReasonNotGathered (NodeListGathered=False): a MachineConfigPool does not exist, and the list is empty.
	ReasonNotGathered = "MachineConfigPoolFetchFailed"
	// ReasonValidated (ConfigValidated=True): the run's rules, targets and canary exist and are valid.
	ReasonValidated = "FetchSucceeded"
	// ReasonNotValidated (ConfigValidated=False): a rule, a target or the canary does not exist or is invalid; the message says which and why.
	ReasonNotValidated = "FetchFailed"
	// ReasonChecked (UpgradeChecked=True): the desired version and the versions of the nodes are known.
	ReasonChecked = "CheckSucceeded"
	// ReasonNotChecked (UpgradeChecked=False): the desired version or that of a node is not known.
	ReasonNotChecked = "CheckFailed"
	// ReasonAvailable (UpgradeAvailable=True): nodes of the targets have another version than the desired one.
	ReasonAvailable = "UpgradeAvailable"
	// ReasonNotAvailable (UpgradeAvailable=False): all nodes have the desired version, or it is not known.
	ReasonNotAvailable = "UpgradeUnavailable"
	// ReasonReady (UpgradeReady=True): the control plane has the desired version, so that nodes may be started; the message names those that have to
	// wait, and says for what.
	ReasonReady = "UpgradeReady"
	// ReasonNotReady (UpgradeReady=False): the control plane does not have the desired version yet.
	ReasonNotReady = "UpgradeNotReady"
	// ReasonPaused (TargetPoolsPaused=True): the targets are reserved and paused.
	ReasonPaused = "Paused"
	// ReasonNotPaused (TargetPoolsPaused=False): another run has reserved a target, or the targets have been restored.
	ReasonNotPaused = "NotPaused"
	// ReasonApplied (MutexRulesApplied=True): the nodes have the labels of the rules.
	ReasonApplied = "ApplySucceeded"
	// ReasonNotApplied (MutexRulesApplied=False): a node cannot be labeled; the message says why.
	ReasonNotApplied = "ApplyFailed"
	// ReasonMCPs (MCPUpdated=True): the selectors of the MachineConfigPools separate waiting from released nodes.
	ReasonMCPs = "UpdateSucceeded"
	// ReasonMCPsFailed (MCPUpdated=False): a MachineConfigPool cannot be changed; the message says why.
	ReasonMCPsFailed = "UpdateFailed"
	// ReasonJobs (JobRun=True): no Job has failed; the message names those that run.
	ReasonJobs = "JobRunSucceeded"
	// ReasonJobsFailed (JobRun=False): a Job has failed or takes too long.
	ReasonJobsFailed = "JobRunFailed"
	// ReasonNodes (NodeUpgrade=True): no upgrade of a node has failed; the message names those in progress.
	ReasonNodes = "NodeUpgradeSucceeded"
	// ReasonNodesFailed (NodeUpgrade=False): the upgrade of a node has failed or takes too long.
	ReasonNodesFailed = "NodeUpgradeFailed"
)

// reasons are the reasons of each condition when it is True and False. The openshift-node-upgrade-mutex-operator has UpgradeAvailable only with the
// status False.
var reasons = []struct{ condition, met, unmet string }{
	{ConditionValid, ReasonValid, ReasonInvalid},
	{ConditionGathered, ReasonGathered, ReasonNotGathered},
	{ConditionValidated, ReasonValidated, ReasonNotValidated},
	{ConditionChecked, ReasonChecked, ReasonNotChecked},
	{ConditionAvailable, ReasonAvailable, ReasonNotAvailable},
	{ConditionReady, ReasonReady, ReasonNotReady},
	{ConditionPaused, ReasonPaused, ReasonNotPaused},
	{ConditionApplied, ReasonApplied, ReasonNotApplied},
	{ConditionMCPs, ReasonMCPs, ReasonMCPsFailed},
	{ConditionJobs, ReasonJobs, ReasonJobsFailed},
	{ConditionNodes, ReasonNodes, ReasonNodesFailed},
}

// Conditions are those that a reconciliation has determined, by type. Others stay as they are.
type Conditions map[string]condition

type condition struct {
	met     bool
	message string
}

// Set determines a condition.
func (c Conditions) Set(kind string, met bool, message string) { c[kind] = condition{met, message} }

// ApplyTo writes the conditions to those of an object.
func (c Conditions) ApplyTo(all *[]metav1.Condition, generation int64, now metav1.Time) {
	for _, reason := range reasons {
		determined, found := c[reason.condition]
		if !found {
			continue
		}
		condition := metav1.Condition{
			Type: reason.condition, Status: metav1.ConditionFalse, Reason: reason.unmet, Message: status.Shorten(determined.message, status.MaxMessage),
			ObservedGeneration: generation, LastTransitionTime: now,
		}
		if determined.met {
			condition.Status, condition.Reason = metav1.ConditionTrue, reason.met
		}
		meta.SetStatusCondition(all, condition)
	}
}

// SetTargetConditions writes both conditions of a MutexTarget: without a problem they are True. ValidConfig has the reasons of NodeListGathered
// there, as in the openshift-node-upgrade-mutex-operator.
func SetTargetConditions(all *[]metav1.Condition, problem string, generation int64, now metav1.Time) {
	found := Conditions{}
	found.Set(ConditionValid, problem == "", problem)
	found.Set(ConditionGathered, problem == "", problem)
	found.ApplyTo(all, generation, now)
	meta.FindStatusCondition(*all, ConditionValid).Reason = meta.FindStatusCondition(*all, ConditionGathered).Reason
}
