package status

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxMessage is how long the message of a condition may be, in bytes. The API server takes 32,768, and an object has several.
const MaxMessage = 8192

// Shorten bounds a text, in bytes. If it is too long, Shorten keeps its beginning and its end: the last lines say most.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const gap = " [...] "
	head := min(300, (limit-len(gap))/2)
	// What is cut in the middle of a character would be another text to the API server.
	return strings.ToValidUTF8(text[:head], "") + gap + strings.ToValidUTF8(text[len(text)-(limit-head-len(gap)):], "")
}

// expression is how the validation functions of Kubernetes quote the regular expression that a text does not match.
var expression = regexp.MustCompile(`, regex used for validation is '[^']*'`)

// Faults joins what the validation functions of Kubernetes say, without the regular expressions: what is allowed is there in words as well.
func Faults(faults []string) string {
	return expression.ReplaceAllString(strings.Join(faults, "; "), "")
}

// maxNamed is how many objects FirstNames names.
const maxNamed = 5

// FirstNames sorts names, and joins the first five; the others are counted.
func FirstNames(names []string) string {
	slices.Sort(names)
	return Names(names, maxNamed)
}

// Names joins at most so many names; the others are counted.
func Names(names []string, most int) string {
	return NamesOf(names[:min(len(names), most)], len(names))
}

// NamesOf joins the first of so many names; the others, which the caller does not have, are counted.
func NamesOf(first []string, count int) string {
	if count <= len(first) {
		return strings.Join(first, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(first, ", "), count-len(first))
}
