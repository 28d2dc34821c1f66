package ownership

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// A record is an annotation that every user with edit rights on Nodes can change.
func FuzzParseRecord(f *testing.F) {
	for _, seed := range []string{
		"", "null", "{}", fullRecord().Format(), `{"labels":["a","a",""]}`, `{"machine":{"labels":null}}`, `{"labels":["kubernetes.io/hostname"]}`,
		`{"released":{"label":{"kubernetes.io/os":{"value":"linux","at":1700000000}}}}`, `{"released":{"nonsense":{"a":{"at":-9223372036854775808}}}}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		record, err := ParseRecord(text)
		if err != nil {
			if !record.Empty() || record.Source != "" || record.Generation != 0 {
				t.Fatalf("text that is no record owns something: %+v", record)
			}
			return
		}
		written := record.Format()
		back, err := ParseRecord(written)
		if err != nil && len(written) <= MaxRecordBytes {
			t.Fatalf("%q became %q: %v", text, written, err)
		}
		if err == nil && (!back.SameKeys(record) || back.Format() != written) {
			t.Fatalf("%q became %q became %q", text, written, back.Format())
		}
		for _, kind := range Kinds {
			checkHostile(t, kind, record)
		}
	})
}

// checkHostile merges with a forged record: the keys of the system stay, all others may be owned.
func checkHostile(t *testing.T, kind Kind, record Record) {
	live := map[string]string{
		"kubernetes.io/hostname": "n1", "kubernetes.io/os": "linux", "node.kubernetes.io/unschedulable:NoSchedule": "", "k8s.ovn.org/x": "y",
	}
	in := Input{
		Owned: record.Owned(kind), Released: record.Released[kind], Live: live, Protected: DefaultProtected().Of(kind), Now: clock,
	}
	r := Merge(in)
	if err := invariants(in, r); err != nil {
		t.Fatal(err)
	}
	if len(r.Set) > 0 {
		t.Fatalf("a record sets %v", r.Set)
	}
}

func FuzzParseCustomLabels(f *testing.F) {
	for _, seed := range []string{"", ",", "a,b", " a ,, b,a ", "example.com/a,\tb\n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		keys := ParseCustomLabels(text)
		written := FormatCustomLabels(keys)
		if back := ParseCustomLabels(written); !back.Equal(keys) {
			t.Fatalf("%q became %q: %v, was %v", text, written, back.Sorted(), keys.Sorted())
		}
		for key := range keys {
			if key == "" || strings.TrimSpace(key) != key || strings.Contains(key, ",") {
				t.Fatalf("%q gave the key %q", text, key)
			}
		}
	})
}

// mergeInput is an Input as text, for the fuzzer.
type mergeInput struct {
	Owned, Protected, Proven, Hold, Abandon Keys
	Released                                map[string]Release
	Desired, Live                           map[string]string
	Policy                                  Policy
	Now                                     int64
}

func FuzzMerge(f *testing.F) {
	for _, seed := range []string{
		`{"Owned":["a"],"Desired":{"a":"1","b":"1"},"Live":{"a":"2","b":"2","c":"3"}}`,
		`{"Owned":["a","sys"],"Protected":["sys"],"Live":{"a":"2","sys":"1"},"Hold":["a"]}`,
		`{"Released":{"a":{"value":"1","at":100}},"Live":{"a":"1"},"Now":160}`,
		`{"Released":{"a":{"value":"1","at":100}},"Live":{"a":"1"},"Desired":{"a":"2"},"Now":160,"Policy":"adopt"}`,
		`{"Owned":["a"],"Abandon":["a"],"Proven":["b"],"Desired":{"b":"1"},"Live":{"a":"1","b":"2"},"Policy":"fail"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var given mergeInput
		if json.Unmarshal(text, &given) != nil {
			return
		}
		in := Input{
			Owned: given.Owned, Released: given.Released, Desired: given.Desired, Live: given.Live, Protected: given.Protected.Has,
			Inherited: given.Proven.Has, Skip: given.Hold.Has, Disown: given.Abandon.Has, Policy: given.Policy, Now: time.Unix(given.Now, 0),
		}
		r := Merge(in)
		if err := invariants(in, r); err != nil {
			t.Fatalf("%v\ninput: %s", err, text)
		}
		if again := Merge(in); describe(again) != describe(r) {
			t.Fatalf("twice the same input: %s, %s", describe(r), describe(again))
		}
	})
}

func FuzzPattern(f *testing.F) {
	for _, seed := range [][2]string{{"a/*", "a/b"}, {"*.a/*", "x.a/b"}, {"*", ""}, {"a*b*c", "abbc"}, {"", "a"}, {"a.b", "axb"}} {
		f.Add(seed[0], seed[1])
	}
	f.Fuzz(func(t *testing.T, pattern, text string) {
		// Keys are valid UTF-8, as all JSON is; regexp cannot compare anything else.
		pattern, text = strings.ToValidUTF8(pattern, "?"), strings.ToValidUTF8(text, "?")
		if got := match(pattern, text); got != reference(pattern, text) {
			t.Fatalf("match(%q, %q) = %v", pattern, text, got)
		}
		if ValidatePattern(pattern) == nil && match(pattern, "") {
			t.Fatalf("the pattern %q is valid and matches the empty key, so every key", pattern)
		}
	})
}
