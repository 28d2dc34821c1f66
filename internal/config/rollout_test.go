package config

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/drover-io/drover/api/drover/v1alpha1"
)

// TestValidateRollout_FirstWave: a first wave is not larger than the others, as in the schema of NodeGroups.
func TestValidateRollout_FirstWave(t *testing.T) {
	for name, c := range map[string]struct {
		most    intstr.IntOrString
		invalid bool
	}{
		"more than the others":  {intstr.FromInt32(2), true},
		"as many as the others": {intstr.FromInt32(3), false},
		"a percentage":          {intstr.FromString("1%"), false},
	} {
		t.Run(name, func(t *testing.T) {
			errors := validateRollout(field.NewPath("rollout"), &v1alpha1.Rollout{FirstWave: new(int32(3)), MaxInFlight: &c.most})
			if invalid := len(errors) == 1 && errors[0].Field == "rollout.firstWave"; invalid != c.invalid || !invalid && len(errors) > 0 {
				t.Errorf("errors are %v", errors)
			}
		})
	}
}
