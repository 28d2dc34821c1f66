package status

import "strings"

// MaxMessage is how long the message of a condition may be, in bytes. The API server takes 32,768, and an object has several.
const MaxMessage = 8192

// Shorten bounds a text, in bytes. It keeps the beginning and the end of one that is too long: the last lines say most.
func Shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const gap = " [...] "
	head := min(300, (limit-len(gap))/2)
	// What is cut in the middle of a character would be another text to the API server.
	return strings.ToValidUTF8(text[:head], "") + gap + strings.ToValidUTF8(text[len(text)-(limit-head-len(gap)):], "")
}
