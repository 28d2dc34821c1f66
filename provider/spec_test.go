package provider

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// TestDecodeSpec: an author of a Machine cannot have a quantity parsed that needs gigabytes.
func TestDecodeSpec(t *testing.T) {
	for text, want := range map[string]string{
		`{"capacity": {"cpu": "1e3", "memory": "64Gi", "pods": 1e2}}`: "",
		`{"capacity": {"cpu": "1e-1000000000"}}`:                      "the exponent must not have more than two digits",
		`{"capacity": {"cpu": 1E1000000000}}`:                         "the exponent must not have more than two digits",
		`{"capacity": {"cpu": "x"}}`:                                  "quantities must match",
		`{"capcity": {}}`:                                             `unknown field "capcity"`,
		`{"capacity": `:                                               "EOF",
	} {
		var spec struct {
			Capacity corev1.ResourceList `json:"capacity"`
		}
		err := DecodeSpec([]byte(text), &spec)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
