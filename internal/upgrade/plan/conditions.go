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

// Kinds that have the conditions.
const (
	onRuleAndTarget = "MutexRule, MutexTarget"
	onTarget        = "MutexTarget"
	onRun           = "MutexRunConfig"
)

// conditionDoc describes a condition: the kinds that have it, its reasons when it is True and False, and what that means.
type conditionDoc struct{ on, kind, met, unmet, whenMet, whenUnmet string }

// The reasons are those of the openshift-node-upgrade-mutex-operator, which has UpgradeAvailable only with the status False.
var conditionDocs = []conditionDoc{
	{onRuleAndTarget, ConditionValid, "ValidConfig", "InvalidConfig",
		"the API server accepts the rule's Jobs; of a MutexTarget: its MachineConfigPools exist",
		"it does not, or a MachineConfigPool does not exist; the message says which"},
	{onTarget, ConditionGathered, "MachineConfigPoolFetchSucceeded", "MachineConfigPoolFetchFailed",
		"the status lists the nodes of the MutexTarget's MachineConfigPools", "a MachineConfigPool does not exist, and the list is empty"},
	{onRun, ConditionValidated, "FetchSucceeded", "FetchFailed",
		"the run's rules, targets and canary exist and are valid", "one does not exist or is invalid; the message says which and why"},
	{onRun, ConditionChecked, "CheckSucceeded", "CheckFailed",
		"the desired version and the versions of the nodes are known", "the desired version or that of a node is not known"},
	{onRun, ConditionAvailable, "UpgradeAvailable", "UpgradeUnavailable",
		"nodes of the targets have another version than the desired one", "all nodes have the desired version, or it is not known"},
	{onRun, ConditionReady, "UpgradeReady", "UpgradeNotReady",
		"the control plane has the desired version, so that nodes may be started; the message names those that have to wait, and says for what",
		"it does not have it yet"},
	{onRun, ConditionPaused, "Paused", "NotPaused",
		"the targets are reserved and paused", "another run has reserved one of them, or they have been restored"},
	{onRun, ConditionApplied, "ApplySucceeded", "ApplyFailed",
		"the nodes have the labels of the rules", "a node cannot be labeled; the message says why"},
	{onRun, ConditionMCPs, "UpdateSucceeded", "UpdateFailed",
		"the selectors of the MachineConfigPools separate waiting from released nodes", "a MachineConfigPool cannot be changed; the message says why"},
	{onRun, ConditionJobs, "JobRunSucceeded", "JobRunFailed",
		"no Job has failed; the message names those that run", "a Job has failed or takes too long"},
	{onRun, ConditionNodes, "NodeUpgradeSucceeded", "NodeUpgradeFailed",
		"no upgrade of a node has failed; the message names those in progress", "the upgrade of a node has failed or takes too long"},
}

// ConditionDocs describes the conditions, in the order in which a run gets them.
func ConditionDocs() []status.ConditionDoc {
	var docs []status.ConditionDoc
	for _, c := range conditionDocs {
		docs = append(docs, status.ConditionDoc{On: c.on, Type: c.kind, Reason: c.met, When: "True: " + c.whenMet},
			status.ConditionDoc{On: c.on, Type: c.kind, Reason: c.unmet, When: "False: " + c.whenUnmet})
	}
	return docs
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
	for _, doc := range conditionDocs {
		determined, found := c[doc.kind]
		if !found {
			continue
		}
		condition := metav1.Condition{
			Type: doc.kind, Status: metav1.ConditionFalse, Reason: doc.unmet, Message: status.Shorten(determined.message, status.MaxMessage),
			ObservedGeneration: generation, LastTransitionTime: now,
		}
		if determined.met {
			condition.Status, condition.Reason = metav1.ConditionTrue, doc.met
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
