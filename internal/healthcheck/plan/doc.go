// Package plan decides what a MachineHealthCheck does: how healthy each Machine is, whether so many may be remediated, which are next and
// how, why the others are not, and what the status says.
//
// It is pure: objects and the time go in, a Decision or a status comes out.
package plan
