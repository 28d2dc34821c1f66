package status

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	machinev1beta1 "github.com/openshift/api/machine/v1beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

func TestShorten(t *testing.T) {
	for _, limit := range []int{20, 100, 1024, MaxMessage} {
		for _, text := range []string{"", "short", strings.Repeat("x", limit), strings.Repeat("é", limit) + "end", strings.Repeat("€", 3*limit) + "end"} {
			got := Shorten(text, limit)
			switch {
			case len(text) <= limit && got != text:
				t.Errorf("a text of %d bytes is changed", len(text))
			case len(got) > limit:
				t.Errorf("a text of %d bytes has %d, more than %d", len(text), len(got), limit)
			case len(text) > limit && (!strings.HasSuffix(got, "end") || !strings.Contains(got, "[...]") || !utf8.ValidString(got)):
				t.Errorf("limit %d: %q", limit, got)
			}
		}
	}
}

func TestSetMachineCondition_LongMessage(t *testing.T) {
	var conditions []machinev1beta1.Condition
	for range 2 {
		long := machinev1beta1.Condition{Type: "Ready", Status: corev1.ConditionFalse, Message: strings.Repeat("é", 1<<20)}
		SetMachineCondition(&conditions, long, time.Unix(0, 0))
	}
	if len(conditions) != 1 || len(conditions[0].Message) > MaxMessage {
		t.Errorf("%d conditions, the message has %d bytes", len(conditions), len(conditions[0].Message))
	}
}

func TestNames(t *testing.T) {
	for count, want := range map[int]string{0: "", 1: "a", 3: "a, b, c", 4: "a, b, c and 1 more"} {
		if got := Names([]string{"a", "b", "c", "d"}[:count], 3); got != want {
			t.Errorf("%d: %s", count, got)
		}
	}
	if got := FirstNames([]string{"f", "e", "d", "c", "b", "a"}); got != "a, b, c, d, e and 1 more" {
		t.Error(got)
	}
	if got := NamesOf([]string{"a", "b"}, 9); got != "a, b and 7 more" {
		t.Error(got)
	}
}

func TestFaults(t *testing.T) {
	got := Faults(append(validation.IsQualifiedName("bad key"), validation.IsDNS1123Label("A")...))
	if strings.ContainsAny(got, "*[?") || !strings.Contains(got, "'123-abc'); ") || !strings.HasSuffix(got, "'123-abc')") {
		t.Error(got)
	}
}
