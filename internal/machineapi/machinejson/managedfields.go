package machinejson

import "bytes"

var (
	metadataStart = []byte(`"metadata":{`)
	managedFields = []byte(`"managedFields"`)
)

// withoutManagedFields cuts metadata.managedFields out of a Machine that begins as the API server writes it: it is more than half of a Machine, and
// nothing reads it. What is not written as expected is returned as it is. The bytes are changed.
func withoutManagedFields(machine []byte) []byte {
	rest, found := bytes.CutPrefix(machine, start)
	if !found || !bytes.HasPrefix(rest, metadataStart) {
		return machine
	}
	for begin := len(start) + len(metadataStart); begin < len(machine) && machine[begin] == '"'; {
		key := afterString(machine, begin)
		if key >= len(machine) || machine[key] != ':' {
			return machine
		}
		end := afterValue(machine, key+1)
		switch {
		case end >= len(machine):
			return machine
		case bytes.Equal(machine[begin:key], managedFields):
			return cut(machine, begin, end)
		case machine[end] != ',':
			return machine
		}
		begin = end + 1
	}
	return machine
}

// cut removes a member of an object, with the comma after it or, from the last one, that before it.
func cut(text []byte, begin, end int) []byte {
	switch {
	case text[end] == ',':
		end++
	case text[begin-1] == ',':
		begin--
	}
	return append(text[:begin], text[end:]...)
}

// afterString returns the index after the JSON string that begins at an index; the length of the text or more if it does not end.
func afterString(text []byte, at int) int {
	for at++; at < len(text); at++ {
		switch text[at] {
		case '\\':
			at++
		case '"':
			return at + 1
		}
	}
	return at
}

// afterValue returns the index after the JSON value that begins at an index; the length of the text or more if it does not end.
func afterValue(text []byte, at int) int {
	for depth := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = afterString(text, at)
			continue
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return at
			}
			depth--
		case ',':
			if depth == 0 {
				return at
			}
		}
		at++
	}
	return at
}
