package machineapi

import (
	"strings"
	"testing"
)

func TestParseQuantity(t *testing.T) {
	for text, want := range map[string]string{
		"4": "4", "2500m": "2500m", "16Gi": "16Gi", "3G": "3G", "0": "0", "1.5": "1500m", "999999999999999999": "999999999999999999", "0.000000001": "1n",
		"17179869184": "17179869184", "100k": "100k", "1Ei": "1Ei",
		"": "", "-1": "", "many": "", "1e3": "", "1E3": "", "1e-1000000000": "", "1234567890123456789e1000000000": "", "0e2000000000": "",
		"1234567890123456789": "", "1.0000000001": "", " 1": "", "1 ": "", "+1": "", strings.Repeat("9", 1<<20): "",
	} {
		quantity, ok := ParseQuantity(text)
		if ok != (want != "") || ok && quantity.String() != want {
			t.Errorf("%.40q: %s, %v, want %q", text, quantity.String(), ok, want)
		}
	}
}
