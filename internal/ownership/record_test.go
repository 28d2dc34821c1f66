package ownership

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func fullRecord() Record {
	return Record{
		Section:    Section{Labels: keys("b a"), Annotations: keys("example.com/n"), Taints: keys("t:NoSchedule")},
		Machine:    &Section{Labels: keys("m"), Taints: keys("mt:NoExecute")},
		Once:       keys("once:NoSchedule"),
		Released:   map[Kind]map[string]Release{Label: {"gone": {Value: "1", At: 7}}},
		Source:     "workers",
		Generation: 3,
		Digest:     "00ff",
	}
}

func TestRecord_Format(t *testing.T) {
	want := `{"labels":["a","b"],"annotations":["example.com/n"],"taints":["t:NoSchedule"],` +
		`"machine":{"labels":["m"],"taints":["mt:NoExecute"]},"once":["once:NoSchedule"],` +
		`"released":{"label":{"gone":{"value":"1","at":7}}},"pool":"workers","generation":3,"digest":"00ff"}`
	if got := fullRecord().Format(); got != want {
		t.Fatalf("got  %s\nwant %s", got, want)
	}
	back, err := ParseRecord(want)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(fullRecord(), back, cmpopts.EquateEmpty()); diff != "" {
		t.Error(diff)
	}
}

func TestParseRecord(t *testing.T) {
	for _, c := range []struct{ name, text, want, err string }{
		{"no annotation", "", "", ""},
		{"null", "null", "", ""},
		{"an empty object", "{}", "", ""},
		{"repeated and empty keys", `{"labels":["b","","a","b"]}`, `{"labels":["a","b"]}`, ""},
		{"a null list", `{"labels":null}`, "", ""},
		{"fields of a later version", `{"labels":["a"],"zones":{"x":1}}`, `{"labels":["a"]}`, ""},
		{"an empty machine section", `{"labels":["a"],"machine":{}}`, `{"labels":["a"]}`, ""},
		{"no JSON", "a,b", "", "nothing is taken as owned"},
		{"cut off", `{"labels":["a"`, "", "nothing is taken as owned"},
		{"something after it", `{"labels":["a"]} {}`, "", "nothing is taken as owned"},
		{"a list", `["a"]`, "", "nothing is taken as owned"},
		{"labels as text", `{"labels":"a"}`, "", "nothing is taken as owned"},
		{"labels with numbers", `{"labels":["a",1]}`, "", "nothing is taken as owned"},
		{"a generation too large", `{"labels":["a"],"generation":1e99}`, "", "nothing is taken as owned"},
		{"too long", `{"labels":["` + strings.Repeat("a", MaxRecordBytes) + `"]}`, "", "at most 32768 are read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			record, err := ParseRecord(c.text)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Fatalf("error %v, want %q", err, c.err)
			}
			if got := record.Format(); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

// TestParseGroupRecord: the record of a NodeGroup is read like the record of a MachineSet, and an error names the annotation that a user has to
// correct.
func TestParseGroupRecord(t *testing.T) {
	text := fullRecord().Format()
	if record, err := ParseGroupRecord(text); err != nil || record.Format() != text {
		t.Errorf("got %s, %v", record.Format(), err)
	}
	for name, parse := range map[string]func(string) (Record, error){AnnotationGroupRecord: ParseGroupRecord, AnnotationRecord: ParseRecord} {
		for _, invalid := range []string{`{"labels":`, strings.Repeat(" ", MaxRecordBytes+1)} {
			record, err := parse(invalid)
			if err == nil || !strings.HasPrefix(err.Error(), "annotation "+name+" ") || !record.Empty() {
				t.Errorf("%.20q: %+v, %v; want an error about annotation %s", invalid, record, err, name)
			}
		}
	}
}

func TestRecord_Owned(t *testing.T) {
	record := fullRecord()
	owned := record.Owned(Label)
	if !owned.Equal(keys("a b m")) || !record.Owned(Annotation).Equal(keys("example.com/n")) ||
		!record.Owned(Taint).Equal(keys("t:NoSchedule mt:NoExecute")) {
		t.Errorf("owned %v", owned.Sorted())
	}
	if (Record{}).Owned(Taint).Len() != 0 {
		t.Error("an empty record owns something")
	}
}

func TestRecord_SameKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(*Record)
		same bool
	}{
		{"nothing", func(*Record) {}, true},
		{"generation, pool and digest", func(r *Record) { r.Generation, r.Source, r.Digest = 9, "x", "y" }, true},
		{"what was released", func(r *Record) { r.Released = nil }, true},
		{"a label", func(r *Record) { r.Labels = keys("a") }, false},
		{"an annotation", func(r *Record) { r.Annotations = nil }, false},
		{"a taint's effect", func(r *Record) { r.Taints = keys("t:NoExecute") }, false},
		{"a label of the Machine", func(r *Record) { r.Machine = &Section{Labels: keys("n"), Taints: keys("mt:NoExecute")} }, false},
		{"the Machine's section", func(r *Record) { r.Machine = nil }, false},
		{"a label that moves to the Machine", func(r *Record) {
			r.Labels, r.Machine = keys("a"), &Section{Labels: keys("b m"), Taints: keys("mt:NoExecute")}
		}, false},
		{"a taint given once", func(r *Record) { r.Once = nil }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			other := fullRecord()
			c.edit(&other)
			if fullRecord().SameKeys(other) != c.same || other.SameKeys(fullRecord()) != c.same {
				t.Errorf("SameKeys is not %v", c.same)
			}
		})
	}
	if !(Record{Machine: &Section{}}).SameKeys(Record{}) {
		t.Error("an empty section of the Machine is not none")
	}
}

// An empty record is no annotation: a Node that nothing is declared for must not get one.
func TestRecord_Empty(t *testing.T) {
	for name, c := range map[string]struct {
		record Record
		empty  bool
	}{
		"zero":                   {Record{}, true},
		"pool and digest alone":  {Record{Source: "a", Generation: 1, Digest: "x"}, true},
		"empty sets":             {Record{Section: Section{Labels: Keys{}}, Machine: &Section{Taints: Keys{}}, Once: Keys{}}, true},
		"a label":                {Record{Section: Section{Labels: keys("a")}}, false},
		"a taint of the Machine": {Record{Machine: &Section{Taints: keys("a:NoSchedule")}}, false},
		"a taint given once":     {Record{Once: keys("a:NoSchedule")}, false},
		"a released key":         {Record{Released: map[Kind]map[string]Release{Label: {"a": {}}}}, false},
	} {
		if c.record.Empty() != c.empty || (c.record.Format() == "") != c.empty {
			t.Errorf("%s: Empty is %v, text %q", name, c.record.Empty(), c.record.Format())
		}
	}
}

func TestSection(t *testing.T) {
	section := Section{}
	for i, kind := range Kinds {
		section = section.With(kind, NewKeys(string(rune('a'+i))))
	}
	for i, kind := range Kinds {
		if !section.Of(kind).Equal(NewKeys(string(rune('a' + i)))) {
			t.Errorf("%s holds %v", kind, section.Of(kind).Sorted())
		}
		if !section.With(kind, nil).With(kind, section.Of(kind)).Equal(section) || section.With(kind, nil).Equal(section) {
			t.Errorf("With(%s) does not replace", kind)
		}
	}
	if section.Empty() || !(Section{Labels: Keys{}}).Empty() {
		t.Error("Empty is wrong")
	}
}

func TestCustomLabels(t *testing.T) {
	for text, want := range map[string]string{
		"":                     "",
		",":                    "",
		"a":                    "a",
		"b,a":                  "a,b",
		" a , b ,, a,\n":       "a,b",
		"example.com/x,a.b/c":  "a.b/c,example.com/x",
		"a;b":                  "a;b",
		"{\"labels\":[\"a\"]}": "{\"labels\":[\"a\"]}",
	} {
		if got := FormatCustomLabels(ParseCustomLabels(text)); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	if FormatCustomLabels(nil) != "" {
		t.Error("no keys are not the empty text")
	}
}

func TestKeys(t *testing.T) {
	var none Keys
	a, ab, bc := keys("a"), keys("a b"), keys("b c")
	for name, ok := range map[string]bool{
		"nil is empty": none.Equal(Keys{}) && Keys{}.Equal(none) && none.Len() == 0 && !none.Has("a") && len(none.Sorted()) == 0,
		"nil in operations": none.Union(a).Equal(a) && a.Union(nil).Equal(a) && none.Minus(a).Equal(nil) && a.Minus(nil).Equal(a) &&
			a.And(nil).Len() == 0,
		"union":                       ab.Union(bc).Equal(keys("a b c")),
		"minus":                       ab.Minus(bc).Equal(a),
		"and":                         ab.And(bc).Equal(keys("b")),
		"a subset is not equal":       !a.Equal(ab) && !ab.Equal(a),
		"of the same size, not equal": !ab.Equal(bc),
		"the keys of a map":           KeysOf(map[string]int{"a": 1, "b": 2}).Equal(ab),
	} {
		if !ok {
			t.Error(name)
		}
	}
	text, err := json.Marshal(struct{ Some, None Keys }{keys("b a"), nil})
	if err != nil || string(text) != `{"Some":["a","b"],"None":null}` {
		t.Errorf("%s, %v", text, err)
	}
}
