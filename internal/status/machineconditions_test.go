package status

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestSetMachineCondition(t *testing.T) {
	const a, b = machinev1beta1.ConditionType("A"), machinev1beta1.ConditionType("B")
	warning := machinev1beta1.ConditionSeverityWarning
	start := time.Unix(1_700_000_000, 0).UTC()
	typed := func(kind machinev1beta1.ConditionType, c machinev1beta1.Condition) machinev1beta1.Condition {
		c.Type = kind
		return c
	}
	var list []machinev1beta1.Condition
	SetMachineCondition(&list, typed(b, MachineConditionTrue("", "")), start)
	SetMachineCondition(&list, typed(a, MachineConditionFalse(warning, "R", "m")), start.Add(1500*time.Millisecond))
	if len(list) != 2 || list[0].Type != a || list[0].LastTransitionTime != metav1.NewTime(start.Add(time.Second)) {
		t.Fatalf("%+v", list)
	}
	later := start.Add(time.Minute)
	for name, c := range map[string]struct {
		condition machinev1beta1.Condition
		changes   bool
	}{
		"the same":         {MachineConditionFalse(warning, "R", "m"), false},
		"another reason":   {MachineConditionFalse(warning, "S", "m"), true},
		"another message":  {MachineConditionFalse(warning, "R", "n"), true},
		"another severity": {MachineConditionFalse(machinev1beta1.ConditionSeverityInfo, "R", "m"), true},
		"another status":   {MachineConditionTrue("R", "m"), true},
	} {
		after := slices.Clone(list)
		SetMachineCondition(&after, typed(a, c.condition), later)
		found := *MachineCondition(after, a)
		changed := found.LastTransitionTime.Time.Equal(later)
		found.LastTransitionTime = metav1.Time{}
		if changed != c.changes || found != typed(a, c.condition) {
			t.Errorf("%s: %+v", name, after)
		}
	}
	SetMachineCondition(&list, machinev1beta1.Condition{Type: a}, later)
	if len(list) != 1 || MachineCondition(list, a) != nil {
		t.Errorf("not removed: %+v", list)
	}
	SetMachineCondition(&list, typed(b, machinev1beta1.Condition{Status: "True", Severity: warning}), later)
	if list[0].Severity != "" || !list[0].LastTransitionTime.Time.Equal(start) {
		t.Errorf("a condition that is True has no severity: %+v", list)
	}
}
