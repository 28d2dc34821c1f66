package ownership

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"
)

// invariants are what every merge holds to, whatever its input. The first that is broken is the error.
func invariants(in Input, r Result) error {
	after := Apply(in.Live, r)
	for _, rule := range []func() error{
		func() error { return settled(in, r, after) },
		func() error { return disjoint(r) },
		func() error { return foreignUntouched(in, after) },
		func() error { return declaredIsLive(in, r, after) },
	} {
		if err := rule(); err != nil {
			return err
		}
	}
	return nil
}

// settled: the next pass writes nothing and knows the same.
func settled(in Input, r Result, after map[string]string) error {
	in.Live, in.Owned, in.Released = after, r.Owned, r.Released
	again := Merge(in)
	switch {
	case again.Changed(), len(again.Returned) > 0:
		return fmt.Errorf("a second pass writes: %s", describe(again))
	case !again.Owned.Equal(r.Owned), !maps.Equal(again.Released, r.Released):
		return fmt.Errorf("a second pass records something else: %s after %s", describe(again), describe(r))
	case !slices.Equal(again.Conflicts, r.Conflicts), !slices.Equal(again.Refused, r.Refused):
		return fmt.Errorf("a second pass reports something else: %s after %s", describe(again), describe(r))
	}
	return nil
}

// disjoint: nothing is decided about one key twice, and lists are sorted.
func disjoint(r Result) error {
	var reported []string
	for _, c := range r.Conflicts {
		reported = append(reported, c.Key)
	}
	all := slices.Concat(KeysOf(r.Set).Sorted(), r.Remove, reported, r.Refused)
	if len(NewKeys(all...)) != len(all) {
		return fmt.Errorf("a key is decided twice: %s", describe(r))
	}
	for _, list := range [][]string{r.Remove, reported, r.Refused, r.Returned} {
		if !slices.IsSorted(list) {
			return fmt.Errorf("not sorted: %v", list)
		}
	}
	return nil
}

// foreignUntouched: a key changes only when it was recorded, is proven, is to be adopted, or came back as it had been removed.
func foreignUntouched(in Input, after map[string]string) error {
	for key := range KeysOf(in.Live).Union(KeysOf(after)) {
		before, was := in.Live[key]
		now, is := after[key]
		if was == is && before == now {
			continue
		}
		_, declared := in.Desired[key]
		release, released := in.Released[key]
		mine := in.Owned.Has(key) || declared && (!was || in.Policy == Adopt || in.Inherited != nil && in.Inherited(key)) ||
			released && release.Value == before
		switch {
		case in.Protected != nil && in.Protected(key):
			return fmt.Errorf("protected %q went from %q to %q", key, before, now)
		case !mine:
			return fmt.Errorf("foreign %q went from %q to %q", key, before, now)
		}
	}
	return nil
}

// declaredIsLive: what is declared stands there, unless the result says why not.
func declaredIsLive(in Input, r Result, after map[string]string) error {
	excused := NewKeys(r.Refused...)
	for _, c := range r.Conflicts {
		excused.Add(c.Key)
	}
	for key, want := range in.Desired {
		value, present := after[key]
		held := in.Skip != nil && in.Skip(key)
		if (!present || value != want) && !excused.Has(key) && !held {
			return fmt.Errorf("%q is declared as %q, stands as %q (%v), and nothing says why", key, want, value, present)
		}
	}
	return nil
}

// story is a life of one object: Drover's passes with the record kept as text, between them writers who know nothing of Drover.
type story struct {
	live, desired map[string]string
	record        string
	now           time.Time
	policy        Policy
	// mine is kept by hand, not from the record: keys that were as declared after the last pass.
	mine Keys
	// declared are all keys that were ever declared. named are all keys that a hostile record ever named.
	declared, named Keys
	// removed is what passes took away, for the writer with the stale cache.
	removed map[string]string
}

var (
	someKey   = rapid.SampledFrom([]string{"a", "b", "c", "d", "sys"})
	someValue = rapid.SampledFrom([]string{"", "1", "2"})
	entryMap  = rapid.MapOfN(someKey, someValue, 0, 4)
)

func (s *story) pass(t *rapid.T) {
	record, err := ParseRecord(s.record)
	if err != nil && (!record.Empty()) {
		t.Fatalf("an unreadable record owns %v", record)
	}
	in := Input{
		Owned: record.Owned(Label), Released: record.Released[Label], Desired: s.desired, Live: s.live, Policy: s.policy,
		Protected: only("sys"), Now: s.now,
	}
	r := Merge(in)
	if err := invariants(in, r); err != nil {
		t.Fatal(err)
	}
	after := Apply(s.live, r)
	s.compare(t, record, after)
	for _, key := range r.Remove {
		s.removed[key] = s.live[key]
	}
	s.live, s.record = after, Record{Section: Section{Labels: r.Owned}, Released: map[Kind]map[string]Release{Label: r.Released}}.Format()
	s.mine = Keys{}
	for key, value := range s.desired {
		if live, ok := after[key]; ok && live == value && key != "sys" {
			s.mine.Add(key)
		}
	}
}

// compare checks a merge against what the model expects.
func (s *story) compare(t *rapid.T, record Record, after map[string]string) {
	for key := range KeysOf(s.live).Union(KeysOf(after)) {
		before, was := s.live[key]
		now, is := after[key]
		if was == is && before == now {
			continue
		}
		value, declared := s.desired[key]
		release, released := record.Released[Label][key]
		cameBack := released && was && release.Value == before
		switch {
		case is && (!declared || now != value):
			t.Fatalf("%q was set to %q, declared is %q (%v)", key, now, value, declared)
		case !s.declared.Has(key) && !s.named.Has(key):
			t.Fatalf("%q was never declared and went from %q to %q", key, before, now)
		case was && !s.mine.Has(key) && !s.named.Has(key) && !cameBack && s.policy != Adopt:
			t.Fatalf("%q was another writer's and changed from %q to %q", key, before, now)
		}
	}
}

func (s *story) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"pass": s.pass,
		"declare": func(t *rapid.T) {
			s.desired = entryMap.Draw(t, "desired")
			s.declared = s.declared.Union(KeysOf(s.desired))
		},
		"foreign writer": func(t *rapid.T) { s.live[someKey.Draw(t, "key")] = someValue.Draw(t, "value") },
		"foreign removal": func(t *rapid.T) {
			delete(s.live, someKey.Draw(t, "key"))
		},
		"stale writer": func(*rapid.T) { maps.Copy(s.live, s.removed) },
		"time": func(t *rapid.T) {
			s.now = s.now.Add(time.Duration(rapid.Int64Range(-60, 600).Draw(t, "seconds")) * time.Second)
		},
		"policy": func(t *rapid.T) { s.policy = rapid.SampledFrom([]Policy{Keep, Fail, Adopt}).Draw(t, "policy") },
		"lost record": func(t *rapid.T) {
			s.record, s.mine = rapid.SampledFrom([]string{"", "{", "null", `["a"]`, `{"labels":{}}`}).Draw(t, "text"), Keys{}
		},
		"forged record": func(t *rapid.T) {
			named := rapid.SliceOfN(someKey, 0, 3).Draw(t, "owned")
			s.record = Record{Section: Section{Labels: NewKeys(named...)}}.Format()
			s.named, s.mine = s.named.Union(NewKeys(named...)), Keys{}
		},
	}
}

func TestMerge_KeepsForeignEntries(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := &story{live: entryMap.Draw(t, "live"), desired: map[string]string{}, now: clock, removed: map[string]string{}}
		t.Repeat(s.actions())
		s.pass(t)
	})
}

// Maps have no order, lists of taints do: the same taints in another order are the same input, and come out the same.
func TestMerge_OrderOfTaints(t *testing.T) {
	taint := rapid.Custom(func(t *rapid.T) corev1.Taint {
		return corev1.Taint{
			Key: someKey.Draw(t, "key"), Value: someValue.Draw(t, "value"),
			Effect: rapid.SampledFrom([]corev1.TaintEffect{corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute}).Draw(t, "effect"),
		}
	})
	distinct := rapid.SliceOfNDistinct(taint, 0, 8, TaintID)
	byID := func(list []corev1.Taint) []string {
		var out []string
		for id, value := range TaintEntries(list) {
			out = append(out, id+"="+value)
		}
		slices.Sort(out)
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		live, desired := distinct.Draw(t, "live"), distinct.Draw(t, "desired")
		other := rapid.Permutation(live).Draw(t, "another order")
		in := Input{
			Owned: KeysOf(TaintEntries(rapid.SliceOf(taint).Draw(t, "owned"))), Desired: TaintEntries(desired), Live: TaintEntries(live),
			Policy: rapid.SampledFrom([]Policy{Keep, Adopt}).Draw(t, "policy"), Now: clock,
		}
		first := Merge(in)
		if err := invariants(in, first); err != nil {
			t.Fatal(err)
		}
		in.Live, in.Desired = TaintEntries(other), TaintEntries(rapid.Permutation(desired).Draw(t, "desired in another order"))
		second := Merge(in)
		if describe(first) != describe(second) {
			t.Fatalf("%s\n%s", describe(first), describe(second))
		}
		one, two := ApplyTaints(live, first), ApplyTaints(other, second)
		if !slices.Equal(byID(one), byID(two)) {
			t.Fatalf("%v\n%v", one, two)
		}
		kept := func(list []corev1.Taint) []corev1.Taint {
			return slices.DeleteFunc(slices.Clone(list), func(x corev1.Taint) bool {
				id := TaintID(x)
				return slices.Contains(first.Remove, id) || first.Set[id] != "" || KeysOf(first.Set).Has(id)
			})
		}
		if !slices.Equal(kept(live), kept(one)) {
			t.Fatalf("foreign taints moved or changed: %v to %v", live, one)
		}
	})
}
