package cli

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaped writes text for people. What other users and controllers write into an object may try to steer the terminal, or to hide what it says:
// control characters and those that change the direction of text are replaced by their names, as kubectl does with a part of them
// (k8s.io/cli-runtime/pkg/printers, EscapeTerminal).
type escaped struct {
	out io.Writer
	// rest is the beginning of a character that a write has cut.
	rest []byte
}

// Write escapes text and passes it on.
func (e *escaped) Write(text []byte) (int, error) {
	whole := slices.Concat(e.rest, text)
	cut := len(whole)
	for cut > 0 && len(whole)-cut < utf8.UTFMax && !utf8.RuneStart(whole[cut-1]) {
		cut--
	}
	if cut > 0 && !utf8.FullRune(whole[cut-1:]) {
		cut--
	} else {
		cut = len(whole)
	}
	e.rest = append([]byte(nil), whole[cut:]...)
	if _, err := io.WriteString(e.out, escape(string(whole[:cut]))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// raw is the stream behind one that escapes: for documents, which have to be byte for byte what was asked for, and to draw on a terminal.
func raw(out io.Writer) io.Writer {
	if e, ok := out.(*escaped); ok {
		return e.out
	}
	return out
}

// escape names the characters that must not reach a terminal. Lines and tabs stay.
func escape(text string) string {
	if utf8.ValidString(text) && !strings.ContainsFunc(text, hidden) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		switch {
		case r == '\x1b':
			out.WriteString("^[")
		case hidden(r):
			out.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			out.WriteRune(r)
		}
	}
	return out.String()
}

func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

// printf formats a line for people. Texts stay in their line: a line break in one would begin a line that Drover has not written.
func printf(out io.Writer, format string, args ...any) error {
	for i, arg := range args {
		switch arg := arg.(type) {
		case string:
			args[i] = inLine.Replace(arg)
		case error:
			args[i] = inLine.Replace(arg.Error())
		}
	}
	_, err := fmt.Fprintf(out, format, args...)
	return err
}

var inLine = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\v", `\v`, "\f", `\f`)
