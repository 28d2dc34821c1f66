package patch

import "testing"

func TestPointer(t *testing.T) {
	if got := Pointer("/a", "b~c/d~1"); got != "/a/b~0c~1d~01" {
		t.Errorf("%s: RFC 6901 asks for ~0 and ~1", got)
	}
}

func TestBuilder(t *testing.T) {
	seen := map[string]string{"there": "x"}
	for name, c := range map[string]struct {
		build func(*Builder)
		want  string
	}{
		"nothing":                 {func(*Builder) {}, `null`},
		"an entry that was there": {func(b *Builder) { b.TestEntry("/m", seen, "there") }, `[{"op":"test","path":"/m/there","value":"x"}]`},
		"an entry that was not":   {func(b *Builder) { b.TestEntry("/m", seen, "a/b") }, `[{"op":"test","path":"/m/a~1b","value":null}]`},
		"a map that is there":     {func(b *Builder) { b.Map("/m", seen) }, `null`},
		"a map that is not": {func(b *Builder) { b.Map("/m", nil) },
			`[{"op":"test","path":"/m","value":null},{"op":"add","path":"/m","value":{}}]`},
		"a list that grows": {func(b *Builder) { List(b, "/l", nil, []int{1}) },
			`[{"op":"test","path":"/l","value":null},{"op":"add","path":"/l","value":[1]}]`},
		"a list that empties": {func(b *Builder) { List(b, "/l", []int{1}, nil) },
			`[{"op":"test","path":"/l","value":[1]},{"op":"remove","path":"/l","value":null}]`},
	} {
		b := &Builder{}
		c.build(b)
		text, err := b.Bytes()
		if err != nil || string(text) != c.want || b.Empty() != (c.want == "null") {
			t.Errorf("%s: %s, %v; want %s", name, text, err, c.want)
		}
	}
}
