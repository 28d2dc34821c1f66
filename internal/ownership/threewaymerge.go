// Package ownership decides which labels, annotations and taints of an object Drover may set and remove.
//
// It is pure: a three-way merge of what was owned before, what is declared now and what the object has, for any string map. Taints are a map
// from "key:Effect" to value. Only what is recorded as owned is changed or removed, unless the policy is adopt, and the record is written together
// with what it records.
package ownership

import (
	"slices"
	"time"
)

// ReleaseWindow is how long a removed key stays in the record. A writer with a stale cache (nodelink of machine-api-operator is one) may restore a
// key just after it was removed; within the window Drover removes it again, later it counts as another writer's.
const ReleaseWindow = 5 * time.Minute

// Policy is what happens to a declared key that another writer set first to another value.
type Policy string

// The conflict policies. The zero value counts as Keep.
const (
	// Keep leaves the other value alone and reports the conflict.
	Keep Policy = "keep"
	// Adopt overwrites the value and owns the key from then on.
	Adopt Policy = "adopt"
	// Fail leaves the Machine and its Node alone until the conflict is resolved.
	Fail Policy = "fail"
)

// Release is a key that Drover removed.
type Release struct {
	// Value is what the key had when it was removed; only this value is removed again when it is restored.
	Value string `json:"value,omitempty"`
	// At is the time of the removal in Unix seconds.
	At int64 `json:"at"`
}

// Input is all that Merge depends on. Nil maps, sets and functions are empty ones.
type Input struct {
	// Owned are the keys recorded as Drover's before.
	Owned Keys
	// Released are the keys that Drover removed recently.
	Released map[string]Release
	// Desired is what is declared now.
	Desired map[string]string
	// Live is what the object has.
	Live map[string]string
	// Protected reports keys that belong to the system: never set, never removed, whatever the record says.
	Protected func(key string) bool
	// Inherited reports keys whose live value is known to have been copied from the declaring side although no record names them.
	Inherited func(key string) bool
	// Skip reports keys that are left as they are for now: neither set, removed, nor disowned. A skipped key whose live value is as declared is owned
	// nevertheless.
	Skip func(key string) bool
	// NeedsConfirmation reports keys whose entry in Owned or Released is not enough to remove or overwrite them; nil is none.
	NeedsConfirmation func(key string) bool
	// Disown reports owned keys that are not owned any more, without being removed.
	Disown func(key string) bool
	// Policy applies to keys that another writer set first.
	Policy Policy
	// Now is the time of the decision.
	Now time.Time
}

// Conflict is a declared key that another writer set to another value.
type Conflict struct {
	Key, Live, Desired string
}

// Result is what Merge decided. Set and Remove are disjoint, and both are disjoint from the keys of Conflicts and Refused.
type Result struct {
	// Set are the keys to write with their values; nil for none, as are the other maps.
	Set map[string]string
	// Remove are the keys to remove, sorted.
	Remove []string
	// Owned are the keys that Drover owns when Set and Remove are applied.
	Owned Keys
	// Released are the removed keys to record when Set and Remove are applied.
	Released map[string]Release
	// Conflicts are the declared keys that stay another writer's, sorted by key.
	Conflicts []Conflict
	// Refused are the declared keys that belong to the system and have another value, sorted.
	Refused []string
	// Unconfirmed are the owned keys that are no longer declared and stay because nothing confirms the record, sorted. They stay owned.
	Unconfirmed []string
	// Returned are the keys of Remove that were removed before and restored by another writer, sorted.
	Returned []string
}

// Changed reports whether any entry is to be written.
func (r Result) Changed() bool { return len(r.Set) > 0 || len(r.Remove) > 0 }

// Put adds an entry to write.
func (r *Result) Put(key, value string) {
	if r.Set == nil {
		r.Set = map[string]string{}
	}
	r.Set[key] = value
}

// Merge returns the three-way merge. It is deterministic and does not depend on the order of any map.
func Merge(in Input) Result {
	m := merger{in: in}
	for _, key := range SortedKeys(in.Desired) {
		m.decideDeclared(key, in.Desired[key])
	}
	for _, key := range SortedKeys(in.Owned) {
		if _, declared := in.Desired[key]; !declared {
			m.decideUndeclared(key)
		}
	}
	for _, key := range SortedKeys(in.Released) {
		m.decideRecentlyRemoved(key, in.Released[key])
	}
	slices.Sort(m.out.Remove)
	return m.out
}

type merger struct {
	in  Input
	out Result
}

// decideDeclared decides a key that is declared now. A key whose live value is as declared is owned, even when it is skipped: that needs no write,
// and otherwise the key would stay when it is no longer declared.
func (m *merger) decideDeclared(key, desired string) {
	live, present := m.in.Live[key]
	asDeclared := present && live == desired
	switch {
	case is(m.in.Protected, key):
		if !asDeclared {
			m.out.Refused = append(m.out.Refused, key)
		}
	case is(m.in.Skip, key):
		if asDeclared || m.in.Owned.Has(key) {
			m.own(key)
		}
	case asDeclared:
		m.own(key)
	case !present || m.mayChange(key, live):
		m.out.Put(key, desired)
		m.own(key)
	default:
		m.out.Conflicts = append(m.out.Conflicts, Conflict{Key: key, Live: live, Desired: desired})
	}
}

// mayChange reports whether a live value other than the declared one may be overwritten.
func (m *merger) mayChange(key, live string) bool {
	recorded := m.in.Owned.Has(key) || m.wasRestored(key, live)
	return recorded && !is(m.in.NeedsConfirmation, key) || is(m.in.Inherited, key) || m.in.Policy == Adopt
}

// wasRestored reports whether Drover removed a live value recently and a writer with a stale cache restored it.
func (m *merger) wasRestored(key, live string) bool {
	release, ok := m.in.Released[key]
	return ok && release.Value == live && m.isRecent(release)
}

func (m *merger) isRecent(release Release) bool {
	age := m.in.Now.Unix() - release.At
	// A time in the future is a clock that was set back or a forged record: it must not make a release last for ever.
	return age >= 0 && age < int64(ReleaseWindow/time.Second)
}

// decideUndeclared decides a key that was owned and is no longer declared.
func (m *merger) decideUndeclared(key string) {
	live, present := m.in.Live[key]
	switch {
	case is(m.in.Protected, key):
		// Disowned: it belongs to the system.
	case is(m.in.Skip, key):
		m.own(key)
	case is(m.in.Disown, key), !present:
		// Disowned on request, or removed already.
	case is(m.in.NeedsConfirmation, key):
		m.own(key)
		m.out.Unconfirmed = append(m.out.Unconfirmed, key)
	default:
		m.out.Remove = append(m.out.Remove, key)
		m.release(key, Release{Value: live, At: m.in.Now.Unix()})
	}
}

// decideRecentlyRemoved decides a key that was removed recently and is neither declared nor owned now.
func (m *merger) decideRecentlyRemoved(key string, release Release) {
	_, declared := m.in.Desired[key]
	if declared || m.in.Owned.Has(key) || !m.isRecent(release) {
		return
	}
	m.release(key, release)
	live, present := m.in.Live[key]
	if present && live == release.Value && !is(m.in.Protected, key) && !is(m.in.Skip, key) && !is(m.in.NeedsConfirmation, key) {
		m.out.Remove = append(m.out.Remove, key)
		m.out.Returned = append(m.out.Returned, key)
	}
}

// own records a key as owned.
func (m *merger) own(key string) {
	if m.out.Owned == nil {
		m.out.Owned = Keys{}
	}
	m.out.Owned.Add(key)
}

// release records a key as removed.
func (m *merger) release(key string, release Release) {
	if m.out.Released == nil {
		m.out.Released = map[string]Release{}
	}
	m.out.Released[key] = release
}

func is(test func(string) bool, key string) bool { return test != nil && test(key) }
