package ownership

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// taints reads "a=1:NoSchedule b:NoExecute@5" as a list, the number after @ being timeAdded in Unix seconds.
func taints(text string) []corev1.Taint {
	var out []corev1.Taint
	for _, field := range strings.Fields(text) {
		field, added, timed := strings.Cut(field, "@")
		key, effect := SplitTaintID(field)
		key, value, _ := strings.Cut(key, "=")
		taint := corev1.Taint{Key: key, Value: value, Effect: effect}
		if timed {
			var seconds int64
			if _, err := fmt.Sscan(added, &seconds); err != nil {
				panic(err)
			}
			taint.TimeAdded = &metav1.Time{Time: time.Unix(seconds, 0)}
		}
		out = append(out, taint)
	}
	return out
}

func taintText(list []corev1.Taint) string {
	fields := make([]string, 0, len(list))
	for _, taint := range list {
		text := taint.Key
		if taint.Value != "" {
			text += "=" + taint.Value
		}
		text += ":" + string(taint.Effect)
		if taint.TimeAdded != nil {
			text += fmt.Sprintf("@%d", taint.TimeAdded.Unix())
		}
		fields = append(fields, text)
	}
	return strings.Join(fields, " ")
}

func TestApplyTaints(t *testing.T) {
	for _, c := range []struct {
		name, live, set string
		remove          []string
		want            string
	}{
		{"nothing to nothing", "", "", nil, ""},
		{"new ones come last, by name", "z:NoSchedule", "b:NoSchedule=1 a:NoExecute=1", nil, "z:NoSchedule a=1:NoExecute b=1:NoSchedule"},
		{"a changed one keeps its place and its time", "a=1:NoExecute@5 z:NoSchedule@6", "a:NoExecute=2", nil, "a=2:NoExecute@5 z:NoSchedule@6"},
		{"foreign ones keep order and times", "z:NoExecute@1 y:NoSchedule x=3:PreferNoSchedule@3", "", []string{"y:NoSchedule"},
			"z:NoExecute@1 x=3:PreferNoSchedule@3"},
		{"the same key with another effect is another taint", "a=1:NoSchedule", "a:NoExecute=2", nil, "a=1:NoSchedule a=2:NoExecute"},
		{"all of a repeated one are removed", "a=1:NoSchedule b:NoSchedule a=2:NoSchedule", "", []string{"a:NoSchedule"}, "b:NoSchedule"},
		{"of a repeated one the first is changed", "a=1:NoSchedule a=2:NoSchedule", "a:NoSchedule=3", nil, "a=3:NoSchedule a=2:NoSchedule"},
		{"the last one goes", "a:NoSchedule", "", []string{"a:NoSchedule"}, ""},
		{"a removal of what is not there", "a:NoSchedule", "", []string{"b:NoSchedule"}, "a:NoSchedule"},
	} {
		t.Run(c.name, func(t *testing.T) {
			live := taints(c.live)
			got := ApplyTaints(live, Result{Set: entries(c.set), Remove: c.remove})
			if taintText(got) != c.want {
				t.Errorf("got  %s\nwant %s", taintText(got), c.want)
			}
			if taintText(live) != c.live {
				t.Errorf("the live list became %s", taintText(live))
			}
			if cap(got) > len(got) {
				t.Error("an append to the result could reach shared memory")
			}
		})
	}
}

// The API server refuses repeated taints on a Node, but not on a Machine: the first one counts on the way in and on the way out.
func TestApplyTaints_RepeatedTaints(t *testing.T) {
	live := taints("a=1:NoSchedule a=2:NoSchedule")
	in := Input{Owned: NewKeys("a:NoSchedule"), Desired: map[string]string{"a:NoSchedule": "3"}, Live: TaintEntries(live), Now: clock}
	if in.Live["a:NoSchedule"] != "1" {
		t.Fatalf("the first does not count: %v", in.Live)
	}
	in.Live = TaintEntries(ApplyTaints(live, Merge(in)))
	if again := Merge(in); again.Changed() {
		t.Errorf("a second pass writes again: %s", describe(again))
	}
}

func TestTaintID(t *testing.T) {
	for _, c := range []struct{ id, key, effect string }{
		{"a:NoSchedule", "a", "NoSchedule"},
		{"example.com/a:NoExecute", "example.com/a", "NoExecute"},
		{"a", "a", ""},
		{"a:", "a", ""},
		{":NoSchedule", "", "NoSchedule"},
		{"a:b:NoSchedule", "a:b", "NoSchedule"},
		{"", "", ""},
	} {
		key, effect := SplitTaintID(c.id)
		if key != c.key || string(effect) != c.effect {
			t.Errorf("SplitTaintID(%q) = %q, %q", c.id, key, effect)
		}
		if whole := strings.Contains(c.id, ":"); whole && TaintID(corev1.Taint{Key: key, Effect: effect}) != c.id {
			t.Errorf("%q does not come back", c.id)
		}
	}
}
