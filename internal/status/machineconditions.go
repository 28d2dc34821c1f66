package status

import (
	"slices"
	"strings"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SetMachineCondition puts a condition of the machine.openshift.io kinds into a list, which stays sorted by type; one without a Status is removed.
// The time of transition, in seconds, moves when anything of the condition changes, as in that API; the severity is dropped where the status is not
// False. The message is bounded.
func SetMachineCondition(conditions *[]machinev1beta1.Condition, next machinev1beta1.Condition, now time.Time) {
	if next.Status == "" {
		*conditions = slices.DeleteFunc(*conditions, func(c machinev1beta1.Condition) bool { return c.Type == next.Type })
		return
	}
	if next.Status != corev1.ConditionFalse {
		next.Severity = machinev1beta1.ConditionSeverityNone
	}
	next.Message = Shorten(next.Message, MaxMessage)
	next.LastTransitionTime = metav1.NewTime(now.UTC().Truncate(time.Second))
	i := slices.IndexFunc(*conditions, func(c machinev1beta1.Condition) bool { return c.Type == next.Type })
	if i < 0 {
		*conditions = append(*conditions, next)
	} else {
		before := (*conditions)[i]
		before.LastTransitionTime = next.LastTransitionTime
		if before == next {
			return
		}
		(*conditions)[i] = next
	}
	slices.SortStableFunc(*conditions, func(a, b machinev1beta1.Condition) int { return strings.Compare(string(a.Type), string(b.Type)) })
}

// MachineCondition finds a condition; nil when there is none.
func MachineCondition(conditions []machinev1beta1.Condition, kind machinev1beta1.ConditionType) *machinev1beta1.Condition {
	if i := slices.IndexFunc(conditions, func(c machinev1beta1.Condition) bool { return c.Type == kind }); i >= 0 {
		return &conditions[i]
	}
	return nil
}

// MachineConditionTrue returns a condition that is met, without its type. The reason may be empty.
func MachineConditionTrue(reason, message string) machinev1beta1.Condition {
	return machinev1beta1.Condition{Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// MachineConditionFalse returns a condition that is not met, without its type.
func MachineConditionFalse(severity machinev1beta1.ConditionSeverity, reason, message string) machinev1beta1.Condition {
	return machinev1beta1.Condition{Status: corev1.ConditionFalse, Severity: severity, Reason: reason, Message: message}
}
