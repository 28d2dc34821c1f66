// Package plan decides what is done next for a Machine. Next is the table of a Machine's life: it leads from what is known of the Machine to the
// next step, and to what is waited for when there is none. Status and Outcome turn the same values into status, events and the next attempt.
// Everything is pure: what a decision depends on, the time included, is in its Input.
package plan
