package cmdutil

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestEscaped_NamesHiddenCharacters(t *testing.T) {
	var out strings.Builder
	writer := &escaped{out: &out}
	text := "ä€\u202e𝄞\x1b[0m\u009b\n\t\xffz"
	if n, err := writer.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatal(n, err)
	}
	if want := "ä€\\u202e𝄞^[[0m\\u009b\n\t\ufffdz"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	// A control character of two bytes does not pass in two writes either.
	out.Reset()
	for _, b := range []byte("\u009b") {
		if _, err := writer.Write([]byte{b}); err != nil {
			t.Fatal(err)
		}
	}
	if strings.Contains(out.String(), "\u009b") || strings.Contains(out.String(), "\x9b") {
		t.Errorf("%q", out.String())
	}
	if Raw(writer) != any(&out) || Raw(&out) != any(&out) {
		t.Error("Raw returns another stream")
	}
}

type (
	named   string
	labeled struct{ text string }
	counted int
)

func (l labeled) String() string { return l.text }

func (counted) String() string { return "counted\nFORGED" }

// TestText_KeepsTextsInTheirLine: a line break in a value of any type does not begin a line.
func TestText_KeepsTextsInTheirLine(t *testing.T) {
	const broken = "a\n\tFORGED"
	for name, value := range map[string]any{
		"string": broken, "type of its own": named(broken), "pointer to a Stringer": &labeled{broken}, "Stringer": labeled{broken},
		"error": errors.New(broken), "slice": []string{broken}, "slice of a type of its own": []named{broken}, "bytes": []byte(broken),
		"map": map[string]string{"k": broken}, "Stringer that is a number": counted(1),
	} {
		t.Run(name, func(t *testing.T) {
			var text Text
			text.Printf("%s|%v|\n", value, value)
			text.Table(Columns{Always: []string{"Column"}}, [][]any{{value}})
			for line := range strings.Lines(text.String()) {
				if strings.HasPrefix(strings.TrimSpace(line), "FORGED") {
					t.Errorf("a value has begun a line:\n%s", text.String())
				}
			}
			if got := strings.Count(text.String(), "\n"); got != 3 {
				t.Errorf("%d lines, want 3:\n%s", got, text.String())
			}
		})
	}
}

func TestText_KeepsNumbers(t *testing.T) {
	var text Text
	text.Printf("%d %5.2f %t %s %q\n", 3, 1.5, true, time.Second, "b")
	if want := "3  1.50 true 1s \"b\"\n"; text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
}
