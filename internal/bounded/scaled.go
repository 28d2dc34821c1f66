package bounded

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Scaled returns how many of total a number or a percentage is. A percentage is rounded up, so that it is at least one unless it is 0% or total is
// 0; more than 100% is all of them. A negative number, and a text that is neither, is an error.
func Scaled(value intstr.IntOrString, total int) (int, error) {
	// A number may be written as a text. Of 100, a negative percentage cannot be rounded up to zero.
	value = intstr.Parse(value.String())
	if sample, err := intstr.GetScaledValueFromIntOrPercent(&value, 100, true); err != nil || sample < 0 {
		return 0, fmt.Errorf("%q is neither a number of at least 0 nor a percentage", value.String())
	} else if value.Type == intstr.String && sample > 100 {
		return total, nil
	}
	return intstr.GetScaledValueFromIntOrPercent(&value, total, true)
}
