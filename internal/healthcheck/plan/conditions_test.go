package plan

import (
	"slices"
	"testing"
	"time"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestLimitText(t *testing.T) {
	for want, value := range map[string]*intstr.IntOrString{
		"100%": nil, "40%": new(intstr.FromString("40%")), "4": new(intstr.FromInt32(4)), "nonsense": new(intstr.FromString("nonsense")),
	} {
		if got := limitText(value); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSetCondition_TransitionTime(t *testing.T) {
	const a, b = machinev1beta1.ConditionType("A"), machinev1beta1.ConditionType("B")
	warning := machinev1beta1.ConditionSeverityWarning
	list := setCondition(nil, b, *conditionTrue("", ""), start)
	list = setCondition(list, a, *conditionFalse(warning, "R", "m"), start.Add(1500*time.Millisecond))
	if len(list) != 2 || list[0].Type != a || list[0].LastTransitionTime != metav1.NewTime(start.Add(time.Second)) {
		t.Fatalf("%+v", list)
	}
	later := start.Add(time.Minute)
	for name, c := range map[string]struct {
		condition *Condition
		changes   bool
	}{
		"the same":         {conditionFalse(warning, "R", "m"), false},
		"another reason":   {conditionFalse(warning, "S", "m"), true},
		"another message":  {conditionFalse(warning, "R", "n"), true},
		"another severity": {conditionFalse(machinev1beta1.ConditionSeverityInfo, "R", "m"), true},
		"another status":   {conditionTrue("R", "m"), true},
	} {
		after := setCondition(slices.Clone(list), a, *c.condition, later)
		if changed := after[0].LastTransitionTime.Time.Equal(later); changed != c.changes || FindCondition(after, a) != *c.condition {
			t.Errorf("%s: %+v", name, after)
		}
	}
	if list = setCondition(list, a, Condition{}, later); len(list) != 1 || FindCondition(list, a) != (Condition{}) {
		t.Errorf("%+v", list)
	}
}
