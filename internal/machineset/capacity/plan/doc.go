// Package plan decides which annotations with the capacity of its Nodes a MachineSet gets, and which of them are a user's.
package plan
