package cmdutil

import (
	"fmt"
	"io"
	"reflect"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// escaped writes text for people. What other users and controllers write into an object can contain control sequences for the terminal:
// escaped replaces control characters and characters that change the direction of text by their names. kubectl does so with some of them
// (k8s.io/cli-runtime/pkg/printers, EscapeTerminal).
//
// A character that is cut between two writes is replaced too: commands write whole lines.
type escaped struct{ out io.Writer }

// Write escapes text and passes it on.
func (e *escaped) Write(text []byte) (int, error) {
	if _, err := io.WriteString(e.out, Escape(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Raw returns the stream behind an escaping stream: for documents, which must not be changed, and to draw on a terminal.
func Raw(out io.Writer) io.Writer {
	if e, ok := out.(*escaped); ok {
		return e.out
	}
	return out
}

// Escape replaces the characters that must not reach a terminal by their names. Line breaks and tabs stay.
func Escape(text string) string {
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

// hidden reports whether a character does not reach the terminal.
func hidden(r rune) bool {
	return r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == '\u2028' || r == '\u2029')
}

var lineBreaks = strings.NewReplacer("\n", `\n`, "\t", `\t`, "\v", `\v`, "\f", `\f`)

// inLine returns values with the line breaks in their texts escaped. Only numbers and booleans have none: all others, also of types of
// their own and with a String or Error method, become strings.
func inLine(values []any) []any {
	escaped := make([]any, len(values))
	for i, value := range values {
		if kind := reflect.ValueOf(value).Kind(); kind >= reflect.Bool && kind <= reflect.Complex128 {
			if _, named := value.(fmt.Stringer); !named {
				escaped[i] = value
				continue
			}
		}
		escaped[i] = lineBreaks.Replace(fmt.Sprint(value))
	}
	return escaped
}

// Warn prints a warning.
func (o *Options) Warn(format string, args ...any) error {
	_, err := fmt.Fprintf(o.ErrOut, "Warning: "+format+"\n", inLine(args)...)
	return err
}
