package expectations

import (
	"testing"
	"time"
)

func TestObjects(t *testing.T) {
	v := NewObjects()
	v.Expect("uid", Write{Version: "100"})
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
		if behind := v.Pending(c.object, c.cached); behind != c.behind || own != c.own {
			t.Errorf("%s at %q: behind %v, own %v", c.object, c.cached, behind, own)
		}
	}
	if last, _ := v.Own("uid", "100"); !last.Awaited {
		t.Error("nobody knows that a pass gave way")
	}
	if v.Expect("uid", Write{Version: "200"}); !v.Pending("uid", "150") {
		t.Error("the later write does not count")
	}
	v.Forget("uid")
	if _, own := v.Own("uid", "200"); own || v.Pending("uid", "1") {
		t.Error("not forgotten")
	}
}

// Objects go back when etcd is restored from a backup: who waited for the cache to reach what was written before would wait for ever.
func TestAWriteThatNoCacheReachesIsForgotten(t *testing.T) {
	v, now := NewObjects(), time.Unix(1_700_000_000, 0)
	v.now = func() time.Time { return now }
	v.Expect("uid", Write{Version: "100"})
	now = now.Add(time.Hour)
	if !v.Pending("uid", "50") {
		t.Fatal("how long ago the write was says nothing: the cache has only now been seen behind")
	}
	now = now.Add(patience - time.Second)
	if !v.Pending("uid", "51") {
		t.Error("forgotten too early")
	}
	v.Expect("uid", Write{Version: "110"})
	now = now.Add(2 * time.Second)
	if !v.Pending("uid", "51") {
		t.Error("a new write is waited for anew")
	}
	now = now.Add(patience)
	if v.Pending("uid", "52") || v.Len() != 0 || len(v.behind) != 0 {
		t.Error("waited for without an end")
	}
	v.Expect("uid", Write{Version: "60"})
	v.Pending("uid", "59")
	v.Pending("uid", "60")
	now = now.Add(patience)
	if !v.Pending("uid", "59") {
		t.Error("a cache that had caught up is timed from before")
	}
	if v.Forget("uid"); len(v.behind) != 0 {
		t.Error("not forgotten")
	}
}
