package upgrade

import (
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-io/drover/api/mutex/v1alpha1"
	"github.com/drover-io/drover/internal/status"
)

// Conditions of the three kinds.
const (
	ConditionValid     = v1alpha1.ConditionValid
	ConditionGathered  = "NodeListGathered"
	ConditionValidated = "ConfigValidated"
	ConditionChecked   = "UpgradeChecked"
	ConditionReady     = "UpgradeReady"
	ConditionAvailable = "UpgradeAvailable"
	ConditionPaused    = "TargetPoolsPaused"
	ConditionApplied   = "MutexRulesApplied"
	ConditionPools     = "MCPUpdated"
	ConditionJobs      = "JobRun"
	ConditionNodes     = "NodeUpgrade"
)

// reasons are those of a condition that is True, and of one that is False.
type reasons struct{ met, unmet string }

// The incumbent's reasons, but for UpgradeAvailable, which it has for False alone.
var reasonsOf = map[string]reasons{
	ConditionValid:     {"ValidConfig", "InvalidConfig"},
	ConditionGathered:  {"MachineConfigPoolFetchSucceeded", "MachineConfigPoolFetchFailed"},
	ConditionValidated: {"FetchSucceeded", "FetchFailed"},
	ConditionChecked:   {"CheckSucceeded", "CheckFailed"},
	ConditionReady:     {"UpgradeReady", "UpgradeNotReady"},
	ConditionAvailable: {"UpgradeAvailable", "UpgradeUnavailable"},
	ConditionPaused:    {"Paused", "NotPaused"},
	ConditionApplied:   {"ApplySucceeded", "ApplyFailed"},
	ConditionPools:     {"UpdateSucceeded", "UpdateFailed"},
	ConditionJobs:      {"JobRunSucceeded", "JobRunFailed"},
	ConditionNodes:     {"NodeUpgradeSucceeded", "NodeUpgradeFailed"},
}

// ConditionDocs describes the conditions, in the order in which they come up.
func ConditionDocs() []status.ConditionDoc {
	var docs []status.ConditionDoc
	for _, c := range []struct{ kind, met, unmet string }{
		{ConditionValid, "the API server takes the rule's Jobs; of a MutexTarget: its pools are there",
			"it does not, or a pool is missing; the message says what"},
		{ConditionGathered, "the nodes of the MutexTarget's pools are in its status", "a pool is missing, and the list is empty"},
		{ConditionValidated, "the run's rules, targets and canary pool are there and can be used", "one is not; the message says which and why"},
		{ConditionChecked, "the version that is aimed at and those of the nodes are known", "the ClusterVersion cannot be read"},
		{ConditionAvailable, "nodes of the targets have another version than the one that is aimed at", "all have it, or none is aimed at"},
		{ConditionReady, "the control plane has the version, so that nodes may be begun", "it does not have it yet"},
		{ConditionPaused, "the target pools are claimed and paused", "another run has one of them, or they have been given back"},
		{ConditionApplied, "the nodes have the labels of the rules", "some cannot be labelled; the message says why"},
		{ConditionPools, "the pools' selectors keep the nodes apart", "a pool cannot be changed; the message says why"},
		{ConditionJobs, "no Job has failed; the message names those that run", "a Job has failed or takes too long"},
		{ConditionNodes, "no node's upgrade has failed; the message names those under way", "a node's upgrade has failed or takes too long"},
	} {
		docs = append(docs, status.ConditionDoc{Type: c.kind, Reason: reasonsOf[c.kind].met, When: "True: " + c.met},
			status.ConditionDoc{Type: c.kind, Reason: reasonsOf[c.kind].unmet, When: "False: " + c.unmet})
	}
	return docs
}

// step is how far one condition is. A nil one has not been reached.
type step struct {
	met     bool
	message string
}

// conditions are those that a pass has found out about.
type conditions map[string]step

func (c conditions) yes(kind, message string) { c[kind] = step{true, message} }

func (c conditions) no(kind, message string) { c[kind] = step{false, message} }

// apply puts them over those that were there. Those that were not reached stay as they were.
func (c conditions) apply(all *[]metav1.Condition, generation int64, now metav1.Time) {
	for kind, s := range c {
		condition := metav1.Condition{
			Type: kind, Status: metav1.ConditionFalse, Reason: reasonsOf[kind].unmet, Message: status.Shorten(s.message, status.MaxMessage),
			ObservedGeneration: generation, LastTransitionTime: now,
		}
		if s.met {
			condition.Status, condition.Reason = metav1.ConditionTrue, reasonsOf[kind].met
		}
		meta.SetStatusCondition(all, condition)
	}
}
