package watch

import "testing"

func TestVersions(t *testing.T) {
	v := NewVersions()
	v.Wrote("uid", Write{Version: "100"})
	for _, c := range []struct {
		object, cached string
		behind, own    bool
	}{
		{"uid", "99", true, false},
		{"uid", "9", true, false},
		{"uid", "100", false, true},
		{"uid", "101", false, false},
		{"uid", "1000", false, false},
		{"another", "1", false, false},
		{"uid", "", false, false},
		{"uid", "not a number", false, false},
	} {
		_, own := v.Own(c.object, c.cached)
		if behind := v.Behind(c.object, c.cached); behind != c.behind || own != c.own {
			t.Errorf("%s at %q: behind %v, own %v", c.object, c.cached, behind, own)
		}
	}
	if last, _ := v.Own("uid", "100"); !last.Awaited {
		t.Error("nobody knows that a pass gave way")
	}
	if v.Wrote("uid", Write{Version: "200"}); !v.Behind("uid", "150") {
		t.Error("the later write does not count")
	}
	v.Forget("uid")
	if _, own := v.Own("uid", "200"); own || v.Behind("uid", "1") {
		t.Error("not forgotten")
	}
}
