package undecodable

import "bytes"

// The functions of this file find where values of a JSON text begin and end, without recursion and without decoding them: Go decodes no more than
// 10,000 levels, and what is nested as deep in an object is deeper in a list.

// AfterString returns the index after the JSON string that begins at an index; the length of the text or more if it does not end.
func AfterString(text []byte, at int) int {
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

// AfterValue returns the index after the JSON value that begins at an index; the length of the text or more if it does not end.
func AfterValue(text []byte, at int) int {
	for depth := 0; at < len(text); {
		switch text[at] {
		case '"':
			at = AfterString(text, at)
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

func afterBlanks(text []byte, at int) int {
	for at < len(text) && (text[at] == ' ' || text[at] == '\t' || text[at] == '\r' || text[at] == '\n') {
		at++
	}
	return at
}

// startsWith reports whether a text has a byte at an index.
func startsWith(text []byte, at int, b byte) bool { return at < len(text) && text[at] == b }

// member is a member of a JSON object: text[from:to] is the member, and text[value:to] its value.
type member struct {
	key             []byte
	from, value, to int
}

// eachMember calls visit for the members of the object that a text is, until it returns false. It reports whether the text is an object as far as
// it was read.
func eachMember(text []byte, visit func(member) (more bool)) bool {
	at := afterBlanks(text, 0)
	if !startsWith(text, at, '{') {
		return false
	}
	if at = afterBlanks(text, at+1); startsWith(text, at, '}') {
		return true
	}
	for startsWith(text, at, '"') {
		keyEnd := AfterString(text, at)
		colon := afterBlanks(text, keyEnd)
		if !startsWith(text, colon, ':') {
			return false
		}
		value := afterBlanks(text, colon+1)
		to := AfterValue(text, value)
		if to >= len(text) {
			return false
		}
		switch more := visit(member{text[at+1 : keyEnd-1], at, value, to}); {
		case !more:
			return true
		case text[to] == '}':
			return afterBlanks(text, to+1) == len(text)
		}
		if text[to] != ',' {
			return false
		}
		at = afterBlanks(text, to+1)
	}
	return false
}

// eachItem calls visit for the items of the list that a text is, until it returns an error. It reports whether the text is a list as far as it
// was read.
func eachItem(text []byte, visit func(item []byte) error) (isList bool, err error) {
	at := afterBlanks(text, 0)
	if !startsWith(text, at, '[') {
		return false, nil
	}
	if at = afterBlanks(text, at+1); startsWith(text, at, ']') {
		return true, nil
	}
	for {
		to := AfterValue(text, at)
		if to >= len(text) || text[to] == '}' {
			return false, nil
		}
		if err := visit(text[at:to:to]); err != nil {
			return true, err
		}
		if text[to] == ']' {
			return true, nil
		}
		at = afterBlanks(text, to+1)
	}
}

// withoutManagedFields cuts metadata.managedFields out of an object: they are more than half of it, of any depth, and nothing reads them. What is not
// written as expected is returned as it is. The bytes are changed.
func withoutManagedFields(object []byte) []byte {
	begin, end := 0, 0
	eachMember(object, func(of member) bool {
		if string(of.key) != "metadata" {
			return true
		}
		eachMember(object[of.value:of.to], func(in member) bool {
			if string(in.key) == "managedFields" {
				begin, end = of.value+in.from, of.value+in.to
			}
			return end == 0
		})
		return false
	})
	if end == 0 {
		return object
	}
	return cut(object, begin, end)
}

// cut removes a member of an object, with the comma after it or, from the last one, that before it.
func cut(text []byte, begin, end int) []byte {
	before := bytes.TrimRight(text[:begin], " \t\r\n")
	switch {
	case text[end] == ',':
		end++
	case bytes.HasSuffix(before, []byte(",")):
		begin = len(before) - 1
	}
	return append(text[:begin], text[end:]...)
}
