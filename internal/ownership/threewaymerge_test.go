package ownership

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// clock is the time of every decision in the tables; ago writes an earlier moment as records do.
var clock = time.Unix(1_700_000_000, 0)

func ago(d time.Duration) int64 { return clock.Add(-d).Unix() }

// entries reads "a=1 b=" as a map.
func entries(text string) map[string]string {
	out := map[string]string{}
	for _, field := range strings.Fields(text) {
		key, value, _ := strings.Cut(field, "=")
		out[key] = value
	}
	return out
}

func keys(text string) Keys { return NewKeys(strings.Fields(text)...) }

// only makes a test of keys that holds for the ones given.
func only(text string) func(string) bool { return keys(text).Has }

// describe writes a result as one line per thing decided, so that a table shows the whole result and a failure the whole difference.
func describe(r Result) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	for _, key := range KeysOf(r.Set).Sorted() {
		add("set %s=%s", key, r.Set[key])
	}
	for _, key := range r.Remove {
		add("remove %s", key)
	}
	for _, c := range r.Conflicts {
		add("conflict %s is %s not %s", c.Key, c.Live, c.Desired)
	}
	for _, key := range r.Refused {
		add("refuse %s", key)
	}
	for _, key := range r.Returned {
		add("returned %s", key)
	}
	for _, key := range r.Owned.Sorted() {
		add("own %s", key)
	}
	for _, key := range KeysOf(r.Released).Sorted() {
		add("released %s=%s %s ago", key, r.Released[key].Value, time.Duration(clock.Unix()-r.Released[key].At)*time.Second)
	}
	return strings.Join(lines, "; ")
}

type mergeCase struct {
	name string
	in   Input
	want string
}

func runMerge(t *testing.T, cases []mergeCase) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.in.Now = clock
			if got := describe(Merge(c.in)); got != c.want {
				t.Errorf("got:  %s\nwant: %s", got, c.want)
			}
		})
	}
}

func TestMerge_DeclaredKeys(t *testing.T) {
	runMerge(t, []mergeCase{
		{"nothing at all", Input{}, ""},
		{"a new key is set and owned", Input{Desired: entries("a=1")}, "set a=1; own a"},
		{"an empty value is a value", Input{Desired: entries("a=")}, "set a=; own a"},
		{"a key that is right already becomes owned without a write", Input{Desired: entries("a=1"), Live: entries("a=1")}, "own a"},
		{"an owned key that is right stays", Input{Owned: keys("a"), Desired: entries("a=1"), Live: entries("a=1")}, "own a"},
		{"an owned key that drifted is put back", Input{Owned: keys("a"), Desired: entries("a=1"), Live: entries("a=2")}, "set a=1; own a"},
		{"an owned key that vanished is put back", Input{Owned: keys("a"), Desired: entries("a=1")}, "set a=1; own a"},
		{"foreign keys are not mentioned", Input{Desired: entries("a=1"), Live: entries("z=9")}, "set a=1; own a"},
		{"results come sorted", Input{Desired: entries("c=1 a=1 b=1"), Live: entries("b=1")}, "set a=1; set c=1; own a; own b; own c"},
	})
}

func TestMerge_KeysOfAnotherWriter(t *testing.T) {
	foreign := Input{Desired: entries("a=1"), Live: entries("a=2")}
	with := func(edit func(*Input)) Input { in := foreign; edit(&in); return in }
	runMerge(t, []mergeCase{
		{"the zero policy keeps the other's value", foreign, "conflict a is 2 not 1"},
		{"keep keeps it", with(func(in *Input) { in.Policy = Keep }), "conflict a is 2 not 1"},
		{"fail reports it, too; stopping is the caller's", with(func(in *Input) { in.Policy = Fail }), "conflict a is 2 not 1"},
		{"adopt overwrites it", with(func(in *Input) { in.Policy = Adopt }), "set a=1; own a"},
		{"an unknown policy counts as keep", with(func(in *Input) { in.Policy = "steal" }), "conflict a is 2 not 1"},
		{"a proven value is overwritten whatever the policy", with(func(in *Input) { in.Inherited = only("a") }), "set a=1; own a"},
		{"proof of another key proves nothing", with(func(in *Input) { in.Inherited = only("b") }), "conflict a is 2 not 1"},
		{"an empty value of another writer is a value", Input{Desired: entries("a=1"), Live: entries("a=")}, "conflict a is  not 1"},
		{"one conflict does not stop the others", Input{Desired: entries("a=1 b=1"), Live: entries("a=2")}, "set b=1; conflict a is 2 not 1; own b"},
		{"conflicts come sorted", Input{Desired: entries("b=1 a=1"), Live: entries("b=2 a=2")}, "conflict a is 2 not 1; conflict b is 2 not 1"},
	})
}

func TestMerge_KeysNoLongerDeclared(t *testing.T) {
	dropped := Input{Owned: keys("a"), Live: entries("a=1")}
	with := func(edit func(*Input)) Input { in := dropped; edit(&in); return in }
	runMerge(t, []mergeCase{
		{"an owned key that is not declared any more is removed and remembered", dropped, "remove a; released a=1 0s ago"},
		{"also when another writer changed it meanwhile", with(func(in *Input) { in.Live = entries("a=9") }), "remove a; released a=9 0s ago"},
		{"one that is gone already is given up", with(func(in *Input) { in.Live = nil }), ""},
		{"one that was never owned stays", with(func(in *Input) { in.Owned = keys("b") }), ""},
		{"one that is to be abandoned stays and is given up", with(func(in *Input) { in.Disown = only("a") }), ""},
		{"one on hold stays and stays owned", with(func(in *Input) { in.Skip = only("a") }), "own a"},
		{"hold counts before abandon", with(func(in *Input) { in.Skip, in.Disown = only("a"), only("a") }), "own a"},
		{"the policy does not matter", with(func(in *Input) { in.Policy = Fail }), "remove a; released a=1 0s ago"},
		{"removals come sorted", Input{Owned: keys("b a"), Live: entries("b=1 a=1")},
			"remove a; remove b; released a=1 0s ago; released b=1 0s ago"},
	})
}

func TestMerge_ProtectedKeys(t *testing.T) {
	protected := func(in Input) Input { in.Protected = only("sys"); return in }
	runMerge(t, []mergeCase{
		{"declared and absent: refused", protected(Input{Desired: entries("sys=1")}), "refuse sys"},
		{"declared with another value: refused", protected(Input{Desired: entries("sys=1"), Live: entries("sys=2")}), "refuse sys"},
		{"declared as it is: nothing to say, and not owned", protected(Input{Desired: entries("sys=1"), Live: entries("sys=1")}), ""},
		{"recorded as owned: given up, not removed", protected(Input{Owned: keys("sys"), Live: entries("sys=1")}), ""},
		{"recorded and declared: refused and given up", protected(Input{Owned: keys("sys"), Desired: entries("sys=1"), Live: entries("sys=2")}),
			"refuse sys"},
		{"adopt does not help", protected(Input{Desired: entries("sys=1"), Live: entries("sys=2"), Policy: Adopt}), "refuse sys"},
		{"proof does not help", protected(Input{Desired: entries("sys=1"), Live: entries("sys=2"), Inherited: only("sys")}), "refuse sys"},
		{"a record of its release does not remove it", protected(Input{Released: map[string]Release{"sys": {"1", ago(0)}}, Live: entries("sys=1")}),
			"released sys=1 0s ago"},
		{"the others go on", protected(Input{Desired: entries("sys=1 a=1")}), "set a=1; refuse sys; own a"},
	})
}

func TestMerge_SkippedKeys(t *testing.T) {
	hold := func(in Input) Input { in.Skip = only("a"); return in }
	runMerge(t, []mergeCase{
		{"a new key is not set", hold(Input{Desired: entries("a=1")}), ""},
		{"an equal one is owned without a write", hold(Input{Desired: entries("a=1"), Live: entries("a=1")}), "own a"},
		{"an owned one that drifted stays drifted, and owned", hold(Input{Owned: keys("a"), Desired: entries("a=1"), Live: entries("a=2")}), "own a"},
		{"a foreign one is no conflict for now", hold(Input{Desired: entries("a=1"), Live: entries("a=2")}), ""},
		{"one that came back stays for now, and is remembered",
			hold(Input{Released: map[string]Release{"a": {"1", ago(time.Minute)}}, Live: entries("a=1")}),
			"released a=1 1m0s ago"},
		{"protected counts before hold", Input{Desired: entries("a=1"), Skip: only("a"), Protected: only("a")}, "refuse a"},
		{"also for a dropped one", Input{Owned: keys("a"), Live: entries("a=1"), Skip: only("a"), Protected: only("a")}, ""},
	})
}

func TestMerge_ReleasedKeys(t *testing.T) {
	released := func(value string, age time.Duration, in Input) Input {
		in.Released = map[string]Release{"a": {value, ago(age)}}
		return in
	}
	back := Input{Live: entries("a=1")}
	runMerge(t, []mergeCase{
		{"put back by a stale writer: removed again, the time stays", released("1", time.Minute, back), "remove a; returned a; released a=1 1m0s ago"},
		{"restored with another value: another writer's", released("2", time.Minute, back), "released a=2 1m0s ago"},
		{"restored too late: another writer's, and not recorded any more", released("1", ReleaseWindow, back), ""},
		{"put back at the last second", released("1", ReleaseWindow-time.Second, back), "remove a; returned a; released a=1 4m59s ago"},
		{"still gone: remembered", released("1", time.Minute, Input{}), "released a=1 1m0s ago"},
		{"a time in the future is no proof", released("1", -time.Hour, back), ""},
		{"declared again and absent: set, no longer remembered", released("1", time.Minute, Input{Desired: entries("a=2")}), "set a=2; own a"},
		{"declared again over the value that came back", released("1", time.Minute, Input{Desired: entries("a=2"), Live: entries("a=1")}),
			"set a=2; own a"},
		{"declared again over another writer's value", released("1", time.Minute, Input{Desired: entries("a=2"), Live: entries("a=3")}),
			"conflict a is 3 not 2"},
		{"declared again after the window", released("1", time.Hour, Input{Desired: entries("a=2"), Live: entries("a=1")}), "conflict a is 1 not 2"},
		{"owned again and dropped: the new removal counts", released("1", time.Minute, Input{Owned: keys("a"), Live: entries("a=5")}),
			"remove a; released a=5 0s ago"},
	})
}

// Times in a record are text that anybody can edit: the smallest and largest numbers must not overflow into a fresh release.
func TestMerge_ForgedReleaseTimes(t *testing.T) {
	for _, at := range []int64{-1 << 63, -1, 0, 1<<63 - 1} {
		got := Merge(Input{Released: map[string]Release{"a": {"1", at}}, Live: entries("a=1"), Now: clock})
		if got.Changed() || len(got.Released) > 0 {
			t.Errorf("release at %d: %s", at, describe(got))
		}
	}
}

func TestMerge_DoesNotChangeItsInput(t *testing.T) {
	in := Input{
		Owned: keys("a b"), Released: map[string]Release{"c": {"1", ago(0)}}, Desired: entries("a=1 d=1"), Live: entries("a=2 b=1 c=1"), Now: clock,
	}
	result := Merge(in)
	if want := "set a=1; set d=1; remove b; remove c; returned c; own a; own d; released b=1 0s ago; released c=1 0s ago"; describe(result) != want {
		t.Fatalf("got %s", describe(result))
	}
	if !in.Owned.Equal(keys("a b")) || len(in.Released) != 1 || len(in.Desired) != 2 || len(in.Live) != 3 || in.Live["a"] != "2" {
		t.Errorf("the input changed: %+v", in)
	}
	after := Apply(in.Live, result)
	if len(after) != 2 || after["a"] != "1" || after["d"] != "1" || len(in.Live) != 3 {
		t.Errorf("applied %v, live %v", after, in.Live)
	}
}
