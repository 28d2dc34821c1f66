package bounded

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
)

func TestScaled(t *testing.T) {
	for text, test := range map[string]struct {
		total, want int
		fails       bool
	}{
		"0":                     {7, 0, false},
		"3":                     {7, 3, false},
		"10":                    {7, 10, false},
		"0%":                    {7, 0, false},
		"1%":                    {7, 1, false},
		"20%":                   {20, 4, false},
		"21%":                   {20, 5, false},
		"100%":                  {7, 7, false},
		"150%":                  {7, 7, false},
		"9000000000000000000%":  {7, 7, false},
		"50%":                   {0, 0, false},
		"-1":                    {7, 0, true},
		"-1%":                   {1, 0, true},
		"":                      {7, 0, true},
		"%":                     {7, 0, true},
		"all":                   {7, 0, true},
		"1.5":                   {7, 0, true},
		"2 %":                   {7, 0, true},
		"99999999999999999999":  {7, 0, true},
		"99999999999999999999%": {7, 0, true},
	} {
		got, err := Scaled(intstr.FromString(text), test.total)
		if got != test.want || (err != nil) != test.fails {
			t.Errorf("%q of %d: %d, %v; want %d", text, test.total, got, err, test.want)
		}
	}
}
