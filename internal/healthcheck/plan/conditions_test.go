package plan

import (
	"testing"

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
