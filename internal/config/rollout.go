package config

import (
	"cmp"
	"fmt"
	"regexp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	config "github.com/drover-io/drover/api/config/v1alpha1"
	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// The bounds of the schema of NodeGroups: api/drover/v1alpha1/nodegroup.go.
const (
	maxNodes       = 100_000
	maxPods        = 1_000_000
	maxPendingPods = 200
	maxReadySecs   = 24 * 60 * 60
	maxRolloutTime = 7 * 24 * time.Hour
)

// completeRollout fills in what the schema of NodeGroups has for fields that are absent: the status of each group shows the result, where the API
// server would add them. Nil stays nil.
func completeRollout(r *v1alpha1.Rollout) {
	if r == nil {
		return
	}
	r.MaxInFlight = cmp.Or(r.MaxInFlight, new(intstr.FromString("100%")))
	r.Pause = cmp.Or(r.Pause, &metav1.Duration{})
	r.ReleaseDelay = cmp.Or(r.ReleaseDelay, &metav1.Duration{Duration: time.Minute})
	r.StopWhen = cmp.Or(r.StopWhen, &v1alpha1.StopConditions{})
	r.StopWhen.NotReady = cmp.Or(r.StopWhen.NotReady, new(intstr.FromString("10%")))
	r.NoExecute = cmp.Or(r.NoExecute, &v1alpha1.NoExecute{})
	r.NoExecute.Policy = cmp.Or(r.NoExecute.Policy, v1alpha1.NoExecuteGuard)
	r.NoExecute.OnTimeout = cmp.Or(r.NoExecute.OnTimeout, v1alpha1.TimeoutHold)
}

// validateRollout checks the spec.rollout of NodeGroups as their schema does.
func validateRollout(path *field.Path, r *v1alpha1.Rollout) field.ErrorList {
	if r == nil {
		return nil
	}
	all := validateShare(path.Child("maxInFlight"), r.MaxInFlight)
	all = append(all, validateRange(path.Child("firstWave"), r.FirstWave, 1, maxNodes)...)
	if first, most := r.FirstWave, r.MaxInFlight; first != nil && most != nil && most.Type == intstr.Int && *first > most.IntVal {
		all = append(all, field.Invalid(path.Child("firstWave"), *first, "must not be above maxInFlight"))
	}
	all = append(all, validateRolloutTime(path.Child("pause"), r.Pause, 0)...)
	all = append(all, validateRolloutTime(path.Child("releaseDelay"), r.ReleaseDelay, 0)...)
	all = append(all, validateRange(path.Child("minReadySeconds"), &r.MinReadySeconds, 0, maxReadySecs)...)
	if stop := r.StopWhen; stop != nil {
		all = append(all, validateShare(path.Child("stopWhen", "notReady"), stop.NotReady)...)
		all = append(all, validateRange(path.Child("stopWhen", "pendingPods"), stop.PendingPods, 1, maxPendingPods)...)
	}
	if r.NoExecute != nil {
		all = append(all, validateNoExecute(path.Child("noExecute"), r.NoExecute)...)
	}
	return all
}

// MachineSetRollout returns metadata.rollout as a roll-out of a NodeGroup; nil for none.
func MachineSetRollout(c *config.DroverConfiguration) *v1alpha1.Rollout {
	r := c.Metadata.Rollout
	if r == nil {
		return nil
	}
	return &v1alpha1.Rollout{
		MaxInFlight: r.MaxInFlight, FirstWave: r.FirstWave, Pause: r.Pause, MinReadySeconds: r.MinReadySeconds,
		StopWhen:  &v1alpha1.StopConditions{NotReady: r.StopWhen.NotReady},
		NoExecute: &v1alpha1.NoExecute{Policy: v1alpha1.NoExecutePolicy(cmp.Or(r.NoExecute.Policy, string(v1alpha1.NoExecuteAllow)))},
	}
}

// validateMachineSetRollout checks metadata.rollout.
func validateMachineSetRollout(path *field.Path, c *config.DroverConfiguration) field.ErrorList {
	r := MachineSetRollout(c)
	if r != nil && r.NoExecute.Policy == v1alpha1.NoExecuteGuard {
		return field.ErrorList{field.Invalid(path.Child("noExecute", "policy"), r.NoExecute.Policy,
			"must be Allow or Refuse: only a NodeGroup evicts Pods before such a taint; create one that selects the MachineSets")}
	}
	return validateRollout(path, r)
}

func validateNoExecute(path *field.Path, n *v1alpha1.NoExecute) field.ErrorList {
	guard, hold := string(v1alpha1.NoExecuteGuard), string(v1alpha1.TimeoutHold)
	all := validateOneOf(path.Child("policy"), cmp.Or(string(n.Policy), guard), guard, string(v1alpha1.NoExecuteRefuse), string(v1alpha1.NoExecuteAllow))
	all = append(all, validateRange(path.Child("maxPodsPerNode"), n.MaxPodsPerNode, 0, maxNodes)...)
	all = append(all, validateRange(path.Child("maxPodsPerWave"), n.MaxPodsPerWave, 0, maxPods)...)
	all = append(all, validateRolloutTime(path.Child("timeout"), n.Timeout, 1)...)
	all = append(all, validateOneOf(path.Child("onTimeout"), cmp.Or(string(n.OnTimeout), hold), hold, string(v1alpha1.TimeoutProceed))...)
	if n.OnTimeout == v1alpha1.TimeoutProceed && n.Timeout == nil {
		all = append(all, field.Required(path.Child("timeout"), "onTimeout: Proceed needs a timeout"))
	}
	return all
}

// percentage is the pattern of the schema.
var percentage = regexp.MustCompile(`^(100|[1-9]?[0-9])%$`)

// validateShare checks a number of Nodes, or a percentage of them.
func validateShare(path *field.Path, share *intstr.IntOrString) field.ErrorList {
	if share == nil {
		return nil
	}
	valid := share.IntVal >= 1 && share.IntVal <= maxNodes
	if share.Type == intstr.String {
		valid = percentage.MatchString(share.StrVal) && share.StrVal != "0%"
	}
	if !valid {
		return field.ErrorList{field.Invalid(path, share.String(), "must be between 1 and 100000, or 1% and 100%")}
	}
	return nil
}

func validateRange(path *field.Path, value *int32, least, most int32) field.ErrorList {
	if value == nil || *value >= least && *value <= most {
		return nil
	}
	return field.ErrorList{field.Invalid(path, *value, fmt.Sprintf("must be from %d to %d", least, most))}
}

func validateRolloutTime(path *field.Path, value *metav1.Duration, least time.Duration) field.ErrorList {
	if value == nil || value.Duration >= least && value.Duration <= maxRolloutTime {
		return nil
	}
	return field.ErrorList{field.Invalid(path, value.Duration.String(), "must be a duration of at most 168h")}
}
