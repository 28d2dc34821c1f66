package machineapi

import (
	"regexp"

	"k8s.io/apimachinery/pkg/api/resource"
)

// capacityQuantity are the quantities that an annotation of a capacity can have: up to 18 digits before the point and nine behind it, with a suffix
// and without an exponent. That is what resource.ParseQuantity computes with integers: for 1e-1000000000, which it takes as well, it needs gigabytes
// (https://github.com/kubernetes/apimachinery/blob/v0.37.1/pkg/api/resource/quantity.go).
var capacityQuantity = regexp.MustCompile(`^[0-9]{1,18}([.][0-9]{1,9})?([mkMGTPE]|[KMGTPE]i)?$`)

// ParseQuantity parses the value of an annotation of a capacity, which anyone may have written who may change the MachineSet. It reports false for
// what is no quantity of zero or more, or has more digits than a capacity needs.
func ParseQuantity(text string) (quantity resource.Quantity, ok bool) {
	if !capacityQuantity.MatchString(text) {
		return quantity, false
	}
	quantity, err := resource.ParseQuantity(text)
	return quantity, err == nil
}
