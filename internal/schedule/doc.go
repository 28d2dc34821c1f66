// Package schedule decides when disruptions may begin: in maintenance windows, and not in a freeze. Gated upgrades and NodeGroups share it.
//
// A window opens at times of a wall clock, which are rules of its time zone. Where that clock is changed, a window opens at the first instant at
// which the clock shows the time of its schedule or a later one: a time that is skipped counts at the end of the gap, and a time that occurs
// twice counts once, when it occurs first. A window stays open for an elapsed duration. robfig/cron, which parses the schedules, loses openings
// in a gap and repeats those in a repeated hour when it computes the next opening (SpecSchedule.Next in its spec.go, v3.0.1).
//
// The package is pure: the time is a value in the input.
package schedule
