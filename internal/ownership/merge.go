package ownership

import (
	"maps"
	"slices"
	"time"
)

// ReleaseWindow is how long a removed key stays in the record. A writer with a stale cache (the machine-api-operator's
// nodelink is one) may put a key back just after it was removed; within the window that is undone, later the key is
// taken for somebody's own.
const ReleaseWindow = 5 * time.Minute

// Policy says what becomes of a declared key that somebody else set first to another value.
type Policy string

// The conflict policies of a pool. The zero value counts as Keep.
const (
	// Keep leaves the other's value alone and reports the conflict.
	Keep Policy = "keep"
	// Adopt overwrites the value and owns the key from then on.
	Adopt Policy = "adopt"
	// Fail leaves the whole Machine and Node alone until the conflict is gone.
	Fail Policy = "fail"
)

// Release remembers a key that Drover removed.
type Release struct {
	// Value is what the key had when it was removed; only that value is recognised when it comes back.
	Value string `json:"value,omitempty"`
	// At is the time of the removal in Unix seconds.
	At int64 `json:"at"`
}

// Input is everything that Merge looks at. Nil maps, sets and functions are empty ones.
type Input struct {
	// Owned are the keys recorded as Drover's before.
	Owned Keys
	// Released are the keys that Drover removed lately.
	Released map[string]Release
	// Desired is what is declared now.
	Desired map[string]string
	// Live is what stands on the object.
	Live map[string]string
	// Protected tells the keys that belong to the system: never set, never removed, whatever the record says.
	Protected func(key string) bool
	// Proven tells keys whose live value is known to have come from the declaring side although no record says so.
	Proven func(key string) bool
	// Hold tells keys to leave as they are in this pass: neither set, removed, nor given up. One that is as declared is owned all the same.
	Hold func(key string) bool
	// Unconfirmed reports keys that are not removed on the word of Owned or Released alone; nil trusts both.
	Unconfirmed func(key string) bool
	// Abandon tells owned keys to give up without removing them.
	Abandon func(key string) bool
	// Policy is applied to keys that somebody else set first.
	Policy Policy
	// Now is the time of the decision.
	Now time.Time
}

// Conflict is a declared key that somebody else holds with another value.
type Conflict struct {
	Key, Live, Desired string
}

// Result is what Merge decided. Set and Remove are disjoint, and both are disjoint from the keys of Conflicts and Refused.
type Result struct {
	// Set are the keys to write with their values.
	Set map[string]string
	// Remove are the keys to remove, sorted.
	Remove []string
	// Owned are the keys that are Drover's once Set and Remove are applied.
	Owned Keys
	// Released are the removed keys to remember once Set and Remove are applied.
	Released map[string]Release
	// Conflicts are the declared keys left to somebody else, sorted by key.
	Conflicts []Conflict
	// Refused are the declared keys that belong to the system and differ from what stands there, sorted.
	Refused []string
	// Unconfirmed are the owned keys that are no longer declared and stay because nothing confirms the record, sorted. They stay owned.
	Unconfirmed []string
	// Returned are the keys of Remove that had been removed before and were put back by another writer, sorted.
	Returned []string
}

// Changed tells whether anything is to be written to the entries themselves.
func (r Result) Changed() bool { return len(r.Set) > 0 || len(r.Remove) > 0 }

// Merge makes the three-way merge. It is deterministic and does not depend on the order of any map.
func Merge(in Input) Result {
	m := merger{in: in, out: Result{Set: map[string]string{}, Owned: Keys{}, Released: map[string]Release{}}}
	for _, key := range slices.Sorted(maps.Keys(in.Desired)) {
		m.declared(key, in.Desired[key])
	}
	for _, key := range slices.Sorted(maps.Keys(in.Owned)) {
		if _, declared := in.Desired[key]; !declared {
			m.dropped(key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(in.Released)) {
		m.released(key, in.Released[key])
	}
	slices.Sort(m.out.Remove)
	return m.out
}

type merger struct {
	in  Input
	out Result
}

// declared decides a key that is declared now. One that stands there as declared is Drover's, also on hold: it needs no write for that, and
// not owned it would stay when it is no longer declared.
func (m *merger) declared(key, desired string) {
	live, present := m.in.Live[key]
	asDeclared := present && live == desired
	switch {
	case is(m.in.Protected, key):
		if !asDeclared {
			m.out.Refused = append(m.out.Refused, key)
		}
	case is(m.in.Hold, key):
		if asDeclared || m.in.Owned.Has(key) {
			m.out.Owned.Add(key)
		}
	case asDeclared:
		m.out.Owned.Add(key)
	case !present || m.mayChange(key, live):
		m.out.Set[key] = desired
		m.out.Owned.Add(key)
	default:
		m.out.Conflicts = append(m.out.Conflicts, Conflict{Key: key, Live: live, Desired: desired})
	}
}

// mayChange tells whether a present value other than the declared one is Drover's to overwrite.
func (m *merger) mayChange(key, live string) bool {
	return m.in.Owned.Has(key) || is(m.in.Proven, key) || m.in.Policy == Adopt || m.putBack(key, live)
}

// putBack tells whether a live value is one that Drover removed lately and a stale writer restored.
func (m *merger) putBack(key, live string) bool {
	release, ok := m.in.Released[key]
	return ok && release.Value == live && m.fresh(release)
}

func (m *merger) fresh(release Release) bool {
	age := m.in.Now.Unix() - release.At
	// A time in the future is a clock that was set back or hostile text: it must not make a release last for ever.
	return age >= 0 && age < int64(ReleaseWindow/time.Second)
}

// dropped decides a key that was owned and is no longer declared.
func (m *merger) dropped(key string) {
	live, present := m.in.Live[key]
	switch {
	case is(m.in.Protected, key):
		// Given up: the system's.
	case is(m.in.Hold, key):
		m.out.Owned.Add(key)
	case is(m.in.Abandon, key), !present:
		// Given up: handed over on purpose, or gone already.
	case is(m.in.Unconfirmed, key):
		m.out.Owned.Add(key)
		m.out.Unconfirmed = append(m.out.Unconfirmed, key)
	default:
		m.out.Remove = append(m.out.Remove, key)
		m.out.Released[key] = Release{Value: live, At: m.in.Now.Unix()}
	}
}

// released decides a key that was removed lately and is neither declared nor owned now.
func (m *merger) released(key string, release Release) {
	_, declared := m.in.Desired[key]
	if declared || m.in.Owned.Has(key) || !m.fresh(release) {
		return
	}
	m.out.Released[key] = release
	live, present := m.in.Live[key]
	if present && live == release.Value && !is(m.in.Protected, key) && !is(m.in.Hold, key) && !is(m.in.Unconfirmed, key) {
		m.out.Remove = append(m.out.Remove, key)
		m.out.Returned = append(m.out.Returned, key)
	}
}

func is(test func(string) bool, key string) bool { return test != nil && test(key) }
