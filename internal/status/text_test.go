package status

import (
	"strings"
	"testing"
	"unicode/utf8"
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
