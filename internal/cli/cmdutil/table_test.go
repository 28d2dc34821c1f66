package cmdutil

import (
	"strings"
	"testing"

	"github.com/drover-io/drover/internal/ownership"
)

func TestText_Entry(t *testing.T) {
	long := strings.Repeat("x", 200)
	for _, c := range []struct {
		kind       ownership.Kind
		key, value string
		wide       bool
		want       string
	}{
		{ownership.Label, "a", "b", false, "a=b"},
		{ownership.Label, "a", "", false, `a=""`},
		{ownership.Annotation, "a", "b c", false, `a="b c"`},
		{ownership.Annotation, "a", "\x1b[31m", false, `a="\x1b[31m"`},
		{ownership.Annotation, "a", `say "b"`, false, `a="say \"b\""`},
		{ownership.Annotation, "a", long, false, "a=" + long[:59] + "…"},
		{ownership.Annotation, "a", long, true, "a=" + long},
		{ownership.Taint, "a:NoSchedule", "b", false, "a=b:NoSchedule"},
		{ownership.Taint, "a:NoSchedule", "", false, "a:NoSchedule"},
	} {
		if got := (&Text{Wide: c.wide}).Entry(c.kind, c.key, c.value); got != c.want {
			t.Errorf("got %s, want %s", got, c.want)
		}
	}
}
