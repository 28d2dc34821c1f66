package expectations

import (
	"errors"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"
)

func TestObjects_Pending(t *testing.T) {
	o := NewObjects(nil, nil)
	o.Expect("uid", Write{Version: "100"})
	for _, c := range []struct {
		uid, cached  string
		pending, own bool
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
		_, own := o.Own(c.uid, c.cached)
		if pending := o.Pending(t.Context(), version(c.uid, c.cached)); pending != c.pending || own != c.own {
			t.Errorf("%s at %q: pending %v, own %v", c.uid, c.cached, pending, own)
		}
	}
	if last, _ := o.Own("uid", "100"); !last.Awaited {
		t.Error("the write is not recorded as awaited")
	}
	if o.Expect("uid", Write{Version: "200"}); !o.Pending(t.Context(), version("uid", "150")) {
		t.Error("the later write is not expected")
	}
	o.Forget("uid")
	if _, own := o.Own("uid", "200"); own || o.Pending(t.Context(), version("uid", "1")) {
		t.Error("the object is not forgotten")
	}
}

// Versions go back when etcd is restored from a backup: the cache would never reach the version of the write.
func TestObjects_PendingForAMinuteWithoutLive(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	o := NewObjects(nil, clock)
	pending := func(cached string) bool { return o.Pending(t.Context(), version("uid", cached)) }
	forward := func(by time.Duration) { clock.SetTime(clock.Now().Add(by)) }
	o.Expect("uid", Write{Version: "100"})
	forward(time.Hour)
	if !pending("50") {
		t.Fatal("dropped by the age of the write; the minute starts when the cache is first seen to lag")
	}
	forward(pendingTimeout - time.Second)
	if !pending("51") {
		t.Error("dropped too early")
	}
	o.Expect("uid", Write{Version: "110"})
	forward(2 * time.Second)
	if !pending("51") {
		t.Error("a new write does not start a new minute")
	}
	forward(pendingTimeout)
	if pending("52") || o.Len() != 0 || len(o.pending) != 0 {
		t.Error("still pending after a minute")
	}
	o.Expect("uid", Write{Version: "60"})
	pending("59")
	pending("60")
	forward(pendingTimeout)
	if !pending("59") {
		t.Error("the minute started before the cache had caught up")
	}
	if o.Forget("uid"); len(o.pending) != 0 {
		t.Error("the object is not forgotten")
	}
}

func TestObjects_OverdueExpectations(t *testing.T) {
	for _, c := range []struct {
		name    string
		server  server
		pending bool
	}{
		{"it has the write: pending for as long as the watch is frozen", server{items: []item{{"a", "uid", "100"}}}, true},
		{"another writer has written since: pending", server{items: []item{{"a", "uid", "130"}}}, true},
		{"etcd was restored to a version before the write: dropped", server{items: []item{{"a", "uid", "60"}}}, false},
		{"the object is gone: dropped", server{}, false},
		{"a successor has its name: dropped", server{items: []item{{"a", "another", "130"}}}, false},
		{"the API server does not answer: pending", server{err: errors.New("refused")}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock := testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
			o := NewObjects(c.server.live(t), clock)
			o.Expect("uid", Write{Version: "100"})
			cached := version("uid", "50")
			if !o.Pending(t.Context(), cached) || c.server.lists != 0 {
				t.Fatalf("asked %d times within the first minute", c.server.lists)
			}
			for minute := 1; minute <= 3; minute++ {
				clock.SetTime(clock.Now().Add(pendingTimeout))
				if pending := o.Pending(t.Context(), cached); pending != c.pending {
					t.Errorf("minute %d: pending %v", minute, pending)
				}
				if o.Pending(t.Context(), cached); c.pending && c.server.lists != minute {
					t.Errorf("minute %d: asked %d times", minute, c.server.lists)
				}
			}
		})
	}
}

// TestObjects_WriteWhileAsked: a write that is made while the API server is asked about an earlier one is not dropped with it.
func TestObjects_WriteWhileAsked(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Unix(1_700_000_000, 0))
	restored := &server{items: []item{{"a", "uid", "60"}}}
	o := NewObjects(restored.live(t), clock)
	o.Expect("uid", Write{Version: "100"})
	o.Pending(t.Context(), version("uid", "50"))
	clock.SetTime(clock.Now().Add(pendingTimeout))
	restored.onList = func() { o.Expect("uid", Write{Version: "70"}) }
	if !o.Pending(t.Context(), version("uid", "60")) {
		t.Error("the new write is not awaited")
	}
	if o.Pending(t.Context(), version("uid", "70")) {
		t.Error("the cache shows the new write, and it is still awaited")
	}
}

// TestObjects_EventBeforeTheAnswer: an event that comes while a write is sent is handled after the answer, when it is known whether the write caused
// it.
func TestObjects_EventBeforeTheAnswer(t *testing.T) {
	o := NewObjects(nil, nil)
	own := map[string]bool{}
	event := func(version string) {
		o.Handle("uid", func() { _, own[version] = o.Own("uid", version) })
	}
	if event("1"); len(own) != 1 {
		t.Error("an event waits although nothing is sent")
	}
	o.Send("uid", func() (Write, bool) {
		event("2")
		event("3")
		o.Handle("another", func() { own["another"] = false })
		// Another write of the same object is sent meanwhile.
		o.Send("uid", func() (Write, bool) { return Write{}, false })
		if _, looked := own["another"]; !looked || len(own) != 2 {
			t.Errorf("looked at %v before the answer", own)
		}
		return Write{Version: "2"}, true
	})
	if len(own) != 4 || own["1"] || !own["2"] || own["3"] {
		t.Errorf("own writes: %v", own)
	}
	func() {
		defer func() { _ = recover() }()
		o.Send("uid", func() (Write, bool) { event("4"); panic("lost") })
	}()
	if _, looked := own["4"]; !looked || len(o.sending) > 0 {
		t.Errorf("looked at %v after a write that failed; %d are sent still", own, len(o.sending))
	}
}

// TestObjects_ForgetWhileSending: the answer to a write of an object that is gone leaves nothing behind.
func TestObjects_ForgetWhileSending(t *testing.T) {
	o := NewObjects(nil, nil)
	o.Send("u", func() (Write, bool) {
		o.Forget("u")
		return Write{Version: "2"}, true
	})
	if o.Len() != 0 {
		t.Error("a write of an object that is gone is kept")
	}
}
