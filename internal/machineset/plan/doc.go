// Package plan decides what a MachineSet needs: which Machines are its own, how many are to be created, which are to be deleted, and
// what its status says.
//
// It is pure: objects and the time go in, a Decision or a status comes out.
package plan
